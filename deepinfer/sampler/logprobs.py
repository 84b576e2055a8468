"""Log probabilities of sampled tokens and their alternatives: log-softmax of the raw logits, before temperature."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deepinfer.core import TokenLogprob
from deepinfer.sampler.segments import largest, segments


def token_logprobs(logits: Tensor, token_ids: Sequence[int], top_counts: Sequence[int]) -> list[TokenLogprob]:
    """Describe the token sampled from each row of `logits` [rows, vocabulary] with that row's count of alternatives."""
    normalizer = logits.logsumexp(-1, keepdim=True)
    chosen = logits.gather(-1, torch.tensor(token_ids)[:, None]) - normalizer
    top_logits, top_ids = largest(segments(logits, fill=-torch.inf), max(top_counts))
    rows = zip(chosen[:, 0].tolist(), top_ids.tolist(), (top_logits - normalizer).tolist(), top_counts, strict=True)
    return [
        TokenLogprob(logprob, tuple(zip(ids[:count], logprobs[:count], strict=True)))
        for logprob, ids, logprobs, count in rows
    ]
