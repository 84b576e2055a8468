"""Random weights, for tests, benches, the embedded model and the start of a training."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepinfer.model.engram import Engram, Table
from deepinfer.model.hyper import HyperConnection
from deepinfer.model.layer import Layer
from deepinfer.model.linear import Linear
from deepinfer.model.moe import Gate
from deepinfer.model.norm import RmsNorm
from deepinfer.model.transformer import Transformer
from deepinfer.model.weights import Embedding


def randomize(model: Transformer, *, seed: int, logit_deviation: float = 1.0) -> Transformer:
    """Draw all weights; the same seed gives the same ones. Returns `model`.

    Products keep the deviation of their inputs at 1, norms begin as the identity, streams mix a little, and logits have
    the given standard deviation.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(parameter: nn.Parameter, deviation: float) -> nn.Parameter:
        values = torch.randn(parameter.shape, generator=generator) * deviation
        return nn.Parameter(values, requires_grad=parameter.requires_grad)

    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, normal(parameter, _deviation(module, name)))
        if isinstance(module, RmsNorm | Engram):
            for parameter in module.parameters(recurse=False):
                parameter.data.fill_(1.0)
    with torch.no_grad():
        model.head.weight.mul_(logit_deviation)
        for module in model.modules():
            if isinstance(module, Layer):
                _calm(module)
    return model


def _deviation(module: nn.Module, name: str) -> float:
    """Standard deviation of a parameter."""
    if isinstance(module, Gate) and name.startswith("bias"):
        return 0.0
    if isinstance(module, Linear):
        return 1.0 / math.sqrt(module.weight.shape[1])
    if isinstance(module, Layer):
        return 0.02 if name.endswith("_fn") else 0.0
    return 1.0 if isinstance(module, Embedding | Table) else 0.02


def _calm(layer: Layer) -> None:
    """Streams that keep mostly to themselves, and sublayers that write to all of them."""
    for part in ("attn", "ffn"):
        getattr(layer, f"hc_{part}_scale").fill_(1.0)
        getattr(layer, f"hc_{part}_base").copy_(_base(layer.hyper))


def _base(hyper: HyperConnection) -> Tensor:
    n = hyper.count
    return torch.cat([torch.full((2 * n,), 0.0), 3.0 * torch.eye(n).flatten()])
