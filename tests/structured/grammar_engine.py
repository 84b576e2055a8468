"""An engine for tests of grammars: llguidance over tokens of single bytes and the model's own control tokens."""

import functools
from collections.abc import Sequence

import llguidance

import deepseek_recipe as recipe

DSML = 128_825
EOS = 1


class _Vocabulary:
    """What `llguidance.TokenizerWrapper` wants of a tokenizer: most ids stand for nothing."""

    eos_token_id = EOS
    bos_token_id = None

    def __init__(self) -> None:
        tokenizer = recipe.Tokenizer.built_in("v4")
        self.tokens = [b""] * (DSML + 1)
        self.special_token_ids = [EOS, DSML]
        for special in self.special_token_ids:
            self.tokens[special] = tokenizer.decode([special]).encode()
        self.bytes: dict[int, int] = {}
        for byte in range(256):
            # Ids of single bytes: no other test needs to know them, so they are any that are free.
            self.bytes[byte] = 100_000 + byte
            self.tokens[100_000 + byte] = bytes([byte])

    def __call__(self, text: bytes) -> list[int]:
        return [self.bytes[byte] for byte in text]


@functools.cache
def tokenizer() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary()))


def ids(text: str) -> list[int]:
    """`text` in tokens, the DSML mark as its control token."""
    pieces = text.split("｜DSML｜")
    return [token for piece in pieces for token in [DSML, *(100_000 + byte for byte in piece.encode())]][1:]


def accepted(grammar: str, tokens: Sequence[int]) -> int:
    """How many of `tokens` the grammar lets through; one more than there are if the answer may end after them."""
    matcher = llguidance.LLMatcher(tokenizer(), grammar)
    assert not matcher.is_error(), f"{matcher.get_error()}\n{grammar}"
    count: int = matcher.validate_tokens(list(tokens))
    if count < len(tokens):
        return count
    assert matcher.consume_tokens(list(tokens))
    return count + bool(matcher.is_accepting())


def accepts(grammar: str, text: str) -> bool:
    """Whether `text` is a whole answer to `grammar`."""
    tokens = ids(text)
    return accepted(grammar, tokens) == len(tokens) + 1
