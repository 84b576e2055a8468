"""The recorded outputs of another implementation, through the command that checks them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from deepinfer.model.check import main
from deepinfer.model.checkpoint import save_model
from deepinfer.model.engram_hash import multipliers
from deepinfer.model.presets import tiny
from tests.model import reference
from tests.model.support import TOKEN_MAP, lively, tokens, weights_of

ORACLE = Path(__file__).parent / "oracle" / "A"


def test_agrees_with_the_other_implementation(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(ORACLE)])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "A/golden.npz: passed" in printed
    assert "A/golden_quant.npz: passed" in printed
    for key in ("logits", "streams", "router_idx", "index_sel", "cand_mask", "decode_logits", "ragged batches"):
        assert f"  {key} " in printed


@pytest.mark.parametrize(
    "name", ["layers.3.attn.indexer.k_norm.weight", "layers.2.hc_ffn_base", "layers.1.attn.attn_sink"]
)
def test_a_changed_weight_is_found(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "A"
    shutil.copytree(ORACLE, copy, ignore=shutil.ignore_patterns("golden_quant.npz"))
    tensors = load_file(copy / "model.safetensors")
    tensors[name] = tensors[name] * np.float32(1.01)
    save_file(tensors, copy / "model.safetensors")
    inputs = json.loads((copy / "inputs.json").read_text(encoding="utf-8"))
    shortest = {key: values[:1] for key, values in inputs.items()}
    (copy / "inputs.json").write_text(json.dumps(shortest), encoding="utf-8")
    assert main([str(copy)]) == 1
    assert "ABOVE" in capsys.readouterr().out


def test_what_is_no_checkpoint_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "neither golden.npz nor golden_quant.npz" in capsys.readouterr().err
    assert main([]) == 2


def test_every_mechanism_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory of the same format by the float64 reference: Engram, reindex layers, candidates that bite, YaRN.

    As in the public files, `config.json` does not tell the sizes of the hash.
    """
    config = replace(tiny(), num_nextn_predict_layers=0, dspark_target_layer_ids=())
    model = lively(config)
    save_model(model, tmp_path)
    document = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    for name in ("max_ngram_size", "n_heads", "head_dim", "vocab_size"):
        del document["text_config"][f"engram_{name}"]
    (tmp_path / "config.json").write_text(json.dumps(document), encoding="utf-8")
    ids, half = tokens(30), 13
    inputs = {"sequences": [ids], "decode_prefill_lengths": [half]}
    (tmp_path / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    golden = _golden(reference.Reference(config, weights_of(model), TOKEN_MAP), ids, half)
    np.savez(tmp_path / "golden.npz", **golden)
    assert main([str(tmp_path)]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    for key in ("engram_rows", "engram_primes", "engram_multipliers", "engram_offsets", "cand_mask", "index_sel"):
        assert f"  {key} " in printed
    golden["s0_engram_rows"][3, 1, 2] += 1
    np.savez(tmp_path / "golden.npz", **golden)
    assert main([str(tmp_path)]) == 1


def _golden(model: reference.Reference, ids: list[int], half: int) -> dict[str, Any]:
    config = model.config
    logits = model.forward(ids)
    layers = config.engram_layer_ids
    primes = np.array([reference.engram_primes(config)[layer] for layer in layers])
    flat = primes.reshape(len(layers), -1)
    selected = [[row + [-1] * (4 - len(row)) for row in model.selected[layer]] for layer in sorted(model.selected)]
    return {
        "s0_ids": np.array(ids, dtype=np.int32),
        "s0_logits": logits.astype(np.float32),
        "s0_decode_logits": logits[half:].astype(np.float32),
        "s0_row_noise": np.zeros(len(ids), dtype=np.float32),
        "s0_index_sel": np.array(selected, dtype=np.int16),
        "s0_cand_mask": np.array([[j in allowed for j in range(len(ids))] for allowed in model.candidates]),
        "s0_engram_rows": np.array(
            [[reference.engram_rows(ids, p, layer, config, TOKEN_MAP) for layer in layers] for p in range(len(ids))]
        ),
        "engram_token_map": np.array(TOKEN_MAP),
        "engram_primes": primes,
        "engram_offsets": flat.cumsum(1) - flat,
        "engram_multipliers": np.stack([multipliers(layer, 3, max(TOKEN_MAP) + 1) for layer in layers]),
        "engram_pad_compressed_id": np.array(TOKEN_MAP[2]),
    }
