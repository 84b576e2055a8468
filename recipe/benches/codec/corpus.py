"""Texts to measure with, from the files of the machine: code, English, Chinese and JSON, no piece used twice.

Owns: which files are of which kind and how they are mixed. Must not know: engines. The mix is by bytes: 40 % code, 25 %
English, 15 % Chinese, 20 % JSON. Equal machines give equal texts.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
from collections.abc import Iterator

SHARES = {"code": 0.40, "English": 0.25, "Chinese": 0.15, "JSON": 0.20}
SUFFIXES = {
    ".py": "code",
    ".rs": "code",
    ".c": "code",
    ".h": "code",
    ".js": "code",
    ".md": "English",
    ".txt": "English",
}
SUFFIXES |= {".rst": "English", ".json": "JSON", ".jsonl": "JSON"}
PIECE = 6000
"""Bytes of a piece, about."""
LARGEST_FILE = 1 << 20
ENOUGH = 24 << 20
"""Bytes of each kind after which no more files are read."""


@dataclasses.dataclass(frozen=True)
class Text:
    """A text of the corpus, in a file."""

    name: str
    path: pathlib.Path
    size: int


def kind_of(path: str, text: str) -> str | None:
    """Kind of a file: a text of which a tenth is Han is Chinese whatever its name."""
    han = sum("\u4e00" <= character <= "\u9fa5" for character in text[:20_000])
    return "Chinese" if han * 10 > min(len(text), 20_000) else SUFFIXES.get(pathlib.Path(path).suffix)


def files(roots: list[str]) -> Iterator[str]:
    """Paths of files that may be of use, in order."""
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            yield from (os.path.join(folder, name) for name in sorted(names) if pathlib.Path(name).suffix in SUFFIXES)


def pieces(roots: list[str], seed: int) -> dict[str, list[str]]:
    """Pieces of each kind, shuffled."""
    found: dict[str, list[str]] = {kind: [] for kind in SHARES}
    sizes = dict.fromkeys(SHARES, 0)
    paths = list(files(roots))
    chance = random.Random(seed)
    chance.shuffle(paths)
    for path in paths:
        try:
            if not 500 < os.path.getsize(path) < LARGEST_FILE:
                continue
            text = pathlib.Path(path).read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        kind = kind_of(path, text)
        if kind and sizes[kind] < ENOUGH:
            length = PIECE // 3 if kind == "Chinese" else PIECE
            found[kind] += [text[start : start + length] for start in range(0, len(text), length)]
            sizes[kind] += len(text.encode())
        if min(sizes.values()) >= ENOUGH:
            break
    for kind in found:
        chance.shuffle(found[kind])
    return found


def mixed(found: dict[str, list[str]], size: int) -> str:
    """Takes pieces of all kinds, up to `size` bytes."""
    taken: dict[str, list[str]] = {kind: [] for kind in SHARES}
    bytes_of = dict.fromkeys(SHARES, 0)
    while sum(bytes_of.values()) < size:
        kind = min((kind for kind in SHARES if found[kind]), key=lambda kind: bytes_of[kind] / SHARES[kind])
        piece = found[kind].pop()
        taken[kind].append(piece)
        bytes_of[kind] += len(piece.encode())
    parts = [piece for kind in SHARES for piece in taken[kind]]
    random.Random(size).shuffle(parts)
    return "".join(parts).encode()[:size].decode(errors="ignore")


def adversarial(size: int, seed: int) -> dict[str, str]:
    """Texts that are one word."""
    chance = random.Random(seed)
    return {
        "one letter": "a" * size,
        "random letters": "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=size)),
        "random Han": "".join(chr(chance.randrange(0x4E00, 0x9FA6)) for _ in range(size // 3)),
        "spaces": " " * size,
        "newlines": "\n" * size,
        "digits": "".join(chance.choices("0123456789", k=size)),
    }


def build(roots: list[str], folder: pathlib.Path, seed: int = 0) -> dict[str, list[Text]]:
    """Writes all texts and gives them by group: `warm-up`, then a group for each size, then the adversarial ones."""
    folder.mkdir(parents=True, exist_ok=True)
    found = pieces(roots, seed)

    def write(name: str, text: str) -> Text:
        path = folder / f"{name.replace(' ', '-')}.txt"
        path.write_bytes(text.encode())
        return Text(name, path, len(text.encode()))

    groups = {"warm-up": [write("warm-up", mixed(found, 1_700_000))]}
    plan = {"1 KB": (16, 1_000), "10 KB": (12, 10_000), "77k tokens": (2, 278_000), "300k tokens": (1, 1_080_000)}
    for name, (count, size) in (plan | {"1M tokens": (1, 3_600_000)}).items():
        groups[name] = [write(f"{name} {number}", mixed(found, size)) for number in range(count)]
    for size in (100_000, 400_000):
        texts = adversarial(size, seed)
        groups[f"one word of {size // 1000} KB"] = [write(f"{name} {size}", text) for name, text in texts.items()]
    return groups
