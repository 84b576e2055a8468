"""What several model tests need: a model with every mechanism awake, and a way to run sequences through its caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deepinfer.cache.pool import ModelCache
from deepinfer.model.batch import Span, build_batch
from deepinfer.model.config import ModelConfig
from deepinfer.model.draft import Draft, DraftBlock
from deepinfer.model.initial import randomize
from deepinfer.model.presets import tiny
from deepinfer.model.trace import Trace
from deepinfer.model.transformer import Transformer

BLOCK_SIZE = 4
IMAGE = 200
# Tokens 100 to 255 share their compressed ids with 0 to 155.
TOKEN_MAP = [token % 100 for token in range(256)]


def lively(config: ModelConfig | None = None, *, seed: int = 0) -> Transformer:
    """A random model in which biases, sinks, mixes and norms are far from their neutral values."""
    shape = replace(tiny(), image_token_id=IMAGE) if config is None else config
    token_map = TOKEN_MAP if shape.engram_layer_ids and shape.vocab_size == 256 else None
    model = randomize(Transformer(shape, token_map), seed=seed, logit_deviation=2.0)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name or name.endswith(("q_weight", "k_weight")):
                parameter.add_(0.3 * noise)
            elif name.endswith(("_base", "attn_sink", "_scale")):
                parameter.add_(0.5 * noise)
            elif ".gate.bias" in name:
                parameter.add_(0.2 * noise)
            elif name.endswith("_fn"):
                parameter.copy_(noise * parameter.shape[1] ** -0.5)
    return model.requires_grad_(False)


def weights_of(model: Transformer) -> dict[str, npt.NDArray[np.float64]]:
    return {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}


def tokens(count: int, *, seed: int = 0, below: int = 256) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, below, (count,), generator=generator).tolist()


class Runner:
    """Sequences in one cache, whose unwritten memory is NaN. Each has blocks of its own, and a slot unless paged."""

    def __init__(self, model: Transformer, *, sequences: int = 1, capacity: int = 128, paged: bool = False) -> None:
        self.model = model
        self.layout = model.config.cache_layout(BLOCK_SIZE, paged=paged)
        self.sequences = sequences
        self.blocks_each = -(-capacity // BLOCK_SIZE)
        self.cache = ModelCache(
            self.layout, block_count=self.blocks_each * sequences, slot_count=sequences, fill=float("nan")
        )

    def blocks(self, sequence: int) -> list[int]:
        """Blocks of a sequence, scattered over the pool."""
        return list(range(sequence, self.blocks_each * self.sequences, self.sequences))

    @torch.inference_mode()
    def step(self, parts: Sequence[tuple[int, int, Sequence[int]]], trace: Trace | None = None) -> list[Tensor]:
        """Run (sequence, start, token ids) together; logits [tokens, vocabulary] of each."""
        spans = [
            Span(token_ids=ids, start=start, blocks=self.blocks(sequence), slot=sequence, output_count=len(ids))
            for sequence, start, ids in parts
        ]
        logits = self.model(build_batch(spans, self.layout), self.cache, trace)
        return list(logits.split([len(ids) for _, _, ids in parts]))

    @torch.inference_mode()
    def draft(self, *lasts: tuple[int, int]) -> Draft:
        """Draft for every sequence after (token, position), its newest accepted one."""
        every = range(len(lasts))
        block = DraftBlock(
            token_ids=torch.tensor([token for token, _ in lasts]),
            positions=torch.tensor([position for _, position in lasts]),
            slots=torch.tensor(every),
            tables=torch.tensor([self.blocks(sequence) for sequence in every]),
        )
        return self.model.draft(block, self.cache)

    def run(self, ids: Sequence[int], *, sequence: int = 0, trace: Trace | None = None) -> Tensor:
        """Run a whole sequence in one piece."""
        return self.step([(sequence, 0, ids)], trace)[0]


def relative_error(found: Tensor | npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float:
    """Largest difference, relative to the largest value."""
    left = found.double().numpy() if isinstance(found, Tensor) else found
    return float(np.abs(left - wanted).max() / np.abs(wanted).max())
