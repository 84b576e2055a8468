"""Ids of the model, in every form that Python hands them over."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pytest

import deepseek_recipe as recipe

IDS = list(recipe.Tokenizer.built_in("v4.1").encode("Some “text”, 中文 and code: `a < b`.\n" * 40))
FORMS: dict[str, Callable[[list[int]], Any]] = {
    "tuple": tuple,
    "array": lambda ids: array("I", ids),
    "memoryview": lambda ids: memoryview(array("I", ids)),
    "read-only view": lambda ids: memoryview(bytes(array("I", ids))).cast("I"),
    "numpy": lambda ids: numpy.array(ids, dtype=numpy.uint32),
    "numpy of 64 bits": lambda ids: numpy.array(ids, dtype=numpy.int64),
    "every second of a longer view": lambda ids: memoryview(array("I", [id for id in ids for _ in range(2)]))[::2],
}


def new_decoder() -> recipe.Decoder:
    """A decoder of a plain answer."""
    return recipe.Decoder("chat_completions", recipe.Parsing(), id="a", model="m", created=0, seed=b"")


def answer(pushes: Sequence[Any], decoder: recipe.Decoder | None = None) -> bytes:
    """All bytes of the answer to these pushes."""
    decoder = decoder or new_decoder()
    return b"".join(decoder.push(push) for push in pushes) + decoder.finish("stop") + decoder.response()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_alike(form: str) -> None:
    make = FORMS[form]
    parts = [IDS[:1], [], IDS[1:200], IDS[200:]]  # The last is long enough that the interpreter's lock is released.
    assert len(parts[-1]) > 256
    assert answer([make(part) for part in parts]) == answer(parts)


@pytest.mark.parametrize("ids", [["a"], [1.5], [-1], [1 << 32], 7, None, array("d", [1.0]), [IDS[0], 1 << 31]])
def test_what_are_no_ids_is_refused(ids: Any) -> None:
    decoder = new_decoder()
    with pytest.raises((TypeError, ValueError, OverflowError, recipe.RequestError)):
        decoder.push(ids)
    assert answer([IDS], decoder) == answer([IDS]), "something of the refused push was taken"


def test_a_push_makes_one_event() -> None:
    decoder = new_decoder()
    decoder.push(IDS)
    assert [isinstance(event, recipe.Event.Text) for event in decoder.events()] == [True]
