"""The server's log: set-up and the one line per request. Prompts and answers are logged only if that is asked for."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Final

from deepinfer.errors import EngineError
from deepinfer.server.errors import HttpError
from deepinfer.server.exchange import Exchange

_PLAIN: Final = re.compile(r"[\w.:/@+=\[\]-]+", re.ASCII)

logger: Final = logging.getLogger(__name__)
request_log: Final = logging.getLogger("deepinfer.request")
text_log: Final = logging.getLogger("deepinfer.text")


def configure_logging(level: str) -> None:
    """Send the log to standard error. uvicorn's own lines would say what ours say already; only faults pass."""
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    if level != "debug":
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        logging.getLogger("asyncio").setLevel(logging.ERROR)


def log_exchange(exchange: Exchange) -> None:
    """Write the line of a request that has ended."""
    if request_log.isEnabledFor(logging.INFO):
        request_log.info(describe_exchange(exchange, duration=time.monotonic() - exchange.started))


def log_text(exchange: Exchange, what: str, text: str) -> None:
    """Write the text of a prompt or an answer, for those who asked for it."""
    text_log.info("%s request_id=%s text=%s", what, exchange.request_id, json.dumps(text, ensure_ascii=False))


def log_failure(exchange: Exchange, error: Exception) -> None:
    """Write why a request failed by the server's fault; where it failed too, if nobody foresaw it."""
    foreseen = isinstance(error, (HttpError, EngineError))
    logger.error("request %s failed: %s", exchange.request_id, error, exc_info=None if foreseen else error)


def describe_exchange(exchange: Exchange, *, duration: float) -> str:
    """Render a request as `key=value` pairs; what is not known is left out."""
    pairs: dict[str, object] = {
        "method": exchange.method,
        "path": exchange.path,
        "status": exchange.status,
        "client": exchange.client or None,
        "model": exchange.model,
        "prompt_tokens": exchange.prompt_tokens,
        "cached_tokens": exchange.cached_tokens,
        "completion_tokens": exchange.completion_tokens if exchange.prompt_tokens is not None else None,
        "first_token_seconds": None if exchange.first_token is None else f"{exchange.first_token:.3f}",
        "seconds": f"{duration:.3f}",
        "finish_reason": exchange.finish_reason,
        "error": exchange.error_code,
        "warnings": json.dumps(list(exchange.warnings)) if exchange.warnings else None,
        "request_id": exchange.request_id,
    }
    return " ".join(f"{key}={_plain(str(value))}" for key, value in pairs.items() if value is not None)


def _plain(value: str) -> str:
    """Quote what a client could use to forge a line or a pair."""
    value = value[:200]
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
