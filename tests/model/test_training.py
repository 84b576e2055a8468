"""Gradients reach every parameter that is trained, and training lowers the losses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from deepinfer.model.config import ModelConfig, Quantization
from deepinfer.model.initial import randomize
from deepinfer.model.presets import tiny
from deepinfer.model.training import balance, losses
from deepinfer.model.transformer import Transformer
from tests.model.support import lively, tokens

# Of 40 tokens, layers with an index see more entries than they choose.
LENGTH = 40


@pytest.mark.parametrize("quantized", [False, True])
def test_gradients_reach_every_trained_parameter(quantized: bool) -> None:
    config = replace(tiny(), quantization=Quantization(caches=quantized, activations=quantized))
    model = lively(config)
    model.set_batch_invariant(False)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".gate.bias" not in name)
    batch = [tokens(LENGTH, seed=number) for number in range(8)]
    torch.autograd.backward(losses(model, batch).total)
    without = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    ]
    # An expert that no token of so small a batch chose has none.
    assert [name for name in without if ".experts." not in name] == []
    assert len(without) < 6
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(
    "name",
    [
        "embed.weight",
        "layers.1.attn.compressor.wkv.weight",
        "layers.1.attn.compressor.wgate.weight",
        "layers.4.attn.wkv.weight",
        "layers.5.attn.wq_b.weight",
        "layers.2.attn.attn_sink",
        "layers.2.engram.wkv.weight",
        "layers.3.hc_attn_fn",
        "layers.6.hc_ffn_base",
        "layers.0.ffn.gate.weight",
    ],
)
def test_gradients_are_those_of_the_difference_quotient(name: str) -> None:
    """Along its own gradient, a parameter changes the loss by the gradient's length: no path is missing."""
    # Everything is chosen, as a choice that flips would be a step in the loss.
    model = lively(replace(tiny(), index_topk=64, candidate_topk_blocks=64, num_experts_per_tok=8))
    model.set_batch_invariant(False)
    ids = [tokens(24, seed=3), tokens(24, seed=4)]
    parameter = dict(model.named_parameters())[name].requires_grad_()
    torch.autograd.backward(losses(model, ids).tokens)
    assert parameter.grad is not None
    length = float(parameter.grad.norm())
    direction = parameter.grad / length

    def at(distance: float) -> float:
        with torch.no_grad():
            parameter.add_(distance * direction)
            value = float(losses(model, ids).tokens)
            parameter.sub_(distance * direction)
        return value

    reach = min(1e-2, 1e-3 / length)
    assert (at(reach) - at(-reach)) / (2 * reach) == pytest.approx(length, rel=0.05)


def test_a_short_training_lowers_every_loss() -> None:
    model = randomize(Transformer(_trainable()), seed=0, logit_deviation=0.1)
    model.set_batch_invariant(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=4e-3)
    history = []
    for step in range(10):
        batch = [_text(4 * step + number, 32) for number in range(4)]
        found = losses(model, batch)
        optimizer.zero_grad()
        torch.autograd.backward(found.total)
        optimizer.step()
        balance(model, found.trace, 1e-3)
        history.append([part.item() for part in (found.tokens, found.draft)])
    for first, last in zip(history[0], history[-1], strict=True):
        assert last < 0.9 * first


def test_the_balance_lifts_idle_experts() -> None:
    model = lively()
    found = losses(model, [tokens(LENGTH)])
    before = model.layers[0].ffn.gate.bias.clone()
    load = torch.bincount(found.trace.last("router_idx", 0).flatten(), minlength=8)
    balance(model, found.trace, 0.5)
    moved = model.layers[0].ffn.gate.bias - before
    assert torch.equal(moved > 0, load < load.float().mean())


def test_what_cannot_be_trained_on_is_refused() -> None:
    model = lively()
    with pytest.raises(ValueError, match="must have one length"):
        losses(model, [[1, 2, 3], [1, 2]])
    with pytest.raises(ValueError, match="draft_at is 7; 3 tokens must follow within 8"):
        losses(model, [tokens(8)], draft_at=7)


def _trainable() -> ModelConfig:
    return replace(tiny(), num_hidden_layers=4, compress_ratios=(0, 2, 1, 1), kv_source_layer_ids=(1, 2),
        index_source_layer_ids=(1, 2, 3), candidate_source_layer_id=2, dspark_target_layer_ids=(2, 3), vocab_size=64,
        engram_layer_ids=(1,), hc_sinkhorn_iters=4)  # fmt: skip


def _text(number: int, length: int) -> list[int]:
    """Ids that count up, modulo 20, in steps of one to three that the first tokens tell."""
    step = number % 3 + 1
    return [40 + step] + [(number + step * place) % 20 for place in range(length - 1)]
