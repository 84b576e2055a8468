"""What moves the logits of one sequence before a token is chosen: penalties for repeating, and biases.

Owns the counts of the sequence's tokens. They are as wide as the vocabulary, so a step costs the same however long the
answer is. They are made for the first token, as a sequence may wait for long; one that asks for nothing has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy
import torch
from torch import Tensor

from deepinfer.core import SamplingParams


class Adjustment:
    """Penalties and biases of one sequence."""

    def __init__(self, sampling: SamplingParams, prompt: Sequence[int], vocabulary_size: int) -> None:
        self._presence = sampling.presence_penalty
        self._frequency = sampling.frequency_penalty
        self._repetition = sampling.repetition_penalty
        self._bias = _bias(sampling.logit_bias)
        self._prompt = prompt
        self._vocabulary_size = vocabulary_size
        # How often the answer holds each token, [vocabulary], int32, and whether the prompt does, [vocabulary], bool.
        self._counts: Tensor | None = None
        self._in_prompt: Tensor | None = None

    def accept(self, token_id: int) -> None:
        """Count a token of the answer."""
        counts = self._counted()
        if counts is not None:
            counts[token_id] += 1

    def rollback(self, token_ids: Iterable[int]) -> None:
        """Take tokens of the answer out of the count."""
        counts = self._counted()
        if counts is not None:
            for token_id in token_ids:
                counts[token_id] -= 1

    def apply(self, logits: Tensor) -> None:
        """Change `logits` [vocabulary], float32, in place: repetition, then frequency and presence, then bias."""
        counts = self._counted()
        if counts is not None:
            seen = counts > 0
            if self._in_prompt is not None:
                repeated = torch.where(logits > 0, logits / self._repetition, logits * self._repetition)
                torch.where(seen | self._in_prompt, repeated, logits, out=logits)
            logits.sub_(counts, alpha=self._frequency)
            logits.sub_(seen.to(logits.dtype), alpha=self._presence)
        if self._bias is not None:
            token_ids, biases = self._bias
            logits[token_ids] += biases

    def _counted(self) -> Tensor | None:
        if self._counts is None and (self._presence, self._frequency, self._repetition) != (0.0, 0.0, 1.0):
            self._counts = torch.zeros(self._vocabulary_size, dtype=torch.int32)
            if self._repetition != 1.0:
                self._in_prompt = torch.zeros(self._vocabulary_size, dtype=torch.bool)
                self._in_prompt[torch.from_numpy(numpy.array(self._prompt, dtype=numpy.int64))] = True
        return self._counts


def adjustment_of(sampling: SamplingParams, prompt: Sequence[int], vocabulary_size: int) -> Adjustment | None:
    """Return the adjustment that a request asks for, or None if it asks for none."""
    plain = (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (0.0, 0.0, 1.0)
    if plain and not sampling.logit_bias:
        return None
    return Adjustment(sampling, prompt, vocabulary_size)


def _bias(logit_bias: Mapping[int, float]) -> tuple[Tensor, Tensor] | None:
    if not logit_bias:
        return None
    return torch.tensor(list(logit_bias)), torch.tensor(list(logit_bias.values()), dtype=torch.float32)
