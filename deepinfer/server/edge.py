"""The outermost layer of the server: request ids, access, errors to envelopes, one log line and one count a request.

Whatever a handler raises ends here; nothing but the protocols' own JSON leaves. Knows nothing of engines.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from deepinfer.server.errors import ClientGoneError, answer_for
from deepinfer.server.exchange import Exchange, attach_exchange, choose_request_id
from deepinfer.server.logging import log_exchange, log_failure
from deepinfer.server.protocols import protocol_of_path
from deepinfer.server.routes import OPEN_PATHS
from deepinfer.server.services import Services
from deepinfer.server.stream import send_json


class Edge:
    """ASGI application around a router."""

    def __init__(self, router: Router, services: Services) -> None:
        self._router = router
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request. Other kinds of connection are closed."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        headers = Headers(scope=scope)
        exchange = Exchange(
            request_id=choose_request_id(headers.get("x-request-id")), method=scope["method"], path=scope["path"]
        )
        attach_exchange(scope, exchange)
        # The router raises for unknown paths and methods only when it stands inside an application.
        scope["app"] = self
        self._services.metrics.open_request()
        try:
            await self._serve(scope, headers, receive, _Recorder(send, exchange), exchange)
        finally:
            self._services.metrics.report(exchange)
            log_exchange(exchange)

    async def _serve(
        self, scope: Scope, headers: Headers, receive: Receive, send: _Recorder, exchange: Exchange
    ) -> None:
        try:
            if exchange.path not in OPEN_PATHS:
                exchange.client = self._services.keyring.identify(headers)
            await self._router(scope, receive, send)
        except ClientGoneError:
            exchange.finish_reason = "disconnected"
        except Exception as error:
            await _send_error(send, error, exchange)
        finally:
            route = scope.get("route")
            exchange.route = getattr(route, "path", "unmatched")


class _Recorder:
    """`send` that adds the request id and notes the status."""

    def __init__(self, send: Send, exchange: Exchange) -> None:
        self._send = send
        self._exchange = exchange

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._exchange.status = message["status"]
            request_id = self._exchange.request_id.encode()
            message["headers"] = [
                *message.get("headers", ()),
                (b"x-request-id", request_id),
                (b"request-id", request_id),
                *((name.encode(), value.encode("latin-1")) for name, value in self._exchange.headers.items()),
            ]
        await self._send(message)


async def _send_error(send: _Recorder, error: Exception, exchange: Exchange) -> None:
    protocol = protocol_of_path(exchange.path)
    answer = answer_for(error, protocol, method=exchange.method, path=exchange.path)
    exchange.error_code = answer.code
    if answer.status >= 500:
        log_failure(exchange, error)
    if exchange.status is not None:
        # Half an answer is out: the connection is closed by the missing end, which is all that HTTP leaves to say.
        return
    await send_json(send, answer.body, status=answer.status, headers=answer.headers)
