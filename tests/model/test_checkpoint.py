"""Checkpoints: what is written is read, what does not fit is named, and hostile files are errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from deepinfer.errors import EngineError
from deepinfer.inspection import describe
from deepinfer.model import presets
from deepinfer.model.checkpoint import load_model, save_model
from deepinfer.model.config import ModelConfig, Quantization
from deepinfer.model.config_file import config_from_json, config_to_json
from deepinfer.model.files import read_config, stored_tensors
from deepinfer.model.presets import tiny
from deepinfer.model.transformer import Transformer
from tests.model.support import Runner, lively, tokens

QUANTIZED = replace(tiny(), quantization=Quantization(caches=True, activations=True))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_model(lively(presets.tester()), tmp_path / "model")
    return tmp_path / "model"


def same_weights(left: Transformer, right: Transformer) -> bool:
    wanted = right.state_dict()
    return all(torch.equal(tensor, wanted[name]) for name, tensor in left.state_dict().items())


@pytest.mark.parametrize("shard_bytes", [None, 200_000])
def test_a_checkpoint_round_trips(tmp_path: Path, shard_bytes: int | None) -> None:
    model = lively()
    save_model(model, tmp_path, shard_bytes=shard_bytes)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 3) == (shard_bytes is not None)
    progress: list[tuple[int, int]] = []
    loaded = load_model(tmp_path, progress=lambda done, total: progress.append((done, total)))
    assert loaded.config == model.config
    assert loaded.token_map.tolist() == model.token_map.tolist()
    assert same_weights(loaded, model)
    assert progress == [(count + 1, len(progress)) for count in range(len(model.state_dict()))]
    ids = tokens(30)
    assert torch.equal(Runner(loaded).run(ids), Runner(model).run(ids))


def test_a_quantised_checkpoint_round_trips(tmp_path: Path) -> None:
    """What was rounded once is not rounded again: the second checkpoint holds the same weights."""
    save_model(lively(QUANTIZED), tmp_path / "first", quantized=True)
    loaded = load_model(tmp_path / "first")
    assert loaded.config == QUANTIZED
    save_model(loaded, tmp_path / "second", quantized=True)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert first.keys() == second.keys()
    assert same_weights(load_model(tmp_path / "second"), loaded)
    kinds = {first[name].dtype for name in first}
    assert kinds == {torch.float32, torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.int8}
    assert first["layers.3.ffn.experts.0.w1.weight"].shape == (32, 32)
    assert Runner(loaded).run(tokens(30)).isfinite().all()


def test_engram_tables_stay_quantised(tmp_path: Path) -> None:
    model = lively()
    save_model(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    for layer in model.config.engram_layer_ids:
        name = f"layers.{layer}.engram.embed"
        tensors[f"{name}.weight"] = tensors[f"{name}.weight"].to(torch.float8_e4m3fn)
        tensors[f"{name}.scale"] = torch.full((len(tensors[f"{name}.weight"]), 1), 0.25).to(torch.float8_e8m0fnu)
    save_file(tensors, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    table = loaded.layers[1].engram
    assert table is not None and table.embed.weight.dtype == torch.float8_e4m3fn
    rows = torch.tensor([[0, 5], [7, 1]])
    wanted = tensors["layers.1.engram.embed.weight"].float()[rows] * 0.25
    assert torch.equal(table.embed(rows), wanted)
    assert Runner(loaded).run(tokens(20)).isfinite().all()
    save_model(loaded, tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == tensors.keys()


def test_bfloat16_becomes_float32(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, directory / "model.safetensors")
    loaded = load_model(directory)
    assert torch.equal(loaded.head.weight, tensors["head.weight"].bfloat16().float())


def test_missing_and_unknown_tensors_are_named(directory: Path) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    del tensors["layers.1.attn.compressor.wgate.weight"]
    tensors["layers.3.attn.compressor.wgate.weight"] = torch.zeros(1)
    tensors["image_newline"] = torch.zeros(1)
    save_file(tensors, file)
    with pytest.raises(EngineError) as refusal:
        load_model(directory)
    assert refusal.value.code == "invalid_checkpoint"
    assert "1 tensors are missing: layers.1.attn.compressor.wgate.weight" in str(refusal.value)
    assert "1 tensors are unknown: layers.3.attn.compressor.wgate.weight" in str(refusal.value)


def test_a_wrong_shape_is_named(directory: Path) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    tensors["norm.weight"] = torch.zeros(65)
    save_file(tensors, file)
    with pytest.raises(EngineError, match=r"norm\.weight has the shape \(65,\); the model wants \(64,\)"):
        load_model(directory)


@pytest.mark.parametrize(
    ("weight", "scale", "words"),
    [
        (torch.zeros(128, 64).to(torch.float8_e4m3fn), torch.ones(4, 1), "not one per 32 x 32 block"),
        (torch.zeros(128, 32, dtype=torch.int8), torch.ones(128, 3), "not one per 32 inputs"),
        (torch.zeros(128, 64), torch.ones(4, 2), "neither FP8 nor packed FP4"),
    ],
)
def test_a_scale_that_does_not_fit_is_named(
    directory: Path, weight: torch.Tensor, scale: torch.Tensor, words: str
) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    tensors["head.weight"], tensors["head.scale"] = weight, scale
    save_file(tensors, file)
    with pytest.raises(EngineError, match=rf"head\.weight: .*{words}"):
        load_model(directory)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", "{", "is not JSON"),
        ("config.json", "[]", "holds list; it must hold an object"),
        ("config.json", "[" * 100_000, "is not JSON"),
        ("config.json", '{"vocab_size": 5}', "compress_ratios is missing"),
        ("model.safetensors", "junk", "cannot be read"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "../other.safetensors"}}', "must lie beside the index"),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "gone.safetensors"}}',
            "gone.safetensors cannot be read",
        ),
        ("model.safetensors.index.json", '{"weight_map": 5}', "has no weight_map"),
        ("engram_token_map.json", '{"a": 1}', "must hold a list of integers"),
        ("engram_token_map.json", "[", "is not JSON"),
    ],
)
def test_broken_files_are_errors_that_name_them(directory: Path, name: str, content: str, words: str) -> None:
    (directory / name).write_text(content, encoding="utf-8")
    with pytest.raises(EngineError, match=words):
        load_model(directory)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        load_model(tmp_path / "nothing")
    with pytest.raises(EngineError, match="is not a directory"):
        stored_tensors(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"hidden_size": "64"}, "hidden_size is '64'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; it must be an integer from 1 to 1024"),
        ({"num_hidden_layers": "5"}, "wrong type"),
        ({"compress_ratios": None}, "compress_ratios is missing"),
        ({"compress_ratios": 2}, "wrong type"),
        ({"compress_ratios": [0, -2, 2, 1, 1]}, "compress_ratios is .*; it must be a list of integers of at least 0"),
        ({"kv_source_layer_ids": 3}, "kv_source_layer_ids is 3; it must be a list"),
        ({"gate_temp": 0}, "gate_temp is 0; it must be above 0"),
        ({"rope_theta": 1}, "rope_theta is 1; it must be above 1"),
        ({"rope_scaling": 5}, "rope_scaling is 5; it must be an object"),
        ({"quantization_config": "fp8"}, "quantization_config is 'fp8'; it must be an object"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"scoring_func": "softmax"}, "scoring_func is 'softmax'; only 'sqrtsoftplus' is known"),
        ({"num_experts_per_tok": 9}, "num_experts_per_tok is 9, above 4 experts"),
        ({"kv_source_layer_ids": [3]}, "layer 1 has ratio 2, but no source"),
        ({"kv_source_layer_ids": [1, 3, 4], "index_source_layer_ids": [1, 3]}, "layer 4 has ratio 1, but no source"),
        ({"kv_source_layer_ids": [1]}, "layer 3 has ratio 1, its source 1 another"),
        ({"kv_source_layer_ids": [0, 1, 3]}, "layer 0 is a source"),
        ({"index_source_layer_ids": [1, 30]}, "index_source_layer_ids has 30; there are 5 layers"),
        (
            {"candidate_source_layer_id": 4},
            "candidate_source_layer_id is 4, which index_source_layer_ids does not name",
        ),
        ({"candidate_topk_blocks": 0}, "candidate_topk_blocks is 0"),
        ({"compress_ratios": [0, 2]}, "compress_ratios has 2 of 5 layers"),
        ({"qk_rope_head_dim": 7}, "qk_rope_head_dim is 7"),
        ({"o_groups": 3}, "o_groups is 3; it must divide 4 heads"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling has the type 'linear'"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling: .*missing"),
        ({"quantization_config": {"quant_method": "awq"}}, "method 'awq'; only fp8"),
        ({"num_nextn_predict_layers": 1}, "dspark_target_layer_ids is empty"),
    ],
)
def test_a_configuration_that_clashes_is_refused(change: dict[str, object], words: str) -> None:
    document = config_to_json(presets.tester())
    document["text_config"] |= change
    with pytest.raises(EngineError, match=words) as refusal:
        config_from_json(document)
    assert refusal.value.code == "invalid_configuration"


@pytest.mark.parametrize("name", ["release", "tester", "fixture", "tiny", "embedded", "bench"])
def test_configurations_round_trip(name: str) -> None:
    config: ModelConfig = getattr(presets, name)()
    assert config_from_json(json.loads(json.dumps(config_to_json(config)))) == config


def test_the_cache_of_the_release_takes_890_bytes_per_token() -> None:
    layout = presets.release().cache_layout(128)
    assert layout.released_bytes_per_token == 890
    assert layout.ring(layout.window) == 134
    assert layout.ring(layout.group_window) == 8
    # 20 layers of windows take 1,415,040 bytes; 43 have one, and three sources an unfinished group.
    assert layout.released_bytes_per_slot == 1_415_040 // 20 * 43 + 3 * 8 * 1024 * 4
    with pytest.raises(EngineError, match="block_size is 5; it must be a multiple"):
        presets.release().cache_layout(5)


def test_inspection_tells_layers_and_sizes(tmp_path: Path) -> None:
    save_model(lively(QUANTIZED), tmp_path, quantized=True)
    text = describe(tmp_path)
    lines = [line.split() for line in text.splitlines()]
    assert ["4", "full,", "candidates", "1", "4", "4"] == lines[5][:6]
    assert ["6", "reindex", "1", "4", "6"] == lines[7][:5]
    assert [line[:2] for line in lines if line[:1] == ["draft"]] == [["draft", "0"], ["draft", "1"]]
    count = sum(parameter.numel() for parameter in lively(QUANTIZED).parameters())
    assert f"{count:,}" in next(line for line in lines if line[:1] == ["all"])
    assert "cache in the release's formats: 52.5 bytes per token, " in text
    assert read_config(tmp_path) == QUANTIZED
