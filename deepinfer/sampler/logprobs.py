"""Log probabilities of sampled tokens and their alternatives: log-softmax of the raw logits, before temperature."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deepinfer.core import TokenLogprob
from deepinfer.sampler.segments import SEGMENT, segments


def token_logprobs(logits: Tensor, token_ids: Sequence[int], top_counts: Sequence[int]) -> list[TokenLogprob]:
    """Describe the token sampled from each row of `logits` [rows, vocabulary] with that row's count of alternatives."""
    normalizer = logits.logsumexp(-1, keepdim=True)
    chosen = logits.gather(-1, torch.tensor(token_ids)[:, None]) - normalizer
    top_ids, top_logits = _top(logits, max(top_counts))
    rows = zip(chosen[:, 0].tolist(), top_ids.tolist(), (top_logits - normalizer).tolist(), top_counts, strict=True)
    return [
        TokenLogprob(logprob, tuple(zip(ids[:count], logprobs[:count], strict=True)))
        for logprob, ids, logprobs, count in rows
    ]


def _top(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Ids and logits of the `count` largest of each row: they lie in the `count` segments of largest maximum."""
    cut = segments(logits, fill=-torch.inf)
    best = cut.amax(-1).topk(min(count, cut.shape[1])).indices
    candidates = cut.gather(1, best[:, :, None].expand(-1, -1, SEGMENT)).flatten(1)
    top_logits, places = candidates.topk(count)
    return best.gather(1, places // SEGMENT) * SEGMENT + places % SEGMENT, top_logits
