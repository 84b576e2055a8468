"""Owns the layout of one forward call: tokens of many sequences, end to end. Knows nothing of requests or policy.

A span is a prompt, a piece of one, a decoded token, or a token with its drafts: the model sees no difference. Where a
row finds its earlier positions is worked out here once, and every layer reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from deepinfer.cache.layout import CacheLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive tokens of one sequence: the first stands at position `start`.

    `blocks` hold its compressed keys, from position 0 on, and `slot` its rings, both written up to `start`; paged
    caches have no slots. Logits are wanted of its last `output_count` tokens.
    """

    token_ids: Sequence[int]
    start: int
    blocks: Sequence[int]
    output_count: int
    slot: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where the rows of a batch find the last `length` positions, their own included.

    Positions before the batch come out of a ring, those of the batch from the rows themselves. `source` joins both:
    the batch's rows, then `history`. `places` [rows, length], int64, point into it, oldest first; a place that is not
    `visible` [rows, length], because the sequence is younger, points at the row itself. `kept_rows` go to `kept_places`
    of the ring when the rows are done.
    """

    history: Tensor
    places: Tensor
    visible: Tensor
    kept_rows: Tensor
    kept_places: Tensor

    def source(self, rows: Tensor, ring: Tensor) -> Tensor:
        """Join `rows` [rows, ...] and what `ring` [places, ...] holds from before the batch."""
        return torch.cat([rows, ring[self.history]]) if len(self.history) else rows

    def keep(self, rows: Tensor, ring: Tensor) -> None:
        """Write the newest of `rows` into `ring`."""
        ring.index_copy_(0, self.kept_places, rows[self.kept_rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows `first` to `first + len(tables) * length`: neighbouring spans of `length` tokens each.

    `tables` [spans, blocks], int64, list the blocks of each, padded with block 0.
    """

    first: int
    length: int
    tables: Tensor

    @property
    def rows(self) -> slice:
        """Rows of the group."""
        return slice(self.first, self.first + len(self.tables) * self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Input of one forward call over `rows` tokens.

    `token_ids`, `positions`: [rows], int64. `tables`: [rows, blocks], int64, the blocks of each row's sequence.
    `output_rows`: [outputs], int64, the rows whose logits are wanted, in the order of the spans. `length`: tokens of
    the longest sequence, this batch included.
    """

    token_ids: Tensor
    positions: Tensor
    output_rows: Tensor
    groups: tuple[Group, ...]
    tables: Tensor
    length: int
    local: Window
    grouped: Window | None
    tokens: Window | None


def build_batch(spans: Sequence[Span], layout: CacheLayout) -> Batch:
    """Lay out `spans` in their order. Neighbours of equal length share calls, so put them together."""
    lengths = torch.tensor([len(span.token_ids) for span in spans])
    starts = torch.tensor([span.start for span in spans])
    firsts = lengths.cumsum(0) - lengths
    row_span = torch.repeat_interleave(torch.arange(len(spans)), lengths)
    places = torch.arange(len(row_span)) - firsts[row_span]
    positions = starts[row_span] + places
    table = _table(spans, layout.block_size)
    outputs = [
        torch.arange(first + len(span.token_ids) - span.output_count, first + len(span.token_ids))
        for first, span in zip(firsts.tolist(), spans, strict=True)
    ]
    rows = _Rows(
        spans=row_span,
        positions=positions,
        starts=starts,
        lengths=lengths,
        slots=torch.tensor([span.slot for span in spans]),
        table=table,
    )
    return Batch(
        token_ids=torch.tensor([token_id for span in spans for token_id in span.token_ids]),
        positions=positions,
        output_rows=torch.cat(outputs),
        groups=_groups(spans, table),
        tables=table[row_span],
        length=int((starts + lengths).max()),
        local=_window(rows, layout.window, layout),
        grouped=_window(rows, layout.group_window, layout) if layout.group_window else None,
        tokens=_window(rows, layout.token_window, layout) if layout.token_window else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Per row: its span and position; per span: where it starts, how long it is, its slot and its blocks."""

    spans: Tensor
    positions: Tensor
    starts: Tensor
    lengths: Tensor
    slots: Tensor
    table: Tensor


def _window(rows: _Rows, length: int, layout: CacheLayout) -> Window:
    count = len(rows.spans)
    offsets = torch.arange(1 - length, 1)
    wanted = rows.positions[:, None] + offsets
    # History of a span: the `length - 1` positions before it, oldest first.
    past = rows.starts[:, None] + offsets[:-1]
    every_span = torch.arange(len(rows.starts))[:, None]
    history = torch.where(past >= 0, stored(past.clamp_min(0), every_span, rows.slots, rows.table, length, layout), 0)
    before = wanted - rows.starts[rows.spans][:, None]
    own = torch.arange(count)[:, None]
    inside = own + offsets
    outside = count + rows.spans[:, None] * (length - 1) + before + (length - 1)
    places = torch.where(before >= 0, inside, outside)
    ends = (rows.starts + rows.lengths)[rows.spans]
    # Within one batch, a ring takes no place twice.
    kept_rows = torch.nonzero((rows.positions >= ends - layout.ring(length)) | layout.paged)[:, 0]
    kept_places = stored(rows.positions, rows.spans, rows.slots, rows.table, length, layout)[kept_rows]
    return Window(
        history=history.flatten(),
        places=torch.where(wanted >= 0, places, own),
        visible=wanted >= 0,
        kept_rows=kept_rows,
        kept_places=kept_places,
    )


def stored(
    positions: Tensor, spans: Tensor, slots: Tensor | None, table: Tensor | None, window: int, layout: CacheLayout
) -> Tensor:
    """Rows of a window's tensor that hold `positions` of `spans`, given each span's slot or, if paged, its blocks."""
    if layout.paged:
        assert table is not None, "paged caches are addressed by blocks"
        return table[spans, positions // layout.block_size] * layout.block_size + positions % layout.block_size
    assert slots is not None, "rings are addressed by slots"
    ring = layout.ring(window)
    return slots[spans] * ring + positions % ring


def _table(spans: Sequence[Span], block_size: int) -> Tensor:
    """Blocks that hold the tokens up to the end of each span [spans, blocks]; blocks further on are left out."""
    used = [list(span.blocks[: -(-(span.start + len(span.token_ids)) // block_size)]) for span in spans]
    width = max(len(blocks) for blocks in used)
    return torch.tensor([blocks + [0] * (width - len(blocks)) for blocks in used], dtype=torch.int64).view(-1, width)


def _groups(spans: Sequence[Span], table: Tensor) -> tuple[Group, ...]:
    groups = []
    row = index = 0
    for length, members in groupby(len(span.token_ids) for span in spans):
        count = len(list(members))
        groups.append(Group(first=row, length=length, tables=table[index : index + count]))
        row, index = row + count * length, index + count
    return tuple(groups)
