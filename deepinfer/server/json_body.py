"""Request bodies of the server's own paths, and the members of others that the codec does not report, typed.

Reads a body in one pass and builds nothing of what is not asked for. Gateways may send MessagePack in place of JSON:
bytes need no base64 in it.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from deepinfer.server.errors import HttpError

T = TypeVar("T")

# What the reader's own messages end with.
_PLACE: Final = re.compile(r" - at `(?:key` in `)?\$\.?(.*)`$")
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_json(body: bytes, form: type[T]) -> T:
    """Read a body. Raises a 400 that names the member at fault."""
    try:
        # The reader looks at no text of members that it skips.
        body.decode()
        return msgspec.json.decode(body, type=form)
    except _FAULTS as error:
        raise _refusal(error, "JSON") from None


def read_msgpack(body: bytes, form: type[T]) -> T:
    """Read a body of MessagePack. Raises a 400 that names the member at fault."""
    try:
        return msgspec.msgpack.decode(body, type=form)
    except _FAULTS as error:
        raise _refusal(error, "MessagePack") from None


def _refusal(error: Exception, name: str) -> HttpError:
    if isinstance(error, RecursionError):
        return HttpError(400, "nesting_too_deep", "the request body is nested too deeply")
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return HttpError(400, f"invalid_{name.lower()}", f"the request body is not valid {name}: {_plain(text)}")
    place = _PLACE.search(text)
    param = place.group(1) if place and place.group(1) else None
    fault = _plain(_PLACE.sub("", text))
    return HttpError(400, "invalid_type", f"{param or 'the request body'}: {fault}", param=param)


def _plain(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
