"""Row numbers of Engram's tables: primes, multipliers, and the hash of the last token ids.

Conditional memory by scalable lookup, Cheng et al. 2026, https://arxiv.org/abs/2601.07372; form and constants of
DeepSeek-V4.1 from its architecture notes. Everything is integers; no result depends on a platform.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deepinfer.model.config import ModelConfig, invalid

SEED_PER_LAYER = 10007
# Witnesses that make the Miller-Rabin test exact below 3.3e24.
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)


@dataclass(frozen=True, slots=True)
class HashTable:
    """Hash of one layer: `primes` and `offsets` [n-grams, heads], `multipliers` [longest n-gram], all int64."""

    primes: Tensor
    offsets: Tensor
    multipliers: Tensor

    @property
    def row_count(self) -> int:
        """Rows of the layer's table: the sum of its primes."""
        return int(self.primes.sum())

    def rows(self, ids: Tensor) -> Tensor:
        """Table rows [rows, n-grams * heads] of `ids` [rows, longest n-gram], int64, the row's own id last.

        R is the exclusive or of id * multiplier over the own id and those before it, with 64-bit overflow. After each
        from the second on, every head of that n-gram takes R modulo its prime, plus its offset.
        """
        length = ids.shape[1]
        mixed = ids[:, -1] * self.multipliers[0]
        found = []
        for shift in range(1, length):
            mixed = mixed ^ (ids[:, -1 - shift] * self.multipliers[shift])
            found.append(mixed[:, None] % self.primes[shift - 1] + self.offsets[shift - 1])
        return torch.cat(found, dim=1)


def hash_tables(config: ModelConfig, compressed_size: int) -> dict[int, HashTable]:
    """Hash of every Engram layer, for a vocabulary of `compressed_size` ids.

    Each prime is the next above `engram_vocab_size` - 1 that no layer, n-gram or head before it has taken. Raises
    `EngineError` (`invalid_configuration`) if the tables do not fit the sizes that the configuration states.
    """
    grams, heads = config.engram_max_ngram_size - 1, config.engram_n_heads
    primes = _primes_from(config.engram_vocab_size)
    tables = {}
    for layer in config.engram_layer_ids:
        taken = torch.tensor([next(primes) for _ in range(grams * heads)]).view(grams, heads)
        tables[layer] = HashTable(
            primes=taken,
            offsets=(taken.flatten().cumsum(0) - taken.flatten()).view(grams, heads),
            multipliers=torch.from_numpy(multipliers(layer, config.engram_max_ngram_size, compressed_size)),
        )
    sizes = tuple(table.row_count for table in tables.values())
    stated = config.engram_num_embeddings or sizes
    if len(stated) != len(sizes) or any(rows < size for rows, size in zip(stated, sizes, strict=False)):
        raise invalid(f"engram_num_embeddings is {stated}; n-grams, heads and engram_vocab_size give {sizes}")
    return tables


def multipliers(layer: int, count: int, compressed_size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Odd numbers [count] such that an id times one does not overflow 63 bits."""
    limit = max(1, (2**63 - 1) // compressed_size // 2)
    drawn = np.random.default_rng(SEED_PER_LAYER * layer).integers(0, limit, size=count, dtype=np.int64)
    return drawn * 2 + 1


def is_prime(number: int) -> bool:
    """Exact primality (Miller 1976, Rabin 1980) of a number below 3.3e24."""
    if number < 2:
        return False
    for witness in _WITNESSES:
        if number % witness == 0:
            return number == witness
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(number, witness, odd, twos) for witness in _WITNESSES)


def _passes(number: int, witness: int, odd: int, twos: int) -> bool:
    power = pow(witness, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _primes_from(least: int) -> Iterator[int]:
    number = least
    while True:
        if is_prime(number):
            yield number
        number += 1


def check_token_map(token_map: Sequence[int] | Tensor, config: ModelConfig) -> Tensor:
    """Compressed ids [vocab_size], int64. Raises ValueError unless there is one per token, counted from 0."""
    ids = torch.as_tensor(token_map, dtype=torch.int64)
    if ids.shape != (config.vocab_size,):
        raise ValueError(f"the token map has the shape {tuple(ids.shape)}; the vocabulary has {config.vocab_size} ids")
    if int(ids.min()) < 0:
        raise ValueError(f"the token map has {int(ids.min())}; compressed ids count from 0")
    return ids
