"""Primes, multipliers and compressed ids of Engram; the tables of the release have the published sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepinfer.errors import EngineError
from deepinfer.model import presets
from deepinfer.model.engram_hash import check_token_map, hash_tables, is_prime, multipliers
from deepinfer.model.token_map import token_key, token_map
from deepinfer.prompt_format import prompt_format
from deepinfer.server.token_texts import token_texts
from tests.model import reference
from tests.model.support import lively


def test_tables_of_the_release() -> None:
    tables = hash_tables(presets.release(), 99092)
    assert {layer: table.row_count for layer, table in tables.items()} == {1: 384_006_168, 14: 384_016_682}
    assert int(tables[1].primes[0, 0]) == 16_000_057


def test_sizes_that_the_configuration_states_are_checked() -> None:
    config = replace(presets.fixture(), engram_num_embeddings=(1, 2))
    with pytest.raises(EngineError, match=r"engram_num_embeddings is \(1, 2\); .* give \(290, 370\)"):
        hash_tables(config, 100)
    with pytest.raises(EngineError, match=r"engram_num_embeddings is \(290,\)"):
        hash_tables(replace(config, engram_num_embeddings=(290,)), 100)
    longer = replace(config, engram_num_embeddings=(290, 400))
    table = lively(longer).layers[4].engram
    assert table is not None and len(table.embed.weight) == 400


def test_primes_are_those_of_the_definition() -> None:
    for config in (presets.tiny(), presets.fixture()):
        tables = hash_tables(config, 100)
        assert {layer: table.primes.tolist() for layer, table in tables.items()} == reference.engram_primes(config)


def test_primality() -> None:
    sieve = [n for n in range(2000) if n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(2000) if is_prime(n)] == sieve
    assert is_prime(2**61 - 1)
    assert not is_prime(3215031751)  # Passes for the witnesses 2, 3, 5 and 7.


def test_products_of_ids_do_not_overflow() -> None:
    for size in (1, 128, 99092):
        drawn = multipliers(14, 4, size)
        assert all(int(number) % 2 == 1 and (size - 1) * int(number) < 2**63 for number in drawn)
    assert multipliers(1, 4, 99092).tolist() != multipliers(14, 4, 99092).tolist()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Hello", "hello"),
        (" HELLO ", "hello"),
        ("Héllo", "hello"),
        ("ﬁne", "fine"),
        ("\t\n  ", " "),
        (" ", " "),
        ("a\n\n b", "a b"),
        ("\u0301", "\u0301"),
        ("\u00a0", " "),
        ("é", "e"),
    ],
)
def test_keys_join_what_spells_alike(text: str, key: str) -> None:
    assert token_key(text, "unused") == key


def test_bytes_that_are_no_text_keep_their_piece() -> None:
    assert token_key("\ufffd", "Ã") == "Ã"
    assert token_map([("a", "a"), ("B", "B"), (" A", "ĠA"), ("\ufffd", "Ã"), ("b", "b")]) == [0, 1, 0, 2, 1]


def test_the_vocabulary_of_the_release_has_99092_compressed_ids() -> None:
    ids = token_map(token_texts(prompt_format("v4.1")))
    assert len(ids) == 129280
    assert max(ids) + 1 == 99092
    assert ids[2] == 2


def test_a_token_map_must_fit_the_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"has the shape \(3,\); the vocabulary has 256 ids"):
        check_token_map([0, 1, 2], presets.tiny())
    with pytest.raises(ValueError, match="the token map has -1"):
        check_token_map([-1] * 256, presets.tiny())
