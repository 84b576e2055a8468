"""Long texts that Python does not hold as UTF-8: they are encoded piece by piece."""

from __future__ import annotations

import random
import sys
import threading

import pytest

from deepseek_recipe import Tokenizer

GROUP = 1 << 16
"""Characters above which a text is encoded so, and after which other threads of Python may run."""
TOKENIZER = Tokenizer.built_in("v4")


def text_of(length: int, rare: str) -> str:
    """Words, numbers, Han and line feeds, in as many bytes a character as `rare` asks for."""
    chance = random.Random(length)
    words = ["the", "Straße", "中文", "かな", "x=1;", "\n\n", "  ", "12345", rare, "don't", "e\u0301"]
    text = rare + " ".join(chance.choices(words, k=length))
    return text[:length]


def whole(text: str) -> list[int]:
    """Ids of a text that spells no control token, which is taken as a whole where it might."""
    return TOKENIZER.encode(text, special=True)


@pytest.mark.parametrize("rare", ["é", "中", "😀"])
@pytest.mark.parametrize("length", [GROUP, GROUP + 1, 2 * GROUP, 2 * GROUP + 1, 17 * GROUP + 77])
def test_ids_are_those_of_the_whole(length: int, rare: str) -> None:
    text = text_of(length, rare)
    ids = whole(text)
    assert TOKENIZER.encode(text) == ids
    assert list(TOKENIZER.encode_to_buffer(text)) == ids
    for threads in (2, 3, 8):
        assert TOKENIZER.encode(text, threads=threads) == ids
    assert TOKENIZER.decode(TOKENIZER.encode_to_buffer(text)) == text


@pytest.mark.parametrize("unit", ["中", "é", " ", "\u0301", "1", "\r\n", "'s"])
def test_text_without_a_place_to_cut(unit: str) -> None:
    text = "é" + unit * (3 * GROUP)
    assert TOKENIZER.encode(text) == TOKENIZER.encode(text, threads=3) == whole(text)


def test_text_is_not_kept_twice() -> None:
    text = text_of(3 * GROUP, "😀")
    before = sys.getsizeof(text)
    TOKENIZER.encode_to_buffer(text)
    TOKENIZER.encode_to_buffer(text, threads=2)
    assert sys.getsizeof(text) == before
    whole(text)
    assert sys.getsizeof(text) > before, "the size tells of a copy"


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("place", [0, GROUP + 1, 17 * GROUP])
def test_a_lone_surrogate_is_named_where_it_stands(place: int, threads: int) -> None:
    text = text_of(17 * GROUP, "😀")
    ids = TOKENIZER.encode(text)
    broken = text[:place] + "\ud800" + text[place:]
    with pytest.raises(UnicodeEncodeError, match=f"position {place}: surrogates not allowed"):
        TOKENIZER.encode_to_buffer(broken, threads=threads)
    assert TOKENIZER.encode(text, threads=threads) == ids


@pytest.mark.parametrize("threads", [1, 2])
def test_other_threads_of_python_run_meanwhile(threads: int) -> None:
    text = text_of(64 * GROUP, "😀")
    begin, seen = threading.Lock(), []
    begin.acquire()
    other = threading.Thread(target=lambda: seen.append(begin.acquire()))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Nobody is made to let another run.
    try:
        other.start()
        begin.release()
        TOKENIZER.encode_to_buffer(text, threads=threads)
        assert seen == [True]
    finally:
        sys.setswitchinterval(before)
    other.join()


def test_a_kind_of_str_is_read_as_the_str_it_is() -> None:
    class Odd(str):
        def __getitem__(self, place: object) -> str:
            return "x"

        def __len__(self) -> int:
            return 1

    text = text_of(2 * GROUP, "😀")
    assert TOKENIZER.encode(Odd(text)) == TOKENIZER.encode(text)
