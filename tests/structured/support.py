"""What the tests of structured output share: vocabularies, and ways to write and walk an answer by hand."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

import deepseek_recipe as recipe
from deepinfer.core import Vocabulary
from deepinfer.server.vocabulary import read_vocabulary
from deepinfer.structured.constraint import Constraint, Matcher

# Of the small vocabulary: a token per byte, then control tokens.
END, THINK_END, MARK, OTHER = 256, 257, 258, 259
SMALL_SIZE = 260


def small_vocabulary() -> Vocabulary:
    """A token per byte and four control tokens, so that setting it up takes no time."""
    names = [b"<end>", b"</think>", b"mark", b"<other>"]
    return Vocabulary(
        token_bytes=[bytes([value]) for value in range(256)] + names,
        control_ids=frozenset({END, THINK_END, MARK, OTHER}),
        end_token_id=END,
        encode=lambda text: list(text.encode()),
    )


@cache
def tokenizer() -> recipe.Tokenizer:
    return recipe.Tokenizer.built_in("v4.1")


@cache
def full_vocabulary() -> Vocabulary:
    """The vocabulary of V4.1."""
    return read_vocabulary("v4.1")


def control(spelling: str) -> int:
    """Id of a control token."""
    token_id = tokenizer().special_id(spelling)
    assert token_id is not None
    return token_id


def allowed(constraint: Constraint | Matcher, size: int = SMALL_SIZE) -> set[int] | None:
    """Tokens that may come next; None if any may."""
    words: NDArray[np.uint32] = np.full(-(-size // 32), 0xFFFFFFFF, dtype=np.uint32)
    if constraint.mask(words) is False:
        return None
    bits = np.unpackbits(words.view(np.uint8), count=size, bitorder="little")
    return set(bits.nonzero()[0].tolist())
