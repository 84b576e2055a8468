"""Joins tokens that spell the same but for case, accents and spaces: the compressed vocabulary of Engram.

Source: architecture notes of DeepSeek-V4.1, compressed token id. Knows text, but no tokenizer: the server hands the
texts down. Imports no torch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_REPLACEMENT: Final = "�"
# Stands for a lone space while the ends are stripped; no normal form changes a private-use character.
_SPACE: Final = "\ue000"
_SPACES: Final = re.compile(r"[ \t\r\n]+")


def token_key(text: str, piece: str) -> str:
    """What tokens of one compressed id share: `text` normalised, or `piece` where the text alone is not UTF-8.

    NFKC, NFD, all marks dropped, lower case, runs of white space to one space, ends stripped. A text that is one space
    by then stays one. What becomes empty falls back to the text.
    """
    if _REPLACEMENT in text:
        return piece
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    folded = "".join(character for character in folded if unicodedata.category(character)[0] != "M").lower()
    folded = _SPACES.sub(" ", folded)
    folded = _SPACE if folded == " " else folded
    return folded.strip().replace(_SPACE, " ") or text


def token_map(tokens: Iterable[tuple[str, str]]) -> list[int]:
    """Compressed id of each token, given its text, decoded alone, and its raw piece: ids in order of first sight."""
    ids: dict[str, int] = {}
    return [ids.setdefault(token_key(text, piece), len(ids)) for text, piece in tokens]
