"""Shape of a DeepSeek-V4.1 text model, and which layer does what. Imports no torch.

Field names are those of the official `config.json`, which `config_file` reads and writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final

from deepinfer.cache.layout import CacheLayout, KeyValueSource
from deepinfer.errors import EngineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn:
    """Stretched rotary frequencies (YaRN, Peng et al. 2023, https://arxiv.org/abs/2309.00071), no magnitude scale."""

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """Which values are rounded to the release's formats during the forward. Weights are rounded in the checkpoint.

    `caches`: window keys FP8, compressed keys FP4, index keys and queries FP4. `activations`: inputs of FP8 and FP4
    weights, FP8.
    """

    caches: bool = False
    activations: bool = False


_MAY_BE_ZERO: Final = (
    "num_nextn_predict_layers",
    "candidate_topk_blocks",
    "dspark_noise_token_id",
    "engram_pad_token_id",
    "bos_token_id",
    "eos_token_id",
)
_MOST: Final = {
    "num_hidden_layers": 1024,
    "num_nextn_predict_layers": 64,
    "n_routed_experts": 4096,
    "n_shared_experts": 64,
    "hc_mult": 64,
    "hc_sinkhorn_iters": 1000,
    "engram_max_ngram_size": 16,
    "engram_n_heads": 256,
    "dspark_n_routed_experts": 4096,
    "dspark_block_size": 64,
}
"""Limits that keep a broken file from taking the machine's memory; far above every known model."""


class LayerRole(StrEnum):
    """Where a layer's long-range keys come from."""

    WINDOW = "window"
    FULL = "full"
    REINDEX = "reindex"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """What one layer owns and what it borrows. Layers are absolute numbers; None where there is nothing long-range."""

    layer: int
    role: LayerRole
    ratio: int
    kv_source: int | None
    index_source: int | None
    selects_candidates: bool
    obeys_candidates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and rules of one model. Raises `EngineError` (`invalid_configuration`) for values that clash."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_groups: int
    o_lora_rank: int
    sliding_window: int
    compress_ratios: tuple[int, ...]
    kv_source_layer_ids: tuple[int, ...] = ()
    index_source_layer_ids: tuple[int, ...] = ()
    candidate_source_layer_id: int | None = None
    candidate_topk_blocks: int = 0
    candidate_block_size: int = 1
    index_n_heads: int = 1
    index_head_dim: int = 32
    index_topk: int = 1
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    rope_scaling: Yarn | None = None
    max_position_embeddings: int = 1048576
    moe_intermediate_size: int
    n_routed_experts: int
    n_shared_experts: int = 1
    num_experts_per_tok: int
    gate_temp: float = 1.0
    routed_scaling_factor: float = 1.5
    swiglu_limit: float = 10.0
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    rms_norm_eps: float = 1e-20
    engram_layer_ids: tuple[int, ...] = ()
    engram_num_embeddings: tuple[int, ...] = ()
    engram_max_ngram_size: int = 4
    engram_n_heads: int = 8
    engram_head_dim: int = 256
    engram_vocab_size: int = 16_000_000
    engram_pad_token_id: int = 2
    num_nextn_predict_layers: int = 0
    dspark_block_size: int = 5
    dspark_noise_token_id: int = 0
    dspark_target_layer_ids: tuple[int, ...] = ()
    dspark_markov_rank: int = 256
    dspark_n_routed_experts: int = 128
    dspark_num_experts_per_tok: int = 3
    bos_token_id: int = 0
    eos_token_id: int = 1
    image_token_id: int | None = None
    quantization: Quantization = Quantization()

    def __post_init__(self) -> None:
        _check(self)

    @property
    def plans(self) -> tuple[LayerPlan, ...]:
        """What each layer owns and borrows."""
        return tuple(_plan(self, layer) for layer in range(self.num_hidden_layers))

    @property
    def draft_config(self) -> ModelConfig:
        """Shape of the draft layers: window attention only, and experts of their own."""
        count = self.num_nextn_predict_layers
        return replace(
            self,
            num_hidden_layers=count,
            compress_ratios=(0,) * count,
            kv_source_layer_ids=(),
            index_source_layer_ids=(),
            candidate_source_layer_id=None,
            engram_layer_ids=(),
            engram_num_embeddings=(),
            num_nextn_predict_layers=0,
            dspark_target_layer_ids=(),
            n_routed_experts=self.dspark_n_routed_experts,
            num_experts_per_tok=self.dspark_num_experts_per_tok,
        )

    def cache_layout(self, block_size: int, *, paged: bool = False) -> CacheLayout:
        """Describe the caches this model needs, in blocks of `block_size` tokens; `paged` as in `CacheLayout`."""
        ratios = [self.compress_ratios[layer] for layer in self.kv_source_layer_ids]
        if any(block_size % ratio for ratio in ratios):
            message = (
                f"block_size is {block_size}; it must be a multiple of the compression ratios {sorted(set(ratios))}"
            )
            raise EngineError(message, code="invalid_configuration")
        return CacheLayout(
            block_size=block_size,
            sources=tuple(
                KeyValueSource(layer=layer, ratio=ratio, width=self.head_dim, index_width=self.index_head_dim)
                for layer, ratio in zip(self.kv_source_layer_ids, ratios, strict=True)
            ),
            window=self.sliding_window,
            window_layers=self.num_hidden_layers + self.num_nextn_predict_layers,
            width=self.head_dim,
            token_window=self.engram_max_ngram_size if self.engram_layer_ids else 0,
            speculation=self.dspark_block_size if self.num_nextn_predict_layers else 0,
            paged=paged,
        )


def _plan(config: ModelConfig, layer: int) -> LayerPlan:
    ratio = config.compress_ratios[layer]
    kv_source = _nearest(config.kv_source_layer_ids, layer) if ratio else None
    index_source = _nearest(config.index_source_layer_ids, layer) if ratio else None
    if not ratio:
        role = LayerRole.WINDOW
    elif kv_source == layer:
        role = LayerRole.FULL
    else:
        role = LayerRole.REINDEX if index_source == layer else LayerRole.REUSE
    candidates = config.candidate_source_layer_id
    return LayerPlan(
        layer=layer,
        role=role,
        ratio=ratio,
        kv_source=kv_source,
        index_source=index_source,
        selects_candidates=layer == candidates,
        obeys_candidates=role is LayerRole.REINDEX
        and candidates is not None
        and candidates < layer
        and _nearest(config.kv_source_layer_ids, candidates) == kv_source,
    )


def _nearest(layers: tuple[int, ...], layer: int) -> int | None:
    """Return the last of `layers` that does not come after `layer`."""
    return max((source for source in layers if source <= layer), default=None)


def _check(config: ModelConfig) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        least, most = 0 if field.name in _MAY_BE_ZERO else 1, _MOST.get(field.name, 2**27)
        if field.type == "int" and not (isinstance(value, int) and least <= value <= most):
            raise invalid(f"{field.name} is {value!r}; it must be an integer from {least} to {most}")
        if field.type == "float" and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise invalid(f"{field.name} is {value!r}; it must be a finite number of at least 0")
        if field.type == "tuple[int, ...]" and not (
            isinstance(value, tuple) and all(isinstance(item, int) and item >= 0 for item in value)
        ):
            raise invalid(f"{field.name} is {value!r}; it must be a list of integers of at least 0")
    for name, above in (("rope_theta", 1), ("compress_rope_theta", 1), ("gate_temp", 0)):
        if not getattr(config, name) > above:
            raise invalid(f"{name} is {getattr(config, name)}; it must be above {above}")
    if config.num_experts_per_tok > config.n_routed_experts:
        raise invalid(f"num_experts_per_tok is {config.num_experts_per_tok}, above {config.n_routed_experts} experts")
    if config.qk_rope_head_dim % 2 or not config.qk_rope_head_dim <= min(config.head_dim, config.index_head_dim):
        raise invalid(f"qk_rope_head_dim is {config.qk_rope_head_dim}; it must be even and fit both kinds of keys")
    if config.num_attention_heads % config.o_groups:
        raise invalid(f"o_groups is {config.o_groups}; it must divide {config.num_attention_heads} heads")
    if len(config.compress_ratios) != config.num_hidden_layers:
        raise invalid(f"compress_ratios has {len(config.compress_ratios)} of {config.num_hidden_layers} layers")
    _check_sources(config)


def _check_sources(config: ModelConfig) -> None:
    for name in ("kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids", "dspark_target_layer_ids"):
        for layer in getattr(config, name):
            if not 0 <= layer < config.num_hidden_layers:
                raise invalid(f"{name} has {layer}; there are {config.num_hidden_layers} layers")
    for layer, ratio in enumerate(config.compress_ratios):
        kv_source = _nearest(config.kv_source_layer_ids, layer)
        index_source = _nearest(config.index_source_layer_ids, layer)
        if ratio and (kv_source is None or index_source is None or index_source < kv_source):
            raise invalid(f"layer {layer} has ratio {ratio}, but no source of keys with an index of its own before it")
        if ratio and kv_source is not None and config.compress_ratios[kv_source] != ratio:
            raise invalid(f"layer {layer} has ratio {ratio}, its source {kv_source} another")
        if not ratio and layer in (*config.kv_source_layer_ids, *config.index_source_layer_ids):
            raise invalid(f"layer {layer} is a source, but its entry of compress_ratios is 0")
    candidates = config.candidate_source_layer_id
    if candidates is not None and candidates not in config.index_source_layer_ids:
        raise invalid(f"candidate_source_layer_id is {candidates}, which index_source_layer_ids does not name")
    if candidates is not None and config.candidate_topk_blocks < 1:
        raise invalid(f"candidate_topk_blocks is {config.candidate_topk_blocks}; it must be at least 1")
    if config.num_nextn_predict_layers and not config.dspark_target_layer_ids:
        raise invalid("dspark_target_layer_ids is empty, but there are draft layers")


def invalid(message: str) -> EngineError:
    """Make the error of a configuration that clashes."""
    return EngineError(message, code="invalid_configuration")
