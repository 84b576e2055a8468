"""Says how much memory the caches of a model take, and where a position lies in them. Knows no tensors or models.

Everything is addressed by position. Compressed keys lie in blocks, which sequences may share. The rest (window keys,
unfinished groups, token ids) lies in rings of one slot per sequence: a ring is longer than its window by the longest
draft plus one, so that a rejected draft has overwritten nothing that is still visible. Or it is paged, and lies in the
blocks as well: it then takes memory for every position, but a sequence can go on anywhere within what another computed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueSource:
    """One layer that makes compressed keys: an entry of `width` and an index key per `ratio` tokens."""

    layer: int
    ratio: int
    width: int
    index_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """Sizes of all caches, in positions and floats.

    `token_window` 0: no window of token ids is kept. `paged`: windows lie in blocks instead of rings.
    """

    block_size: int
    sources: tuple[KeyValueSource, ...]
    window: int
    window_layers: int
    width: int
    token_window: int
    speculation: int
    paged: bool

    def ring(self, window: int) -> int:
        """Length of the ring behind a window."""
        return window + self.speculation + 1

    def section(self, window: int) -> int:
        """Rows of a window's tensor that belong together: those of a block if paged, else those of a slot."""
        return self.block_size if self.paged else self.ring(window)

    @property
    def group_window(self) -> int:
        """Positions a group of the coarsest source spans; 0 when each position is a group of its own."""
        ratio = max((source.ratio for source in self.sources), default=1)
        return ratio if ratio > 1 else 0

    @property
    def released_bytes_per_token(self) -> float:
        """Bytes a token adds in the formats of the release: FP4 with an e4m3 scale per 16 values for compressed keys,
        FP4 with a ue8m0 scale per 32 for index keys."""
        return sum((_fp4(source.width, 16) + _fp4(source.index_width, 32)) / source.ratio for source in self.sources)

    @property
    def released_bytes_per_slot(self) -> int:
        """Bytes of one sequence's rings in the formats of the release: FP8 with a ue8m0 scale per 32 values for window
        keys, float32 for unfinished groups."""
        grouped = sum(8 * source.width for source in self.sources if source.ratio > 1)
        window = self.ring(self.window) * self.window_layers * (self.width + self.width // 32)
        return window + self.ring(self.group_window) * grouped

    @property
    def floats_per_block(self) -> int:
        """Floats that one block takes."""
        entries = ((source.width + source.index_width) * self.block_size // source.ratio for source in self.sources)
        return sum(entries) + (self._floats_in_windows if self.paged else 0)

    @property
    def _floats_in_windows(self) -> int:
        grouped = sum(2 * source.width for source in self.sources if source.ratio > 1)
        window = self.section(self.window) * self.window_layers * self.width
        return window + self.section(self.group_window) * grouped


def _fp4(width: int, block: int) -> float:
    return width / 2 + width / block
