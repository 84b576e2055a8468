"""Hyper-connections: a residual of several streams, mixed by doubly stochastic matrices (mHC), in the shifted form.

Manifold-constrained hyper-connections, Xie et al. 2025, https://arxiv.org/abs/2512.24880. Shifted: a sublayer's input
is mixed with weights that the sublayer before it computed, so one pass over the streams serves both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from deepinfer.model.config import ModelConfig
from deepinfer.model.linear import tiled
from deepinfer.model.numerics import constant, inverse_rms, sigmoid


@dataclass(frozen=True, slots=True)
class Mix:
    """Weights of one sublayer: `pre` [rows, n] of the next input, `post` [rows, n] of its output on each stream, and
    `streams` [rows, n, n], to each stream (first) from each."""

    pre: Tensor
    post: Tensor
    streams: Tensor


class HyperConnection:
    """Computes the mix of a sublayer. The parameters belong to its layer, as the checkpoint's names ask."""

    def __init__(self, config: ModelConfig) -> None:
        self.count = config.hc_mult
        self.rounds = config.hc_sinkhorn_iters
        self.epsilon = constant(config.hc_eps)
        self.norm_epsilon = constant(config.rms_norm_eps)
        self.invariant = True
        # Which of the three scales a coefficient has.
        self._scale_of = torch.arange(3).repeat_interleave(torch.tensor([self.count, self.count, self.count**2]))

    def mix(self, streams: Tensor, function: Tensor, base: Tensor, scale: Tensor) -> Mix:
        """Read the weights off `streams` [rows, n, hidden].

        x = flattened streams; m = function x / sqrt(mean x^2 + epsilon_rms), function [2n + n^2, n hidden];
        pre = sigmoid(s0 m + b) + epsilon; post = 2 sigmoid(s1 m + b); the rest is normalised by Sinkhorn's rounds.
        """
        n = self.count
        flat = streams.flatten(1)
        product = tiled(flat, function) if self.invariant else functional.linear(flat, function)
        raw = product * inverse_rms(flat, self.norm_epsilon) * scale.index_select(0, self._scale_of) + base
        gates = sigmoid(raw[:, : 2 * n])
        post = gates[:, n:]
        return Mix(
            pre=gates[:, :n] + self.epsilon,
            post=post + post,
            streams=sinkhorn(raw[:, 2 * n :].reshape(-1, n, n), self.rounds, self.epsilon).transpose(1, 2).contiguous(),
        )


def sinkhorn(logits: Tensor, rounds: int, epsilon: Tensor) -> Tensor:
    """Make `logits` [rows, n, n] nearly doubly stochastic.

    Softmax over the last axis, plus epsilon; then columns (sums over the first axis) and rows are divided by their sums
    plus epsilon in turn, beginning and ending with columns: `rounds` times columns.
    """
    # Rows innermost: the sums over n elements are then sums of long vectors.
    matrix = logits.permute(1, 2, 0).contiguous()
    matrix = torch.exp(matrix - matrix.amax(1, keepdim=True))
    matrix = matrix / matrix.sum(1, keepdim=True) + epsilon
    matrix = matrix / (matrix.sum(0, keepdim=True) + epsilon)
    normalise = _rounds_in_place if not torch.is_grad_enabled() else _rounds
    return normalise(matrix, rounds - 1, epsilon).permute(2, 0, 1)


def _rounds(matrix: Tensor, rounds: int, epsilon: Tensor) -> Tensor:
    for _ in range(rounds):
        matrix = matrix / (matrix.sum(1, keepdim=True) + epsilon)
        matrix = matrix / (matrix.sum(0, keepdim=True) + epsilon)
    return matrix


def _rounds_in_place(matrix: Tensor, rounds: int, epsilon: Tensor) -> Tensor:
    """As `_rounds`, without new memory: a round of a small matrix costs what its operations' overhead costs."""
    row, column = matrix.sum(1, keepdim=True), matrix.sum(0, keepdim=True)
    for _ in range(rounds):
        torch.sum(matrix, 1, keepdim=True, out=row)
        matrix.div_(row.add_(epsilon))
        torch.sum(matrix, 0, keepdim=True, out=column)
        matrix.div_(column.add_(epsilon))
    return matrix


def collapse(pre: Tensor, streams: Tensor) -> Tensor:
    """Sum of the streams [rows, n, hidden] with weights `pre` [rows, n]: [rows, hidden]."""
    return torch.bmm(pre[:, None], streams)[:, 0]


def spread(mix: Mix, output: Tensor, streams: Tensor) -> Tensor:
    """X'_j = post_j output + sum_i C_ij X_i, for streams [rows, n, hidden] and a sublayer's output [rows, hidden]."""
    return torch.baddbmm(mix.post[:, :, None] * output[:, None], mix.streams, streams)
