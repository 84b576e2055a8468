"""Items of stored responses: listed as the API lists them, and found by their ids."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from deepinfer.server.responses.store.interface import StoredResponse

_INPUT_PREFIX: Final = "item_"

Item = dict[str, Any]


def input_items(response: StoredResponse) -> list[Item]:
    """The items a response answered, in order, each with an id and in its long form."""
    items: list[Item] = msgspec.json.decode(response.input_items)
    stem = _INPUT_PREFIX + response.id
    return [_long_form(item, f"{stem}_{place}") for place, item in enumerate(items) if isinstance(item, dict)]


def _long_form(item: Item, own_id: str) -> Item:
    long = {"id": own_id, "type": "message", **item}
    long["id"] = long["id"] or own_id
    if long["type"] == "message":
        long.setdefault("status", "completed")
        content = long.get("content")
        if isinstance(content, str):
            long["content"] = [_text_part(long.get("role"), content)]
    return long


def _text_part(role: object, text: str) -> Item:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def response_id_of(item_id: str) -> str | None:
    """The id of the response that an item belongs to, which is part of the item's own."""
    start = item_id.find("resp_")
    if start < 0:
        return None
    return item_id[start:].rpartition("_")[0] or None


def find_item(response: StoredResponse, item_id: str) -> Item | None:
    """The item of a response that has this id, of its input or of its output."""
    output: list[Item] = msgspec.json.decode(response.body)["output"]
    return next((item for item in [*output, *input_items(response)] if item.get("id") == item_id), None)
