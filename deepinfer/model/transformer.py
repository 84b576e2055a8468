"""The DeepSeek-V4.1 text model: embedding, layers, head, and the draft layers beside them.

Knows nothing of requests, scheduling or sampling. Module names are the checkpoint's tensor names, so that a state
dictionary is a checkpoint. Source of the formulas: the architecture notes that each block names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from deepinfer.cache.pool import ModelCache
from deepinfer.model.attention import Shared
from deepinfer.model.batch import Batch
from deepinfer.model.config import ModelConfig
from deepinfer.model.draft import Choose, Draft, DraftBlock, DraftStage, block_rows, speak, stages
from deepinfer.model.engram import Engram, last_ids
from deepinfer.model.engram_hash import check_token_map, hash_tables
from deepinfer.model.hyper import HyperConnection, collapse
from deepinfer.model.layer import Layer
from deepinfer.model.linear import Linear
from deepinfer.model.norm import RmsNorm
from deepinfer.model.rope import rotaries
from deepinfer.model.trace import Trace
from deepinfer.model.weights import Embedding


class Transformer(nn.Module):
    """The whole model. Weights are uninitialised: load them, or draw them with `initial.randomize`.

    `token_map` [vocab_size] gives each token's compressed id for Engram; without one, every token is its own.
    """

    def __init__(self, config: ModelConfig, token_map: Sequence[int] | Tensor | None = None) -> None:
        super().__init__()
        self.config = config
        self.window_rotary, self.compressed_rotary = rotaries(config)
        self.embed = Embedding(config.vocab_size, config.hidden_size)
        self.layers: Sequence[Layer] = cast("Any", nn.ModuleList(Layer(config, plan) for plan in config.plans))
        self.token_map = check_token_map(range(config.vocab_size) if token_map is None else token_map, config)
        for layer, table in hash_tables(config, int(self.token_map.max()) + 1).items():
            self.layers[layer].engram = Engram(config, layer, table)
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.head = Linear(config.hidden_size, config.vocab_size, rounds_inputs=False)
        self.mtp: Sequence[DraftStage] = cast("Any", nn.ModuleList(stages(config)))
        self.set_batch_invariant(True)
        for module in self.modules():
            if isinstance(module, Linear):
                module.quantizes = config.quantization.activations

    def set_batch_invariant(self, enabled: bool) -> None:
        """Choose between results that depend on nothing but their sequence, and the fastest products."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.invariant = enabled
            hyper = getattr(module, "hyper", None)
            if isinstance(hyper, HyperConnection):
                hyper.invariant = enabled

    def forward(self, batch: Batch, cache: ModelCache, trace: Trace | None = None) -> Tensor:
        """Run `batch` and bring `cache` up to its end; logits [outputs, vocabulary], float32, of its output rows."""
        images = self._images(batch)
        streams, pre = self._begin(batch.token_ids)
        ids = self._last_ids(batch, cache, images)
        shared = Shared()
        angles, compressed_angles = (
            rotary.angles(batch.positions) for rotary in (self.window_rotary, self.compressed_rotary)
        )
        features = []
        for layer in self.layers:
            if ids is not None and layer.engram is not None:
                streams = layer.engram(streams, ids, images, trace)
            if layer.plan.layer in self.config.dspark_target_layer_ids:
                features.append(streams.mean(1))
            own = compressed_angles if layer.plan.ratio else angles
            streams, pre = layer(streams, pre, own, batch, cache, self.compressed_rotary, shared, images, trace)
        if self.mtp:
            self._write_draft_windows(torch.cat(features, dim=-1), batch, cache)
        rows = collapse(pre[batch.output_rows], streams[batch.output_rows])
        hidden = self.norm(rows)
        if trace is not None:
            trace.add("hidden_pre_norm", 0, rows)
            trace.add("hidden_final", 0, hidden)
        logits: Tensor = self.head(hidden)
        return logits

    def draft(
        self,
        block: DraftBlock,
        cache: ModelCache,
        choose: Choose | None = None,
        temperatures: Sequence[float] | None = None,
    ) -> Draft:
        """Propose `dspark_block_size` tokens after each last accepted one; `cache` is read, not changed.

        `choose` defaults to the best token, `temperatures` of the confidence, one per draft, to 1.
        """
        size = self.config.dspark_block_size
        rows = block_rows(block, size, cache)
        ids = torch.full((len(block.token_ids), size), self.config.dspark_noise_token_id)
        ids[:, 0] = block.token_ids
        streams, pre = self._begin(ids.flatten())
        for index, stage in enumerate(self.mtp, start=self.config.num_hidden_layers):
            streams, pre = stage.draft(streams, pre, rows, cache.windows[index], self.window_rotary)
        last = self.mtp[-1]
        hidden = collapse(pre, streams)
        base = self.head(last.norm(hidden)).view(-1, size, self.config.vocab_size)
        pick = (lambda logits, _: logits.argmax(-1)) if choose is None else choose
        scales = [1.0] * size if temperatures is None else temperatures
        return speak(last, hidden.view(-1, size, self.config.hidden_size), base, block.token_ids, pick, scales)

    def _begin(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Streams [rows, n, hidden] of embedded `ids` [rows], and the mix [rows, n] that reads the first."""
        streams = self.embed(ids)[:, None].repeat(1, self.config.hc_mult, 1)
        pre = streams.new_zeros(streams.shape[:2])
        pre[:, 0] = 1.0
        return streams, pre

    def _images(self, batch: Batch) -> Tensor | None:
        """Mark image tokens [rows], bool; None where there are none."""
        if self.config.image_token_id is None:
            return None
        images = batch.token_ids == self.config.image_token_id
        return images if bool(images.any()) else None

    def _last_ids(self, batch: Batch, cache: ModelCache, images: Tensor | None) -> Tensor | None:
        if not self.config.engram_layer_ids:
            return None
        pad = int(self.token_map[self.config.engram_pad_token_id])
        return last_ids(batch, cache, self.token_map, pad=pad, images=images)

    def _write_draft_windows(self, features: Tensor, batch: Batch, cache: ModelCache) -> None:
        """Context keys of the draft layers, from what enters the target layers [rows, targets * hidden]."""
        context = self.mtp[0].main_norm(self.mtp[0].main_proj(features))
        angles = self.window_rotary.angles(batch.positions)
        for index, stage in enumerate(self.mtp, start=self.config.num_hidden_layers):
            batch.local.keep(stage.attn.window_keys(context, angles), cache.windows[index])
