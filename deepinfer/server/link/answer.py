"""One request that came over a link: checked, counted and logged like any other, and its outputs sent."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Protocol

from deepinfer.core import FinishReason, OutputStream, Request, StepOutput
from deepinfer.errors import EngineError
from deepinfer.link.ids import ids_from_bytes
from deepinfer.link.messages import Failed, Submit
from deepinfer.server.completions.request import MAX_LOGPROBS, MAX_SEED, check_number, check_stop_ids
from deepinfer.server.errors import HttpError, in_mid_answer
from deepinfer.server.exchange import Exchange
from deepinfer.server.generate import queue_position
from deepinfer.server.logging import log_exchange, log_failure, log_text
from deepinfer.server.services import Services


class Outlet(Protocol):
    """Where an answer goes."""

    @property
    def is_full(self) -> bool:
        """Whether an answer has to wait."""

    def send_output(self, number: int, output: StepOutput, *, is_first: bool) -> None:
        """Send an output; the first of an answer is in haste."""

    def send_failure(self, number: int, failed: Failed) -> None:
        """Say what ended a request."""

    def forget(self, number: int) -> None:
        """Take note that an answer has ended."""


class LinkAnswer:
    """An answer to the request `number` of a link, which the engine knows as `engine_id`.

    `begin` or `refuse` comes first. The exchange is reported at the end.
    """

    def __init__(self, outlet: Outlet, number: int, engine_id: str, services: Services, exchange: Exchange) -> None:
        self._outlet = outlet
        self._number = number
        self._services = services
        self._engine_id = engine_id
        self._exchange = exchange
        self._is_admitted = False
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._is_paused = False
        self._gate: asyncio.Future[None] | None = None
        # Only what the log is to hold.
        self._written: list[int] | None = [] if services.config.log_prompts else None
        services.metrics.open_request()

    def begin(self, submit: Submit, client: str) -> None:
        """Hand the request of a client to the engine. Raises what stands against it."""
        services, exchange = self._services, self._exchange
        exchange.client = client
        services.limits.enter(client)
        self._is_admitted = True
        queue_position(services)
        request = _request(submit, self._engine_id, services)
        if services.config.log_prompts:
            log_text(exchange, "prompt", services.tokenizer.decode(request.token_ids))
        stream = services.engine.submit(request)
        exchange.prompt_tokens = len(request.token_ids)
        services.live.add(self, exchange)
        exchange.status = 200
        self._task = asyncio.get_running_loop().create_task(self._run(stream))
        self._task.add_done_callback(lambda _: self._close())

    def refuse(self, error: Exception) -> None:
        """End it before it began."""
        self._fail(error)
        self._close()

    def pause(self) -> None:
        """Send nothing more until `resume`: the gateway's client reads slowly."""
        self._is_paused = True

    def resume(self) -> None:
        """Send on."""
        self._is_paused = False
        self.go_on()

    def go_on(self) -> None:
        """Look again whether there is anything to wait for."""
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def leave(self) -> None:
        """End it: nobody waits for it any more."""
        self._exchange.finish_reason = "disconnected"
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """End it from outside: the gateway is told so."""
        self._services.engine.abort(self._engine_id)

    def cancel(self) -> None:
        """End it by its client's wish."""
        self._is_cancelled = True
        self.abort()

    async def _run(self, stream: OutputStream) -> None:
        try:
            async with aclosing(stream):
                async for output in stream:
                    self._send(output)
                    # Behind the last there is nothing to hold back, and nobody who would say that it may go on.
                    while output.finish_reason is None and (self._is_paused or self._outlet.is_full):
                        self._gate = asyncio.get_running_loop().create_future()
                        await self._gate
        except Exception as error:
            self._fail(error)

    def _send(self, output: StepOutput) -> None:
        if output.finish_reason is FinishReason.ABORT:
            if self._is_cancelled:
                raise HttpError(499, "request_cancelled", "the request was cancelled by its client")
            raise EngineError("the server is shutting down; send the request again", code="server_shutting_down")
        exchange = self._exchange
        is_first = exchange.first_token is None
        exchange.count_tokens(len(output.token_ids) + output.text_tokens)
        if output.cached_tokens is not None:
            exchange.cached_tokens = output.cached_tokens
        if output.finish_reason is not None:
            exchange.finish_reason = output.finish_reason.value
        if self._written is not None:
            self._written += output.token_ids
        self._outlet.send_output(self._number, output, is_first=is_first)

    def _fail(self, error: Exception) -> None:
        failure, exchange = in_mid_answer(error), self._exchange
        failed = Failed(failure.status_code, failure.code, str(failure), failure.param)
        self._outlet.send_failure(self._number, failed)
        exchange.error_code = failed.code
        if exchange.first_token is None:
            exchange.status = failed.status
        if failed.status >= 500:
            log_failure(exchange, error)

    def _close(self) -> None:
        exchange, services = self._exchange, self._services
        # Where its task was ended before its first turn, the stream was not closed.
        services.engine.abort(self._engine_id)
        services.live.discard(self)
        if self._is_admitted:
            services.limits.leave(exchange.client)
        if self._written:
            log_text(exchange, "answer", services.tokenizer.decode(self._written))
        services.metrics.report(exchange)
        log_exchange(exchange)
        self._outlet.forget(self._number)


def _request(submit: Submit, engine_id: str, services: Services) -> Request:
    sampling = submit.sampling
    check_number("sampling.seed", sampling.seed, -MAX_SEED, MAX_SEED - 1)
    check_number("sampling.top_logprobs", sampling.top_logprobs, 0, MAX_LOGPROBS)
    check_stop_ids(sampling.stop_token_ids, services)
    try:
        token_ids = ids_from_bytes(submit.ids)
    except ValueError as error:
        raise HttpError(400, "invalid_type", f"ids: {error}", param="ids") from None
    return Request(
        request_id=engine_id,
        token_ids=token_ids,
        sampling=sampling,
        grammar=submit.grammar,
        thinking_limit=submit.thinking_limit,
    )
