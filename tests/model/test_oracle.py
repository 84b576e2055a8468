"""The recorded outputs of another implementation, through the command that checks them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from deepinfer.model.check import main

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
