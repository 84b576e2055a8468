"""Which protocol each path speaks. The only place that knows paths; knows nothing of bodies."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

ProtocolName: TypeAlias = Literal["chat_completions", "responses", "messages"]

GENERATION_PATHS: Final[dict[str, ProtocolName]] = {
    "/v1/chat/completions": "chat_completions",
    "/chat/completions": "chat_completions",
    "/beta/chat/completions": "chat_completions",
    "/v1/responses": "responses",
    "/responses": "responses",
    "/v1/messages": "messages",
    "/anthropic/v1/messages": "messages",
}

COUNT_PATHS: Final[dict[str, ProtocolName]] = {
    "/v1/responses/input_tokens": "responses",
    "/v1/messages/count_tokens": "messages",
    "/anthropic/v1/messages/count_tokens": "messages",
}

ID_PREFIXES: Final[dict[ProtocolName, str]] = {
    "chat_completions": "chatcmpl-",
    "responses": "resp_",
    "messages": "msg_",
}


def protocol_of_path(path: str) -> ProtocolName:
    """Name the protocol whose error envelope fits `path`; Chat Completions where nothing better is known."""
    known = GENERATION_PATHS.get(path) or COUNT_PATHS.get(path)
    if known is not None:
        return known
    if "/messages" in path or path.startswith("/anthropic"):
        return "messages"
    if "/responses" in path:
        return "responses"
    return "chat_completions"
