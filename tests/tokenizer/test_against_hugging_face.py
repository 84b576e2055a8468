"""Ids of our tokenizer against Hugging Face `tokenizers`, asked with the very same file, for anything a user can type.

Plain encoding must equal the reference without any added vocabulary, encoding with special tokens the reference as it
is. Two kinds of input: every sequence of up to three characters that stand for the character classes the
pre-tokenizer tells apart, which covers every rule and every border between rules, and random texts.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import random
from collections.abc import Iterable

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe

FILE = pathlib.Path(__file__).resolve().parents[2] / "recipe" / "data" / "tokenizer_v4.json"
CONTENT = json.loads(FILE.read_text(encoding="utf-8"))
SPELLINGS = [token["content"] for token in CONTENT["added_tokens"]]

# One or more characters for every class and every place where classes of different steps of the pipeline meet.
LETTERS = ["a", "Z", "é", "ſ", "한", "ا", "न", "\u3400", "\u9fa6", "\U00020000", "𝐀"]
HAN_AND_KANA = ["中", "\u4e00", "\u9fa5", "か", "カ", "ー", "゛", "\u3099", "・", "\u3040", "゠", "\u30ff"]
MARKS = ["\u0301", "\u0903", "\u0488", "\u20e3", "\ufe0f"]
NUMBERS = ["1", "２", "Ⅷ", "²", "𝟙", "\u3007"]
PUNCTUATION = ["!", "'", "_", "<", "$", "+", "`", "£", "¡", "。", "’", "—", "｜", "▁", "😀"]
SPACES = [" ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x85", "\xa0", "\u2003", "\u2028", "\u3000"]
OTHERS = ["\0", "\x1f", "\x7f", "\xad", "\u200b", "\u200d", "\u180e", "\ufeff", "\ue000", "\u0378", "\U0010ffff"]
REPRESENTATIVES = LETTERS + HAN_AND_KANA + MARKS + NUMBERS + PUNCTUATION + SPACES + OTHERS

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(REPRESENTATIVES),
        st.builds(lambda part, count: part * count, st.sampled_from(REPRESENTATIVES), st.integers(1, 80)),
        CHARACTERS,
        st.text(CHARACTERS, max_size=20),
        st.text("etaoin shrdlu\n(){}:;.,0123456789", max_size=60),
        st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), max_size=40),
    ),
    max_size=12,
).map("".join)
TEXTS_WITH_SPELLINGS = st.lists(
    st.one_of(
        st.sampled_from(SPELLINGS),
        st.builds(lambda text, cut: text[:cut], st.sampled_from(SPELLINGS), st.integers(0, 30)),
        st.sampled_from(["<", "｜", ">", "<｜", "</", "▁", "dsml:"]),
        st.sampled_from(REPRESENTATIVES),
    ),
    max_size=10,
).map("".join)


@pytest.fixture(scope="module")
def ours() -> recipe.Tokenizer:
    """The built-in V4 tokenizer."""
    return recipe.Tokenizer.built_in("v4")


@pytest.fixture(scope="module")
def plain_reference() -> tokenizers.Tokenizer:
    """The reference without added vocabulary."""
    return tokenizers.Tokenizer.from_str(json.dumps(CONTENT | {"added_tokens": []}))


@pytest.fixture(scope="module")
def special_reference() -> tokenizers.Tokenizer:
    """The reference as it is."""
    return tokenizers.Tokenizer.from_file(str(FILE))


def expected_ids(reference: tokenizers.Tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """Ids of each text, nothing added."""
    return [encoding.ids for encoding in reference.encode_batch(list(texts), add_special_tokens=False)]


def assert_same(
    ours: recipe.Tokenizer, reference: tokenizers.Tokenizer, texts: Iterable[str], *, special: bool = False
) -> None:
    """Compare all texts, name the first one that differs."""
    texts = list(texts)
    for text, expected in zip(texts, expected_ids(reference, texts), strict=True):
        assert ours.encode(text, special=special) == expected, repr(text)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_sequence_of_classes(ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer, length: int) -> None:
    """Products of class representatives; the longest from a part of them, still every class."""
    parts = REPRESENTATIVES if length < 3 else [*REPRESENTATIVES[::2], " ", "\n", "\r", "!", "a", "1", "中"]
    assert_same(ours, plain_reference, map("".join, itertools.product(parts, repeat=length)))


def test_every_code_point(ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer) -> None:
    """Each code point between two letters, a hundred to a text: a class that differs moves a border."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    batches = (codes[start : start + 100] for start in range(0, len(codes), 100))
    assert_same(ours, plain_reference, ("".join(f" a{chr(code)}b!{chr(code)}" for code in batch) for batch in batches))


@pytest.mark.parametrize("length", [47, 48, 49, 63, 64, 65, 66, 1000])
@pytest.mark.parametrize("part", ["a", "ab", "the", "=", "-*", " ", "\n", "\t ", "中", "深度求索", "é", "\u0301", "\0"])
def test_long_words(ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer, part: str, length: int) -> None:
    """Lengths around the border between the two ways to merge."""
    assert_same(ours, plain_reference, [part * length, "x" + part * length, part * length + "x"])


HUGE_WORDS = {
    "letters": "abcdefghijklmnopqrstuvwxyz",
    "both cases": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "common letters": "etaoinshr",
    "han": [chr(code) for code in range(0x4E00, 0x9FA6)],
    "hangul": [chr(code) for code in range(0xAC00, 0xD7A4)],
    "arabic": [chr(code) for code in range(0x627, 0x64B)],
    "rare letters": [chr(code) for code in range(0x10400, 0x10450)],
    "signs": "=-.*/_#<>",
    "white space": " \t",
    "line breaks": "\r\n",
}


