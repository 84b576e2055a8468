"""Which protocol each path speaks. Knows nothing of bodies."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

ProtocolName: TypeAlias = Literal["chat_completions", "responses", "messages"]

# The first path of each is the protocol's own; the others are DeepSeek's, and what clients make of a base address.
CHAT_PATHS: Final[dict[ProtocolName, tuple[str, ...]]] = {
    "chat_completions": ("/v1/chat/completions", "/chat/completions", "/beta/chat/completions"),
    "responses": ("/v1/responses", "/responses", "/beta/responses"),
    "messages": ("/v1/messages", "/anthropic/v1/messages", "/anthropic/messages"),
}

COUNT_PATHS: Final[dict[ProtocolName, tuple[str, ...]]] = {
    "responses": tuple(f"{path}/input_tokens" for path in CHAT_PATHS["responses"]),
    "messages": tuple(f"{path}/count_tokens" for path in CHAT_PATHS["messages"]),
}

COMPLETION_PATHS: Final = ("/v1/completions", "/completions", "/beta/completions")
MODELS_PATHS: Final = ("/v1/models", "/models", "/beta/models", "/anthropic/v1/models")

ID_PREFIXES: Final[dict[ProtocolName, str]] = {
    "chat_completions": "chatcmpl-",
    "responses": "resp_",
    "messages": "msg_",
}


def protocol_of_path(path: str) -> ProtocolName:
    """Name the protocol whose error envelope fits `path`; Chat Completions where nothing better is known."""
    if "/messages" in path or path.startswith("/anthropic"):
        return "messages"
    if "/responses" in path:
        return "responses"
    return "chat_completions"
