"""Owns the tensors of a model's caches. Knows nothing of which blocks and slots are free or whose they are."""

from __future__ import annotations

import torch
from torch import Tensor

from deepinfer.cache.layout import CacheLayout


class ModelCache:
    """Caches of many sequences, float32. A row of a tensor is addressed by block or slot times its length, plus offset.

    `compressed[layer]` [entries + 1, width] and `index_keys[layer]` [entries + 1, index_width] hold the compressed keys
    of a source; the last row is zero and stands for places without an entry. `windows[layer]` [rows, width] are the
    local keys, draft layers last; `groups[layer]` [rows, 2 * width] the gate scores and values of unfinished groups;
    `tokens` [rows], int64, the compressed token ids. These three have a ring per slot, or lie in blocks if the layout
    is paged. Memory that was never written holds `fill`: no result depends on it, which tests show with NaN.
    """

    def __init__(self, layout: CacheLayout, *, block_count: int, slot_count: int = 0, fill: float = 0.0) -> None:
        self.layout = layout
        self.compressed: dict[int, Tensor] = {}
        self.index_keys: dict[int, Tensor] = {}
        self.groups: dict[int, Tensor] = {}
        sections = block_count if layout.paged else slot_count
        for source in layout.sources:
            entries = block_count * layout.block_size // source.ratio
            self.compressed[source.layer] = _entries(entries, source.width, fill)
            self.index_keys[source.layer] = _entries(entries, source.index_width, fill)
            if source.ratio > 1:
                rows = sections * layout.section(layout.group_window)
                self.groups[source.layer] = torch.full((rows, 2 * source.width), fill)
        rows = sections * layout.section(layout.window)
        self.windows = [torch.full((rows, layout.width), fill) for _ in range(layout.window_layers)]
        self.tokens = torch.full((sections * layout.section(layout.token_window),), -1, dtype=torch.int64)

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block."""
        tokens = self.layout.block_size if self.layout.paged else 0
        return 4 * self.layout.floats_per_block + 8 * tokens

    def copy_slot(self, source: int, target: int) -> None:
        """Copy the rings of one slot to another, as after a prefix hit that ends where `source` stands."""
        assert not self.layout.paged, "paged caches have no slots"
        self._copy_windows(source, target)

    def copy_block(self, source: int, target: int) -> None:
        """Copy everything that lies in one block to another."""
        for entry in self.layout.sources:
            for tensor in (self.compressed[entry.layer], self.index_keys[entry.layer]):
                _copy(tensor[:-1], self.layout.block_size // entry.ratio, source, target)
        if self.layout.paged:
            self._copy_windows(source, target)

    def _copy_windows(self, source: int, target: int) -> None:
        for window in self.windows:
            _copy(window, self.layout.section(self.layout.window), source, target)
        for group in self.groups.values():
            _copy(group, self.layout.section(self.layout.group_window), source, target)
        _copy(self.tokens, self.layout.section(self.layout.token_window), source, target)


def _copy(tensor: Tensor, length: int, source: int, target: int) -> None:
    """Copy section `source` of `length` rows to section `target`."""
    sections = tensor.view(-1, length, *tensor.shape[1:])
    sections[target] = sections[source]


def _entries(count: int, width: int, fill: float) -> Tensor:
    entries = torch.full((count + 1, width), fill)
    entries[-1] = 0.0
    return entries
