"""Reads and writes the object of a `config.json`. Knows no files; imports no torch.

The published fields have their official names. Those of `engram_*` and `dspark_*` that are not published are named as
in `ModelConfig`; `READ_AS` lists other spellings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from deepinfer.model.config import ModelConfig, Quantization, Yarn, invalid

MODEL_TYPE: Final = "deepseek_v41"
READ_AS: Final[Mapping[str, tuple[str, ...]]] = {
    "engram_max_ngram_size": ("engram_max_ngram", "engram_ngram_size", "engram_max_n", "max_ngram_size"),
    "engram_n_heads": ("engram_num_heads", "engram_head_count", "engram_n_head_per_ngram", "engram_num_hash_heads"),
    "engram_head_dim": ("engram_dim", "engram_key_length", "engram_embedding_dim"),
    "engram_vocab_size": ("engram_base_size", "engram_base_vocab_size", "engram_table_size", "engram_vocab_base"),
    "engram_pad_token_id": ("engram_pad_id", "pad_token_id"),
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


def config_from_json(document: Mapping[str, Any]) -> ModelConfig:
    """Read the object of a `config.json`, with or without `text_config`; unknown fields are ignored.

    Raises `EngineError` (`invalid_configuration`).
    """
    text = {**document, **_object("text_config", document.get("text_config", {}))}
    for name, allowed in _ONLY.items():
        if text.get(name, allowed[0]) not in allowed:
            raise invalid(f"{name} is {text[name]!r}; only {allowed[0]!r} is known")
    values: dict[str, Any] = {}
    for field in fields(ModelConfig):
        for name in (field.name, *READ_AS.get(field.name, ())):
            if text.get(name) is not None:
                values[field.name] = tuple(text[name]) if isinstance(text[name], list) else text[name]
                break
    values["rope_scaling"] = _yarn(text.get("rope_scaling"))
    values["quantization"] = _quantization(text.get("quantization_config"))
    if not values.get("kv_source_layer_ids"):
        values["candidate_source_layer_id"] = None
    try:
        # The file lists the draft layers after the others.
        values["compress_ratios"] = values["compress_ratios"][: values["num_hidden_layers"]]
        return ModelConfig(**values)
    except KeyError as error:
        raise invalid(f"{error.args[0]} is missing") from None
    except TypeError as error:
        raise invalid(f"a field is missing or of the wrong type: {error}") from None


def config_to_json(config: ModelConfig) -> dict[str, Any]:
    """Write the object that `config_from_json` reads."""
    text = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(config).items()}
    del text["quantization"]
    if config.rope_scaling is not None:
        text["rope_scaling"] = {"rope_type": "yarn", **asdict(config.rope_scaling)}
    document = {
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": MODEL_TYPE,
        "image_token_id": text.pop("image_token_id"),
        "text_config": {"model_type": f"{MODEL_TYPE}_text", **text},
    }
    if config.quantization.caches:
        document["quantization_config"] = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "scale_fmt": "ue8m0",
            "weight_block_size": [32, 32],
            "activation_scheme": "dynamic" if config.quantization.activations else "none",
        }
    return document


def _object(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(f"{name} is {value!r}; it must be an object")
    return value


def _yarn(value: Mapping[str, Any] | None) -> Yarn | None:
    if value is None:
        return None
    kind = _object("rope_scaling", value).get("rope_type", value.get("type", "default"))
    if kind == "default":
        return None
    if kind != "yarn":
        raise invalid(f"rope_scaling has the type {kind!r}; only yarn is known")
    known = {field.name: value[field.name] for field in fields(Yarn) if field.name in value}
    try:
        return Yarn(**known)
    except TypeError as error:
        raise invalid(f"rope_scaling: {error}") from None


def _quantization(value: Mapping[str, Any] | None) -> Quantization:
    if value is None:
        return Quantization()
    if _object("quantization_config", value).get("quant_method") != "fp8":
        raise invalid(f"quantization_config has the method {value.get('quant_method')!r}; only fp8 is known")
    return Quantization(caches=True, activations=value.get("activation_scheme", "dynamic") == "dynamic")
