"""Shape of a DeepSeek-V4.1 text model, and which layer does what. Imports no torch.

Field names are those of the official `config.json`, so that a file is read by name. Its own fields `engram_*` and
`dspark_*` beyond the published ones are named here; `READ_AS` lists other spellings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from deepinfer.cache.layout import CacheLayout, KeyValueSource
from deepinfer.errors import EngineError

MODEL_TYPE: Final = "deepseek_v41"
READ_AS: Final[Mapping[str, tuple[str, ...]]] = {
    "engram_max_ngram_size": ("engram_max_ngram", "engram_ngram_size", "engram_max_n", "max_ngram_size"),
    "engram_n_heads": ("engram_num_heads", "engram_head_count", "engram_n_head_per_ngram", "engram_num_hash_heads"),
    "engram_head_dim": ("engram_dim", "engram_key_length", "engram_embedding_dim"),
    "engram_vocab_size": ("engram_base_size", "engram_base_vocab_size", "engram_table_size", "engram_vocab_base"),
    "engram_pad_token_id": ("engram_pad_id",),
    "dspark_n_routed_experts": ("dspark_num_experts", "dspark_num_routed_experts"),
    "dspark_num_experts_per_tok": ("dspark_topk", "dspark_top_k"),
}
"""Other spellings of a field, tried in order when the field itself is absent."""

_ONLY: Final[Mapping[str, tuple[object, ...]]] = {
    "scoring_func": ("sqrtsoftplus",),
    "topk_method": ("noaux_tc",),
    "hidden_act": ("silu",),
    "norm_topk_prob": (True,),
    "attention_bias": (False,),
    "tie_word_embeddings": (False,),
    "num_key_value_heads": (1,),
}
"""Settings of the file that this code has only one form of."""


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

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ModelConfig:
        """Read the object of a `config.json`, with or without `text_config`. Unknown fields are ignored."""
        text = {**document, **document.get("text_config", {})}
        for name, allowed in _ONLY.items():
            if text.get(name, allowed[0]) not in allowed:
                raise _invalid(f"{name} is {text[name]!r}; only {allowed[0]!r} is known")
        values: dict[str, Any] = {}
        for field in fields(cls):
            for name in (field.name, *READ_AS.get(field.name, ())):
                if text.get(name) is not None:
                    values[field.name] = tuple(text[name]) if isinstance(text[name], list) else text[name]
                    break
        values["rope_scaling"] = _yarn(text.get("rope_scaling"))
        values["quantization"] = _quantization(text.get("quantization_config"))
        layers = values.get("num_hidden_layers", 0)
        values["compress_ratios"] = values.get("compress_ratios", (0,) * layers)[:layers]
        if not values.get("kv_source_layer_ids"):
            values["candidate_source_layer_id"] = None
        try:
            return cls(**values)
        except TypeError as error:
            raise _invalid(f"a field is missing or of the wrong type: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Write the object that `from_json` reads."""
        text = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        del text["quantization"]
        if self.rope_scaling is not None:
            text["rope_scaling"] = {"rope_type": "yarn", **asdict(self.rope_scaling)}
        document = {
            "architectures": ["DeepseekV41ForCausalLM"],
            "model_type": MODEL_TYPE,
            "image_token_id": text.pop("image_token_id"),
            "text_config": {"model_type": f"{MODEL_TYPE}_text", **text},
        }
        if self.quantization.caches:
            document["quantization_config"] = {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "scale_fmt": "ue8m0",
                "weight_block_size": [32, 32],
                "activation_scheme": "dynamic" if self.quantization.activations else "none",
            }
        return document


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
        if field.type == "int" and (not isinstance(value, int) or value < 0):
            raise _invalid(f"{field.name} is {value!r}; it must be an integer of at least 0")
        if field.type == "float" and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise _invalid(f"{field.name} is {value!r}; it must be a finite number of at least 0")
        if field.type == "tuple[int, ...]" and not all(isinstance(item, int) for item in value):
            raise _invalid(f"{field.name} is {value!r}; it must be a list of integers")
    for name, least in (
        *((name, 1) for name in ("vocab_size", "hidden_size", "num_attention_heads", "sliding_window", "hc_mult")),
        *((name, 1) for name in ("n_routed_experts", "index_topk", "o_groups", "candidate_block_size")),
        *((name, 1) for name in ("num_experts_per_tok", "n_shared_experts", "hc_sinkhorn_iters", "index_n_heads")),
    ):
        if getattr(config, name) < least:
            raise _invalid(f"{name} is {getattr(config, name)}; it must be at least {least}")
    if config.num_experts_per_tok > config.n_routed_experts:
        raise _invalid(f"num_experts_per_tok is {config.num_experts_per_tok}, above {config.n_routed_experts} experts")
    if config.qk_rope_head_dim % 2 or not config.qk_rope_head_dim <= min(config.head_dim, config.index_head_dim):
        raise _invalid(f"qk_rope_head_dim is {config.qk_rope_head_dim}; it must be even and fit both kinds of keys")
    if config.num_attention_heads % config.o_groups:
        raise _invalid(f"o_groups is {config.o_groups}; it must divide {config.num_attention_heads} heads")
    if len(config.compress_ratios) != config.num_hidden_layers:
        raise _invalid(f"compress_ratios has {len(config.compress_ratios)} of {config.num_hidden_layers} layers")
    _check_sources(config)


