"""Request bodies of the server's own paths, and the members of others that the codec does not report, typed.

Reads a body in one pass and builds nothing of what is not asked for.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from deepinfer.server.errors import HttpError

T = TypeVar("T")

# What the reader's own messages end with.
_PLACE: Final = re.compile(r" - at `(key in )?\$\.?(.*)`$")


def read_json(body: bytes, form: type[T]) -> T:
    """Read a body. Raises a 400 that names the member at fault."""
    try:
        # The reader looks at no text of members that it skips.
        body.decode()
        return msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        text = str(error)
        place = _PLACE.search(text)
        param = place.group(2) if place and place.group(2) else None
        fault = _PLACE.sub("", text)
        raise HttpError(400, "invalid_type", f"{param or 'the request body'}: {_plain(fault)}", param=param) from None
    except RecursionError:
        raise HttpError(400, "nesting_too_deep", "the request body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"the request body is not valid JSON: {_plain(str(error))}"
        raise HttpError(400, "invalid_json", message) from None


def _plain(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
