"""Paths that count and convert tokens and generate nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import exchange_of
from deepinfer.server.images.resolve import prompt_ids
from deepinfer.server.json_body import read_json
from deepinfer.server.protocols import ProtocolName
from deepinfer.server.reading import off_the_loop, read_whole_body
from deepinfer.server.services import Services
from deepinfer.server.stream import send_json
from deepinfer.server.surfaces import CodecSurface


class CountEndpoint:
    """Answers how many tokens a request's prompt has."""

    def __init__(self, services: Services, protocol: ProtocolName) -> None:
        self._services = services
        self._surface = CodecSurface(protocol)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        exchange = exchange_of(scope)
        with self._services.limits.admit(exchange.client):
            body = await read_whole_body(scope, receive, self._services)
            encoded = await self._surface.encode(body, exchange.client, self._services)
            token_ids = await prompt_ids(encoded, self._services.model, self._services.images)
            exchange.model = encoded.model
            exchange.show_warnings(encoded.warnings)
            answer: dict[str, object] = {"input_tokens": len(token_ids)}
            if self._surface.protocol == "responses":
                answer["object"] = "response.input_tokens"
            await send_json(send, msgspec.json.encode(answer))


class TokenizeRequest(msgspec.Struct):
    """Body of `/tokenize`: a text, or the messages of a chat with whatever else shapes its prompt."""

    prompt: str | None = None
    messages: Any = None
    model: str | None = None
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeRequest(msgspec.Struct):
    """Body of `/detokenize`."""

    tokens: list[int]
    model: str | None = None


class TokenizeEndpoint:
    """`POST /tokenize`. Control tokens spelled in a plain text are control tokens, as in `/v1/completions`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        with self._services.limits.admit(exchange_of(scope).client):
            body = await read_whole_body(scope, receive, self._services)
            await send_json(send, await off_the_loop(len(body), self._answer, body))

    def _answer(self, body: bytes) -> bytes:
        request = read_json(body, TokenizeRequest)
        if (request.prompt is None) == (request.messages is None):
            raise HttpError(400, "exactly_one", "the request must have exactly one of prompt and messages")
        services = self._services
        if request.messages is not None:
            ids = services.encode(body, "chat_completions").token_ids.tolist()
        else:
            if request.model is not None:
                services.check_model(request.model)
            ids = services.text_ids(request.prompt or "", begin=request.add_special_tokens)
        answer: dict[str, object] = {
            "count": len(ids),
            "max_model_len": services.model.context_length,
            "tokens": ids,
            "token_strs": [services.tokenizer.decode([id]) for id in ids] if request.return_token_strs else None,
        }
        return msgspec.json.encode(answer)


class DetokenizeEndpoint:
    """`POST /detokenize`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        with self._services.limits.admit(exchange_of(scope).client):
            body = await read_whole_body(scope, receive, self._services)
            await send_json(send, await off_the_loop(len(body), self._answer, body))

    def _answer(self, body: bytes) -> bytes:
        request = read_json(body, DetokenizeRequest)
        if request.model is not None:
            self._services.check_model(request.model)
        self._services.check_ids(request.tokens, "tokens")
        return msgspec.json.encode({"prompt": self._services.tokenizer.decode(request.tokens)})