@pytest.mark.parametrize("characters", HUGE_WORDS.values(), ids=list(HUGE_WORDS))
def test_huge_words(ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer, characters: list[str]) -> None:
    """One pre-token of 20,000 random characters, and of few characters in long runs."""
    chance = random.Random(0)
    one_by_one = "".join(chance.choices(characters, k=20_000))
    in_runs = "".join(chance.choice(characters) * chance.randint(1, 300) for _ in range(100))
    assert_same(ours, plain_reference, [one_by_one, in_runs])


def test_every_entry(ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer) -> None:
    """Every entry of the vocabulary that is text, alone, after a letter, and among its neighbours."""
    entries = [ours.decode_bytes([number]) for number in range(3, 128_000)]
    texts = [entry.decode() for entry in entries if entry.decode(errors="ignore").encode() == entry]
    joined = [
        between.join(texts[start : start + 100]) for start in range(0, len(texts), 100) for between in ("", "x", " ")
    ]
    assert len(texts) > 120_000
    assert_same(ours, plain_reference, [*texts[::7], *joined])


def test_threads_and_caches(plain_reference: tokenizers.Tokenizer, ours: recipe.Tokenizer) -> None:
    """A long text of many parts: the same ids with threads, as a buffer, and from a cache."""
    chance = random.Random(1)
    parts = [*REPRESENTATIVES, "def main():\n    return 12\n", "The quick brown fox ", "深度求索，模型。"]
    text = "".join(chance.choices(parts, k=100_000))
    expected = plain_reference.encode(text, add_special_tokens=False).ids
    assert ours.encode(text) == expected
    assert ours.encode(text, threads=3) == expected
    assert list(ours.encode_to_buffer(text, threads=2)) == expected
    options = recipe.Options(threads=2, range_cache_bytes=1 << 24)
    body = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": text}]}
    first, second = (recipe.encode(body, "chat_completions", options=options).token_ids for _ in range(2))
    assert list(first) == list(second) == list(recipe.encode(body, "chat_completions").token_ids)
    assert options.range_cache["hits"] >= 1
    assert options.range_cache["held_bytes"] <= options.range_cache["bound"]
    assert recipe.Options().range_cache["bound"] == 0


def test_options_for_other_models_share_what_is_known() -> None:
    options = recipe.Options(range_cache_bytes=1 << 24)
    for number, name in enumerate(("first", "second")):
        named = options.with_models({name: "v4.1"})
        body = {"model": name, "messages": [{"role": "user", "content": "The same question. " * 30}]}
        recipe.encode(body, "chat_completions", options=named)
        assert options.range_cache == named.range_cache
        assert named.range_cache["hits"] == number * named.range_cache["misses"]
    with pytest.raises(recipe.RequestError):
        recipe.encode(body, "chat_completions", options=options.with_models({"first": "v4"}))
    with pytest.raises(ValueError):
        options.with_models({"first": "v5"})


@given(TEXTS)
@settings(max_examples=1000, deadline=None)
def test_random_plain_text(ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer, text: str) -> None:
    """Ids equal the reference's, and decoding gives the text back."""
    ids = ours.encode(text, special=False)
    assert ids == plain_reference.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids) == text
    assert ours.decode_bytes(ids) == text.encode()


@given(TEXTS_WITH_SPELLINGS)
@settings(max_examples=1000, deadline=None)
def test_random_text_with_special_tokens(
    ours: recipe.Tokenizer, plain_reference: tokenizers.Tokenizer, special_reference: tokenizers.Tokenizer, text: str
) -> None:
    """Spellings become added tokens on request only."""
    assert ours.encode(text, special=True) == special_reference.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, special=False) == plain_reference.encode(text, add_special_tokens=False).ids


@given(st.lists(st.integers(0, 129_279), max_size=30))
@settings(max_examples=500, deadline=None)
def test_decoding_any_ids(ours: recipe.Tokenizer, special_reference: tokenizers.Tokenizer, ids: list[int]) -> None:
    """Cut characters become U+FFFD as in the reference."""
    assert ours.decode(ids) == special_reference.decode(ids, skip_special_tokens=False)


def test_this_file_as_a_users_own(plain_reference: tokenizers.Tokenizer) -> None:
    """A tokenizer read from bytes is the built-in one; an entry out of reach of its merges is not used."""
    own = recipe.Tokenizer(FILE.read_bytes())
    assert_same(own, plain_reference, ["Hello, world!", "中文 and 日本語 1234"])


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_a_file_with_unreachable_entries(ignore_merges: bool) -> None:
    """The word table must not answer for an entry that merging never gives."""
    model = CONTENT["model"]
    entries = [spelling for spelling in model["vocab"] if len(spelling) == 1] + ["ab", "bc", "abc", "abcd", "cd"]
    vocabulary = {spelling: number for number, spelling in enumerate(entries)}
    merges = ["b c", "a b", "ab c", "c d", "abc d"]
    model = model | {"vocab": vocabulary, "merges": merges, "ignore_merges": ignore_merges}
    file = json.dumps(CONTENT | {"added_tokens": [], "model": model})
    texts = map("".join, itertools.product("abcd", repeat=5))
    assert_same(recipe.Tokenizer(file.encode()), tokenizers.Tokenizer.from_str(file), texts)
