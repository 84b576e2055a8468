"""Finds what a checkpoint directory holds: configuration, and in which file each tensor lies. Imports no torch.

The official layout: `config.json`, and `model.safetensors` or shards named by `model.safetensors.index.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open

from deepinfer.errors import EngineError
from deepinfer.model.config import ModelConfig
from deepinfer.model.config_file import config_from_json

CONFIG: Final = "config.json"
SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as stored: its file, element type by safetensors' name, and shape."""

    file: Path
    dtype: str
    shape: tuple[int, ...]


def read_config(directory: Path) -> ModelConfig:
    """Read `config.json`. Raises `EngineError`."""
    return config_from_json(read_json(directory / CONFIG))


def read_json(path: Path) -> Mapping[str, Any]:
    """Read an object. Raises `EngineError` (`invalid_checkpoint`) naming the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise broken(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise broken(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise broken(f"{path} holds {type(value).__name__}; it must hold an object")
    return value


def stored_tensors(directory: Path) -> dict[str, StoredTensor]:
    """Every tensor of a checkpoint by name; reads headers only. Raises `EngineError`."""
    found: dict[str, StoredTensor] = {}
    for file in _files(directory):
        try:
            with safe_open(file, framework="numpy") as opened:
                for name in opened.keys():
                    part = opened.get_slice(name)
                    found[name] = StoredTensor(file, part.get_dtype(), tuple(part.get_shape()))
        except (OSError, SafetensorError) as error:
            raise broken(f"{file} cannot be read: {error}") from None
    return found


def broken(message: str) -> EngineError:
    """Make the error of a checkpoint that cannot be used."""
    return EngineError(message, code="invalid_checkpoint")


def _files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise broken(f"{directory} is not a directory; give one with {CONFIG} and {SINGLE}")
    if not (directory / INDEX).exists():
        return [directory / SINGLE]
    names = read_json(directory / INDEX).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise broken(f"{directory / INDEX} has no weight_map")
    for name in names.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise broken(f"{directory / INDEX} names the file {name!r}; it must lie beside the index")
    return [directory / name for name in sorted(set(names.values()))]
