"""A model for vLLM to serve: two layers of Qwen3 with random weights over the vocabulary of DeepSeek V4.

Its answers mean nothing, but they differ from prompt to prompt. It writes no control tokens unless it is made to, so
answers do not end by themselves.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

_HIDDEN: Final = 64
_INNER: Final = 128
_LAYERS: Final = 2
_HEADS: Final = 4
_KEY_HEADS: Final = 2
_HEAD: Final = 32
_VOCABULARY: Final = 129280
_END: Final = 1
# Control tokens: the first three, and all from here on.
_FIRST_CONTROL: Final = 128000
# Logits lie far enough apart for rounding to change no greedy answer.
_LOGIT_SPREAD: Final = 0.5

_CONFIG: Final = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": _HIDDEN,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": _KEY_HEADS,
    "head_dim": _HEAD,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": _END,
    "dtype": "bfloat16",
}

# Grammars end with the token that vLLM takes from here.
_TOKENIZER_CONFIG: Final = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<｜begin▁of▁sentence｜>",
    "eos_token": "<｜end▁of▁sentence｜>",
}


def write_tiny_model(folder: Path, tokenizer: Path) -> None:
    """Write configurations, weights in bfloat16, and a copy of `tokenizer` into `folder`. Always the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(_TOKENIZER_CONFIG), encoding="utf-8")
    shutil.copy(tokenizer, folder / "tokenizer.json")
    save_file(_weights(), folder / "model.safetensors", metadata={"format": "pt"})


def _weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def random(rows: int, columns: int, scale: float) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) * scale).to(torch.bfloat16)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return random(rows, columns, columns**-0.5)

    def ones(size: int) -> torch.Tensor:
        return torch.ones(size, dtype=torch.bfloat16)

    head = random(_VOCABULARY, _HIDDEN, _LOGIT_SPREAD)
    head[:3] = head[_FIRST_CONTROL:] = 0
    weights = {
        "model.embed_tokens.weight": random(_VOCABULARY, _HIDDEN, 1.0),
        "lm_head.weight": head,
        "model.norm.weight": ones(_HIDDEN),
    }
    for layer in range(_LAYERS):
        parts = {
            "input_layernorm": ones(_HIDDEN),
            "post_attention_layernorm": ones(_HIDDEN),
            "self_attn.q_proj": matrix(_HEADS * _HEAD, _HIDDEN),
            "self_attn.k_proj": matrix(_KEY_HEADS * _HEAD, _HIDDEN),
            "self_attn.v_proj": matrix(_KEY_HEADS * _HEAD, _HIDDEN),
            "self_attn.o_proj": matrix(_HIDDEN, _HEADS * _HEAD),
            "self_attn.q_norm": ones(_HEAD),
            "self_attn.k_norm": ones(_HEAD),
            "mlp.gate_proj": matrix(_INNER, _HIDDEN),
            "mlp.up_proj": matrix(_INNER, _HIDDEN),
            "mlp.down_proj": matrix(_HIDDEN, _INNER),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    return weights
