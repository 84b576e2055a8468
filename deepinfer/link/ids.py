"""Token ids as bytes: four each, the lowest first."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Final

ID_BYTES: Final = 4


def ids_to_bytes(token_ids: Sequence[int]) -> bytes:
    """Write ids. Costs a copy where they are packed. Raises OverflowError for ids that have no place in four bytes."""
    if sys.byteorder == "little" and isinstance(token_ids, memoryview) and token_ids.format == "I":
        return token_ids.tobytes()
    ids = array("I", token_ids)
    if sys.byteorder != "little":
        ids.byteswap()
    return ids.tobytes()


def ids_from_bytes(data: bytes) -> memoryview:
    """Read ids, without a copy where the processor's order is that of the bytes. Raises ValueError for a rest."""
    if len(data) % ID_BYTES:
        raise ValueError(f"{len(data)} bytes are no ids of {ID_BYTES} bytes each")
    if sys.byteorder == "little":
        return memoryview(data).cast("I")
    ids = array("I", data)
    ids.byteswap()
    return memoryview(ids)
