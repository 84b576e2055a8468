"""Hands the engine what a tokenizer's ids spell, as the engine itself knows no text."""

from __future__ import annotations

from collections.abc import Sequence

import deepseek_recipe as recipe
from deepinfer.prompt_format import PromptFormat


def token_texts(version: PromptFormat) -> list[tuple[str, str]]:
    """Text of each token decoded alone, and its piece in the byte alphabet of byte-level BPE (Radford et al. 2019)."""
    tokenizer = recipe.Tokenizer.built_in(version)
    alphabet = _byte_alphabet()
    spelled = (tokenizer.decode_bytes([token_id]) for token_id in range(tokenizer.vocabulary_size))
    return [(data.decode("utf-8", "replace"), "".join(alphabet[byte] for byte in data)) for data in spelled]


def spell(version: PromptFormat, token_ids: Sequence[int]) -> str:
    """Text of ids, control tokens as their spellings."""
    return recipe.Tokenizer.built_in(version).decode(token_ids)


def _byte_alphabet() -> list[str]:
    """Visible character of each byte: itself where it is one, else the next free one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) if byte in visible else chr(256 + hidden.index(byte)) for byte in range(256)]
