"""Which compressed entries a query reads: the best by score. Of equal scores, the lower index wins, everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries chosen for each row: `entries` [rows, count], int64, ascending, -1 where there are fewer.

    `places` [rows, count], int64, are their rows in the cache of the source, its last row (zero) where unused.
    """

    entries: Tensor
    places: Tensor

    @property
    def visible(self) -> Tensor:
        """True where there is an entry [rows, count]."""
        return self.entries >= 0


def best(scores: Tensor, count: int) -> Tensor:
    """Mask of the `count` largest of each row of `scores` [rows, candidates]; minus infinity is never chosen."""
    chosen = scores > -torch.inf
    if scores.shape[-1] <= count:
        return chosen
    least = scores.topk(count, dim=-1).values[:, -1:]
    above, level = scores > least, scores == least
    return chosen & (above | (level & (level.cumsum(-1) <= count - above.sum(-1, keepdim=True))))


def ascending(mask: Tensor, count: int) -> Tensor:
    """Indices of the set columns of `mask` [rows, columns] in ascending order, [rows, count], filled up with -1."""
    rank = torch.where(mask, mask.cumsum(-1) - 1, count)
    indices = torch.full((len(mask), count + 1), -1, dtype=torch.int64)
    columns = torch.arange(mask.shape[-1]).expand(len(mask), -1)
    return indices.scatter_(1, rank, columns)[:, :count]


def candidate_mask(scores: Tensor, *, block: int, limit: int) -> Tensor:
    """Entries that later indexers may choose among: those of the best `limit` blocks of `block` entries.

    `scores` [rows, entries], minus infinity where invisible. A block's score is the best of its entries. The block of
    the newest visible entry, full or not, is always one of the `limit`.
    """
    entries = scores.shape[-1]
    padded = torch.nn.functional.pad(scores, (0, -entries % block), value=-torch.inf)
    blocks = padded.view(len(scores), -1, block).amax(-1)
    visible = (scores > -torch.inf).sum(-1, keepdim=True)
    newest = torch.arange(blocks.shape[-1]) == (visible - 1).div(block, rounding_mode="floor")
    kept = best(blocks.masked_fill(newest, torch.inf), limit)
    return kept.repeat_interleave(block, dim=-1)[:, :entries]
