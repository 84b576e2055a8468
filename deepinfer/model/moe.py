"""Mixture of experts: a router picks a few experts per token, one shared expert sees all.

Source: architecture notes of DeepSeek-V4.1, MoE; balance by a bias on the choice alone: Wang et al. 2024,
https://arxiv.org/abs/2408.15664.
"""

from __future__ import annotations

from itertools import groupby

import torch
from torch import Tensor, nn

from deepinfer.model.config import ModelConfig
from deepinfer.model.linear import Linear
from deepinfer.model.numerics import constant, silu, softplus
from deepinfer.model.trace import Trace
from deepinfer.model.weights import weight

# Keeps the normalisation of a row finite whose chosen scores are all zero.
WEIGHT_EPSILON = 1e-20


class Gate(Linear):
    """Router: a product to [experts], and what is added for the choice only, `bias` for text, `bias_vl` for images.

    The biases have no gradient: training moves them towards experts that see too few tokens.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.hidden_size, config.n_routed_experts, rounds_inputs=False)
        self.bias = weight(config.n_routed_experts, trained=False)
        self.bias_vl = weight(config.n_routed_experts, trained=False)


class Expert(nn.Module):
    """w2(silu(min(w1 x, limit)) * clip(w3 x, -limit, limit) * weight): SwiGLU (Shazeer 2020), clamped."""

    def __init__(self, hidden: int, width: int, limit: float) -> None:
        super().__init__()
        self.w1 = Linear(hidden, width)
        self.w2 = Linear(width, hidden)
        self.w3 = Linear(hidden, width)
        self.limit = limit

    def forward(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Map `rows` [rows, hidden]; `weights` [rows, 1] scale the activation."""
        active = silu(self.w1(rows).clamp_max(self.limit)) * self.w3(rows).clamp(-self.limit, self.limit)
        output: Tensor = self.w2(active if weights is None else active * weights)
        return output


class MixtureOfExperts(nn.Module):
    """Router, routed experts and the shared one of a layer."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.count = config.num_experts_per_tok
        self._count = torch.tensor(self.count)
        self.scale, self.temperature = constant(config.routed_scaling_factor), constant(config.gate_temp)
        self.epsilon = constant(WEIGHT_EPSILON)
        self.gate = Gate(config)
        sizes = (config.hidden_size, config.moe_intermediate_size)
        experts = [Expert(*sizes, config.swiglu_limit) for _ in range(config.n_routed_experts)]
        self.experts = nn.ModuleList(experts)
        self.shared_experts = Expert(sizes[0], sizes[1] * config.n_shared_experts, config.swiglu_limit)

    def forward(self, rows: Tensor, images: Tensor | None, trace: Trace | None) -> Tensor:
        """Map `rows` [rows, hidden] to the same shape. `images` [rows], bool, marks image tokens if there are any."""
        chosen, weights = self.route(rows, images)
        if trace is not None:
            trace.add("router_idx", self.layer, chosen)
            trace.add("router_w", self.layer, weights)
        output: Tensor = self.shared_experts(rows)
        # Experts in ascending order, so that a row's sum is the same whichever other rows there are.
        numbers, order = chosen.flatten().sort(stable=True)
        scale = weights.flatten().index_select(0, order)[:, None]
        members = order // self._count
        routed = torch.zeros_like(output)
        first = 0
        for expert, group in groupby(numbers.tolist()):
            part = slice(first, first + len(list(group)))
            first = part.stop
            own = members[part]
            routed.index_add_(0, own, self.experts[expert](rows.index_select(0, own), scale[part]))
        return output + routed

    def route(self, rows: Tensor, images: Tensor | None) -> tuple[Tensor, Tensor]:
        """Choose experts [rows, count], best first, and their weights.

        r = sqrt(softplus(W h / temperature)); the best of r + bias are chosen, equals by lower number; weights are
        r / (sum of the chosen r + 1e-20) * scale.
        """
        scores = softplus(self.gate(rows) / self.temperature).sqrt()
        bias = self.gate.bias if images is None else torch.where(images[:, None], self.gate.bias_vl, self.gate.bias)
        chosen = (scores + bias).sort(dim=-1, descending=True, stable=True).indices[:, : self.count]
        weights = scores.gather(1, chosen)
        return chosen, weights / (weights.sum(-1, keepdim=True) + self.epsilon) * self.scale