def _check_sources(config: ModelConfig) -> None:
    for name in ("kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids", "dspark_target_layer_ids"):
        for layer in getattr(config, name):
            if not 0 <= layer < config.num_hidden_layers:
                raise _invalid(f"{name} has {layer}; there are {config.num_hidden_layers} layers")
    for layer, ratio in enumerate(config.compress_ratios):
        kv_source = _nearest(config.kv_source_layer_ids, layer)
        index_source = _nearest(config.index_source_layer_ids, layer)
        if ratio and (kv_source is None or index_source is None or index_source < kv_source):
            raise _invalid(f"layer {layer} has ratio {ratio}, but no source of keys with an index of its own before it")
        if ratio and kv_source is not None and config.compress_ratios[kv_source] != ratio:
            raise _invalid(f"layer {layer} has ratio {ratio}, its source {kv_source} another")
        if not ratio and layer in (*config.kv_source_layer_ids, *config.index_source_layer_ids):
            raise _invalid(f"layer {layer} is a source, but its entry of compress_ratios is 0")
    candidates = config.candidate_source_layer_id
    if candidates is not None and candidates not in config.index_source_layer_ids:
        raise _invalid(f"candidate_source_layer_id is {candidates}, which index_source_layer_ids does not name")
    if candidates is not None and config.candidate_topk_blocks < 1:
        raise _invalid(f"candidate_topk_blocks is {config.candidate_topk_blocks}; it must be at least 1")
    if config.num_nextn_predict_layers and not config.dspark_target_layer_ids:
        raise _invalid("dspark_target_layer_ids is empty, but there are draft layers")


def _yarn(value: Mapping[str, Any] | None) -> Yarn | None:
    kind = None if value is None else value.get("rope_type", value.get("type", "default"))
    if value is None or kind == "default":
        return None
    if kind != "yarn":
        raise _invalid(f"rope_scaling has the type {kind!r}; only yarn is known")
    known = {field.name: value[field.name] for field in fields(Yarn) if field.name in value}
    try:
        return Yarn(**known)
    except TypeError as error:
        raise _invalid(f"rope_scaling: {error}") from None


def _quantization(value: Mapping[str, Any] | None) -> Quantization:
    if value is None:
        return Quantization()
    if value.get("quant_method") != "fp8":
        raise _invalid(f"quantization_config has the method {value.get('quant_method')!r}; only fp8 is known")
    return Quantization(caches=True, activations=value.get("activation_scheme", "dynamic") == "dynamic")


def _invalid(message: str) -> EngineError:
    return EngineError(message, code="invalid_configuration")
