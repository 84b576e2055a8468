"""Grammars by llguidance: the only file that knows its matchers. All it raises is `EngineError`.

llguidance lets other threads run while it compiles a grammar and while it computes a mask. To it, control tokens are
bytes that no text has, but some grammars match any bytes (`~"x"`), so they are barred here once more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from deepinfer.core import Vocabulary
from deepinfer.errors import EngineError
from deepinfer.structured.constraint import Bits
from deepinfer.structured.limits import COMPILE_SECONDS, MASK_SECONDS, parser_limits
from deepinfer.structured.tokenizer import build_tokenizer

# Single tokens that a grammar asks for: ids and ranges of ids. What it asks for by exclusion are no control tokens.
_ASKED: Final = re.compile(r"<\[([0-9,\s-]+)\]>")
# How llguidance words that a grammar is beyond a limit, and that it has come to where nothing may follow; it has no
# other mark of either.
_LIMIT_WORDS: Final = (
    "limits.",
    "(limit",
    "recursion limit",
    "max is",
    "too large",
    "too big",
    "too deeply",
    "too many",
    "too complex",
    "assertion failed",
)
_DEAD_END_WORDS: Final = "NoExtension"


class Guidance:
    """A vocabulary, ready for grammars. Immutable."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Takes about 0.4 s for 129,280 tokens, and lets no other thread run meanwhile."""
        self._end_token_id = vocabulary.end_token_id
        self._tokenizer: LLTokenizer = build_tokenizer(
            vocabulary.token_bytes, vocabulary.control_ids, vocabulary.end_token_id, vocabulary.encode
        )
        self._texts = _words(
            len(vocabulary.token_bytes),
            (place for place in range(len(vocabulary.token_bytes)) if place not in vocabulary.control_ids),
        )

    def compile(self, text: str) -> CompiledGrammar:
        """Compile a grammar and find its first tokens.

        Raises `EngineError`: `invalid_grammar`, `grammar_too_complex`, or `grammar_dead_end` where nothing matches it.
        """
        start = time.thread_time()
        matcher = LLMatcher(self._tokenizer, text, log_level=0, limits=parser_limits())
        if matcher.is_error():
            raise refusal(matcher.get_error())
        asked = _words(32 * len(self._texts), [self._end_token_id, *_asked_ids(text, 32 * len(self._texts))])
        compiled = CompiledGrammar(matcher, self._texts | asked, self._end_token_id)
        # Also fills the caches that all sequences of this grammar start with.
        compiled.matcher().mask(np.zeros_like(self._texts))
        if time.thread_time() - start > COMPILE_SECONDS:
            raise too_complex(f"it takes longer than {COMPILE_SECONDS:g} s to compile")
        return compiled


class CompiledGrammar:
    """A grammar at its beginning, never moved; sequences get copies. May be shared by threads."""

    def __init__(self, beginning: LLMatcher, open_bits: Bits, end_token_id: int) -> None:
        self._beginning = beginning
        self._open_bits = open_bits
        self._end_token_id = end_token_id

    def matcher(self) -> GuidanceMatcher:
        """Start an answer."""
        return GuidanceMatcher(self._beginning.deep_copy(), self._open_bits, self._end_token_id)


class GuidanceMatcher:
    """`Matcher` over llguidance's. `open_bits` are all tokens but the control tokens that the grammar never asks for.

    The end of the answer is counted here, as llguidance cannot always take it back.
    """

    def __init__(self, matcher: LLMatcher, open_bits: Bits, end_token_id: int) -> None:
        self._matcher = matcher
        self._open_bits = open_bits
        self._end_token_id = end_token_id
        self._ended = False

    def mask(self, bits: Bits) -> None:
        """Fill `bits` with the tokens that may come next. Raises `EngineError` where none may, or at a limit."""
        start = time.thread_time()
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        if self._matcher.is_error():
            raise refusal(self._matcher.get_error())
        if time.thread_time() - start > MASK_SECONDS:
            raise too_complex(f"finding the next token takes longer than {MASK_SECONDS:g} s")
        bits &= self._open_bits
        if not bits.any():
            raise refusal(_DEAD_END_WORDS)

    def accept(self, token_id: int) -> None:
        """Take note of the next token. Raises `EngineError` for one that may not come next."""
        is_open = not self._ended and self._open_bits[token_id // 32] >> token_id % 32 & 1
        if is_open and token_id == self._end_token_id and self._matcher.is_accepting():
            self._ended = True
        elif not is_open or not self._matcher.consume_token(token_id):
            raise EngineError(f"the grammar has no place for token {token_id} here", code="grammar_violated")

    def rollback(self, count: int) -> None:
        """Forget the last `count` tokens. Raises ValueError if there were not so many."""
        if count and self._ended:
            self._ended = False
            count -= 1
        if count and not self._matcher.rollback(count):
            raise ValueError(f"cannot take back {count} tokens: {self._matcher.get_error()}")


def refusal(message: str) -> EngineError:
    """Turn what llguidance says of a grammar into an error; for a text at fault, it begins with line and column."""
    # What follows is the text at fault, which may be long, and the state of the parser.
    reason = message.partition("\n")[0][:500]
    if reason.startswith(_DEAD_END_WORDS):
        return EngineError(
            "the grammar leads to a place where nothing may follow and the answer may not end; change the grammar",
            code="grammar_dead_end",
            client_fault=True,
        )
    if any(words in reason.lower() for words in _LIMIT_WORDS):
        return too_complex(reason)
    return EngineError(f"the grammar cannot be compiled: {reason}", code="invalid_grammar", client_fault=True)


def too_complex(reason: str) -> EngineError:
    """Refuse a grammar that is beyond a limit."""
    return EngineError(
        f"the grammar is too complex: {reason}; make it smaller", code="grammar_too_complex", client_fault=True
    )


def _asked_ids(text: str, size: int) -> Iterable[int]:
    for match in _ASKED.finditer(text):
        for item in match[1].split(","):
            first, _, last = item.partition("-")
            if first.strip() and (last or first).strip():
                yield from range(int(first), min(int(last or first) + 1, size))


def _words(size: int, token_ids: Iterable[int]) -> Bits:
    flags = np.zeros(-(-size // 32) * 32, dtype=np.bool_)
    flags[list(token_ids)] = True
    return np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32)
