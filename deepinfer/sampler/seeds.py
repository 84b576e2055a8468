"""Random numbers of one sequence, without state: a number depends only on the seed and on where it is used.

So a seeded request draws the same numbers whatever it is batched with, and after a preemption.
"""

from __future__ import annotations

from hashlib import blake2b


def uniform(seed: int, position: int, draw: int) -> float:
    """Number in [0, 1) of 53 random bits, for draw `draw` at token `position`. Seeds count modulo 2**64."""
    words = (seed % 2**64, position, draw)
    digest = blake2b(b"".join(word.to_bytes(8, "little") for word in words), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
