"""Reads and writes checkpoints in the official layout. Quantisation is known from the tensors, never from a path.

Float32 tensors stay memory-mapped, other formats become float32, and Engram's tables keep theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from deepinfer.model.config import ModelConfig
from deepinfer.model.config_file import config_to_json
from deepinfer.model.engram import Table
from deepinfer.model.files import CONFIG, INDEX, SINGLE, StoredTensor, broken, read_config, stored_tensors
from deepinfer.model.linear import Linear
from deepinfer.model.moe import Expert
from deepinfer.model.storage import decode, encode_fp4, encode_fp8
from deepinfer.model.transformer import Transformer

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many of how many tensors are loaded."""

TOKEN_MAP = "engram_token_map.json"
# Of the vision encoder, which this text model does not run.
SKIPPED = ("vision.", "vision_", "image_start", "image_end", "image_newline", "vit.", "aligner.", "projector.")
# Names listed in an error.
_LISTED = 8


def load_model(
    directory: Path,
    *,
    config: ModelConfig | None = None,
    token_map: Sequence[int] | Tensor | None = None,
    progress: Progress | None = None,
) -> Transformer:
    """Load a model. Raises `EngineError` (`invalid_checkpoint`) that names missing, extra and misshapen tensors.

    `config` defaults to the directory's `config.json`, `token_map` to its `engram_token_map.json`, a list, if there.
    """
    shape = read_config(directory) if config is None else config
    model = Transformer(shape, read_token_map(directory) if token_map is None else token_map)
    stored = stored_tensors(directory)
    wanted = model.state_dict()
    _compare_names(wanted, stored)
    parameters = dict(model.named_parameters())
    for count, (name, tensor) in enumerate(_tensors(wanted, stored, model), start=1):
        if tensor.shape != wanted[name].shape:
            raise broken(f"{name} has the shape {tuple(tensor.shape)}; the model wants {tuple(wanted[name].shape)}")
        owner, _, leaf = name.rpartition(".")
        trained = parameters[name].requires_grad and tensor.dtype == torch.float32
        setattr(model.get_submodule(owner), leaf, nn.Parameter(tensor, requires_grad=trained))
        if progress is not None:
            progress(count, len(wanted))
    return model


def save_model(model: Transformer, directory: Path, *, quantized: bool = False, shard_bytes: int | None = None) -> None:
    """Write `config.json`, the tensors and the token map. `quantized`: weights in the release's FP8 and FP4.

    `shard_bytes` splits the tensors into files of about that size.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tensors = dict(_encoded(model)) if quantized else {k: v.contiguous() for k, v in model.state_dict().items()}
    tensors |= {f"{name}.scale": table.scale for name, table in _tables(model) if table.scale is not None}
    shards = _shards(tensors, shard_bytes)
    names = [SINGLE] if shard_bytes is None else [f"model-{n:05d}.safetensors" for n in range(1, len(shards) + 1)]
    for file, shard in zip(names, shards, strict=True):
        save_file(shard, directory / file, metadata={"format": "pt"})
    if shard_bytes is not None:
        places = {name: file for file, shard in zip(names, shards, strict=True) for name in shard}
        _write_json(directory / INDEX, {"weight_map": places})
    _write_json(directory / CONFIG, config_to_json(model.config))
    if model.config.engram_layer_ids:
        _write_json(directory / TOKEN_MAP, model.token_map.tolist())


def read_token_map(directory: Path) -> list[int] | None:
    """Compressed ids from `engram_token_map.json`, None where there is none. Raises `EngineError`."""
    path = directory / TOKEN_MAP
    if not path.exists():
        return None
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise broken(f"{path} is not JSON: {error}") from None
    if not isinstance(ids, list) or not all(isinstance(number, int) for number in ids):
        raise broken(f"{path} must hold a list of integers")
    return ids


def _compare_names(wanted: dict[str, Tensor], stored: dict[str, StoredTensor]) -> None:
    scales = {f"{name.removesuffix('.weight')}.scale" for name in wanted}
    missing = [name for name in wanted if name not in stored]
    extra = [name for name in stored if name not in wanted and name not in scales and not name.startswith(SKIPPED)]
    faults = [
        f"{len(names)} tensors {kind}: {', '.join(names[:_LISTED])}{', ...' if len(names) > _LISTED else ''}"
        for kind, names in (("are missing", missing), ("are unknown", extra))
        if names
    ]
    if faults:
        raise broken(f"the checkpoint does not fit its config.json: {'; '.join(faults)}")


def _tensors(
    wanted: dict[str, Tensor], stored: dict[str, StoredTensor], model: Transformer
) -> Iterator[tuple[str, Tensor]]:
    tables = dict(_tables(model))
    for file in sorted({stored[name].file for name in wanted}):
        with safe_open(file, framework="pt") as opened:
            for name in wanted:
                if stored[name].file != file:
                    continue
                tensor = opened.get_tensor(name)
                base = name.removesuffix(".weight")
                scale = _scale(f"{base}.scale", stored)
                if base in tables:
                    tables[base].scale = scale
                elif scale is not None:
                    tensor = _decoded(name, tensor, scale)
                else:
                    tensor = tensor.float()
                yield name, tensor


def _scale(name: str, stored: dict[str, StoredTensor]) -> Tensor | None:
    if name not in stored:
        return None
    with safe_open(stored[name].file, framework="pt") as opened:
        scale: Tensor = opened.get_tensor(name)
        return scale


def _decoded(name: str, tensor: Tensor, scale: Tensor) -> Tensor:
    try:
        return decode(tensor, scale)
    except ValueError as error:
        raise broken(f"{name}: {error}") from None


def _tables(model: Transformer) -> Iterator[tuple[str, Table]]:
    for name, module in model.named_modules():
        if isinstance(module, Table):
            yield name, module


def _encoded(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    experts = {
        f"{name}.{part}"
        for name, module in model.named_modules()
        if isinstance(module, Expert) and ".experts." in name
        for part in ("w1", "w2", "w3")
    }
    modules = dict(model.named_modules())
    for name, tensor in model.state_dict().items():
        base = name.removesuffix(".weight")
        module = modules.get(base)
        if isinstance(module, Linear) and module.rounds_inputs and name.endswith(".weight"):
            weight, scale = encode_fp4(tensor) if base in experts else encode_fp8(tensor)
            yield name, weight
            yield f"{base}.scale", scale
        else:
            yield name, tensor.contiguous()


def _shards(tensors: dict[str, Tensor], shard_bytes: int | None) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shard_bytes is not None and size and size + tensor.nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    return shards


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
