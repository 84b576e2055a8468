"""The one handler behind all generation paths: a body and a protocol's name in, bytes out."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Final
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

import deepseek_recipe as recipe
from deepinfer.server.body import read_body
from deepinfer.server.bridge import Transcript, engine_requests
from deepinfer.server.errors import ClientGoneError, in_mid_answer
from deepinfer.server.exchange import Exchange, exchange_of
from deepinfer.server.generation import Generation
from deepinfer.server.logging import log_failure
from deepinfer.server.protocols import ID_PREFIXES, ProtocolName
from deepinfer.server.refusals import refuse_what_cannot_be_honoured
from deepinfer.server.services import Services
from deepinfer.server.stream import EventSender, run_while_connected, send_json

# Below this size, encoding takes less time than handing it to a thread.
_THREAD_BYTES: Final = 16 * 1024


class GenerateEndpoint:
    """Answers a request to generate, streaming or not, in one protocol."""

    def __init__(self, services: Services, protocol: ProtocolName) -> None:
        self._services = services
        self._protocol = protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        exchange = exchange_of(scope)
        encoded = await encode_request(scope, receive, self._services, self._protocol)
        exchange.model = encoded.model
        refuse_what_cannot_be_honoured(encoded, self._services.config)
        answer_id = ID_PREFIXES[self._protocol] + uuid4().hex
        requests = engine_requests(encoded, answer_id=answer_id, context_length=self._services.model.context_length)
        decoder = encoded.decoder(id=answer_id, created=int(time.time()), seed=os.urandom(16))
        exchange.prompt_tokens = len(encoded.token_ids)
        generation = Generation(self._services.engine, requests)
        transcript = Transcript(
            decoder,
            generation,
            exchange,
            choices=len(requests),
            fingerprint=self._services.fingerprint,
            single_call=encoded.constraint is not None and encoded.constraint.single_call,
        )
        answer = _Answer(self._services, exchange, decoder, generation, transcript)
        work = answer.stream(send) if encoded.stream else answer.send_whole(send)
        await run_while_connected(receive, work)


class CountEndpoint:
    """Answers how many tokens a request's prompt has, without generating."""

    def __init__(self, services: Services, protocol: ProtocolName) -> None:
        self._services = services
        self._protocol = protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        encoded = await encode_request(scope, receive, self._services, self._protocol)
        exchange_of(scope).model = encoded.model
        answer: dict[str, object] = {"input_tokens": len(encoded.token_ids)}
        if self._protocol == "responses":
            answer["object"] = "response.input_tokens"
        await send_json(send, json.dumps(answer).encode())


class _Answer:
    """One answer on its way out, in either form. The stream is the truth; the whole body is its fold."""

    def __init__(
        self,
        services: Services,
        exchange: Exchange,
        decoder: recipe.Decoder,
        generation: Generation,
        transcript: Transcript,
    ) -> None:
        self._services = services
        self._exchange = exchange
        self._decoder = decoder
        self._generation = generation
        self._transcript = transcript

    async def send_whole(self, send: Send) -> None:
        """Send the answer as one JSON body."""
        wait_seconds = self._services.config.keep_alive_seconds
        async with self._generation:
            with self._services.live.tracking(self._generation):
                while not self._transcript.finished:
                    self._transcript.accept(await self._generation.next_outputs(wait_seconds=wait_seconds))
        await send_json(send, self._decoder.response())

    async def stream(self, send: Send) -> None:
        """Send the answer as events. A failure after the first event becomes the protocol's own error event."""
        sender = EventSender(send, idle_seconds=self._services.config.send_idle_seconds)
        try:
            async with self._generation:
                with self._services.live.tracking(self._generation):
                    await self._stream_outputs(sender)
        except ClientGoneError:
            raise
        except Exception as error:
            if not sender.started:
                raise
            failure = in_mid_answer(error)
            self._exchange.error_code = failure.code
            log_failure(self._exchange, error)
            await sender.push(self._decoder.fail(failure))
        await sender.close()

    async def _stream_outputs(self, sender: EventSender) -> None:
        wait_seconds = self._services.config.keep_alive_seconds
        while not self._transcript.finished:
            outputs = await self._generation.next_outputs(wait_seconds=wait_seconds)
            await sender.push(self._transcript.accept(outputs) if outputs else self._decoder.keep_alive())


async def encode_request(scope: Scope, receive: Receive, services: Services, protocol: ProtocolName) -> recipe.Encoded:
    """Read and encode a body; a long one in a thread, as the codec lets other threads run meanwhile."""
    config = services.config
    body = await read_body(
        Headers(scope=scope), receive, max_bytes=config.max_body_bytes, idle_seconds=config.body_idle_seconds
    )
    if len(body) < _THREAD_BYTES:
        return recipe.encode(body, protocol=protocol, options=services.options)
    return await asyncio.to_thread(recipe.encode, body, protocol=protocol, options=services.options)
