"""The three chat protocols' bodies, read by the codec: one way for all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

import deepseek_recipe as recipe
from deepinfer.core import Request
from deepinfer.server.bridge import engine_requests
from deepinfer.server.errors import HttpError
from deepinfer.server.images.resolve import prompt_ids
from deepinfer.server.protocols import ID_PREFIXES, ProtocolName
from deepinfer.server.reading import off_the_loop
from deepinfer.server.responses.extras import ResponsesExtras
from deepinfer.server.responses.service import StoreNeededError
from deepinfer.server.services import Services
from deepinfer.server.work import Work

_TOO_LONG: Final = "context_length_exceeded"


class CodecSurface:
    """A protocol that the codec reads and writes."""

    packed = False

    def __init__(self, protocol: ProtocolName) -> None:
        self.protocol: ProtocolName = protocol

    async def read(self, body: bytes, client: str, services: Services) -> Work:
        """Encode a body and check that the engine can do what it asks. Raises `RequestError` or `HttpError`."""
        encoded = await self.encode(body, client, services)
        token_ids = await prompt_ids(encoded, services.model, services.images)
        return await off_the_loop(len(body), self._work, body, encoded, token_ids, services)

    async def encode(self, body: bytes, client: str, services: Services) -> recipe.Encoded:
        """Encode a body. Raises `RequestError`."""
        if self.protocol != "responses":
            return await off_the_loop(len(body), services.encode, body, self.protocol)
        responses = services.responses
        try:
            return await off_the_loop(len(body), services.encode, body, self.protocol, lookup=responses.needed())
        except StoreNeededError:
            return await responses.with_lookup(client, lambda lookup: services.encode(body, "responses", lookup=lookup))

    def _work(self, body: bytes, encoded: recipe.Encoded, token_ids: Sequence[int], services: Services) -> Work:
        services.check_ids(list(encoded.sampling.logit_bias), "logit_bias")
        answer_id = ID_PREFIXES[self.protocol] + uuid4().hex
        extras = None
        if self.protocol == "responses":
            extras = ResponsesExtras.read(body, stream=encoded.stream, can_store=services.responses.can_store)
        return Work(
            answer_id=answer_id,
            model=encoded.model,
            stream=encoded.stream,
            requests=self._requests(encoded, token_ids, answer_id, services.model.context_length),
            decoder=_decoder(encoded, extras, answer_id, services),
            prompt_tokens=len(token_ids),
            prompt=lambda: encoded.prompt,
            single_call=encoded.constraint is not None and encoded.constraint.single_call,
            warnings=encoded.warnings,
            keeping=None if extras is None else extras.keeping,
        )

    def _requests(
        self, encoded: recipe.Encoded, token_ids: Sequence[int], answer_id: str, context_length: int
    ) -> list[Request]:
        try:
            return engine_requests(encoded, token_ids, answer_id=answer_id, context_length=context_length)
        except recipe.RequestError as error:
            if error.code != _TOO_LONG:
                raise
            message = _too_long(self.protocol, len(token_ids), encoded.sampling.max_tokens or 0, context_length)
            raise HttpError(400, _TOO_LONG, message) from None


def _too_long(protocol: ProtocolName, prompt: int, answer: int, limit: int) -> str:
    """Say so in the words by which clients know that they must shorten the conversation."""
    if protocol != "messages":
        return (
            f"This model's maximum context length is {limit} tokens. However, you requested {prompt + answer} tokens "
            f"({prompt} in the messages, {answer} in the completion). Shorten the messages or the completion."
        )
    if prompt >= limit:
        return f"prompt is too long: {prompt} tokens > {limit} maximum"
    return (
        f"input length and `max_tokens` exceed context limit: {prompt} + {answer} > {limit}, "
        "decrease input length or `max_tokens` and try again"
    )


def _decoder(
    encoded: recipe.Encoded, extras: ResponsesExtras | None, answer_id: str, services: Services
) -> Callable[[], recipe.Decoder]:
    """What makes the decoder. All that takes long where the request is long is done now, off the event loop."""
    if extras is None:
        return lambda: encoded.decoder(id=answer_id, created=int(time.time()), seed=os.urandom(16))
    parsing, echo = encoded.parsing, extras.added_to(encoded.echo)
    # As the codec has it: answers that go on in the middle of a turn are not recorded.
    whole = not parsing.starts_in_tool_calls and not parsing.initial_stage.endswith("continuation")
    return lambda: recipe.Decoder(
        "responses",
        parsing,
        id=answer_id,
        model=encoded.model,
        created=int(time.time()),
        seed=os.urandom(16),
        thinking=encoded.thinking,
        custom_tools=encoded.custom_tools,
        namespace_tools=encoded.namespace_tools,
        echo=echo,
        tokenizer=encoded.model_version,
        history_key=services.config.history_key if whole else None,
    )
