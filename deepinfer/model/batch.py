"""Owns the layout of one forward call: tokens of many sequences, end to end. Knows nothing of requests or policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive tokens of one sequence: the first stands at position `start`, `blocks` hold its keys and values."""

    token_ids: Sequence[int]
    start: int
    blocks: Sequence[int]
    wants_logits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGroup:
    """Rows `first` to `first + sequences * length`: `sequences` spans of `length` tokens each.

    `tables` [sequences, blocks], int64, lists the blocks of each sequence, padded with block 0.
    """

    first: int
    length: int
    tables: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Input of one forward call over `rows` tokens.

    `token_ids`, `positions`, `slots`: [rows], int64; a slot is the place of a token's keys and values in the pool.
    `output_rows`: [outputs], int64, the rows whose logits are wanted, in the order of the spans.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    output_rows: Tensor
    groups: tuple[AttentionGroup, ...]


def build_batch(spans: Sequence[Span], block_size: int) -> Batch:
    """Lay out `spans`. Those of one token share one attention call, every other has its own.

    Rows follow the order of `spans`, so the spans of one token must come first.
    """
    singles = [span for span in spans if len(span.token_ids) == 1]
    grouped = [singles] if singles else []
    grouped += [[span] for span in spans[len(singles) :]]
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    output_rows: list[int] = []
    groups: list[AttentionGroup] = []
    for members in grouped:
        length = len(members[0].token_ids)
        groups.append(AttentionGroup(first=len(token_ids), length=length, tables=_tables(members, block_size)))
        for span in members:
            token_ids += span.token_ids
            span_positions = range(span.start, span.start + length)
            positions += span_positions
            slots += [span.blocks[place // block_size] * block_size + place % block_size for place in span_positions]
            if span.wants_logits:
                output_rows.append(len(token_ids) - 1)
    return Batch(
        token_ids=torch.tensor(token_ids),
        positions=torch.tensor(positions),
        slots=torch.tensor(slots),
        output_rows=torch.tensor(output_rows, dtype=torch.int64),
        groups=tuple(groups),
    )


def _tables(spans: Sequence[Span], block_size: int) -> Tensor:
    """Blocks that hold the tokens up to the end of each span; blocks further on are left out."""
    used = [span.blocks[: -(-(span.start + len(span.token_ids)) // block_size)] for span in spans]
    width = max(len(blocks) for blocks in used)
    return torch.tensor([[*blocks, *[0] * (width - len(blocks))] for blocks in used])
