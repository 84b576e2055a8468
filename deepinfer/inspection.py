"""Tells what a checkpoint holds, from its configuration and the headers of its files. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from deepinfer.cache.layout import CacheLayout
from deepinfer.model.config import LayerPlan, ModelConfig
from deepinfer.model.files import StoredTensor, read_config, stored_tensors

# Bits of an element as safetensors names them.
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "F4": 4}
_PACKED = ("I8", "U8")


def describe(directory: Path) -> str:
    """Describe the checkpoint in `directory` as text. Raises `EngineError` if it cannot be read."""
    config, tensors = read_config(directory), stored_tensors(directory)
    rows: list[tuple[str, ...]] = [("layer", "role", "ratio", "keys of", "index of", "engram", "parameters", "bytes")]
    rows += [_layer_row(config, plan, tensors) for plan in config.plans]
    for stage in range(config.num_nextn_predict_layers):
        rows.append((f"draft {stage}", "window", "", "", "", "", *_size(tensors, f"mtp.{stage}.")))
    rows += [(name, "", "", "", "", "", *_size(tensors, f"{name}.")) for name in ("embed", "head")]
    rows.append(("all", "", "", "", "", "", *_size(tensors, "")))
    layout = config.cache_layout(block_size=math.lcm(*(ratio or 1 for ratio in config.compress_ratios)), paged=True)
    return "\n".join([*_table(rows), "", *_cache_lines(layout), *_format_lines(tensors)])


def _layer_row(config: ModelConfig, plan: LayerPlan, tensors: dict[str, StoredTensor]) -> tuple[str, ...]:
    return (
        str(plan.layer),
        f"{plan.role}{', candidates' if plan.selects_candidates else ''}",
        str(plan.ratio or ""),
        *("" if source is None else str(source) for source in (plan.kv_source, plan.index_source)),
        "yes" if plan.layer in config.engram_layer_ids else "",
        *_size(tensors, f"layers.{plan.layer}."),
    )


def _size(tensors: dict[str, StoredTensor], prefix: str) -> tuple[str, str]:
    """Parameters and bytes of all tensors whose names begin with `prefix`; scales are bytes, but no parameters."""
    chosen = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    scaled = {name.removesuffix(".scale") for name in tensors if name.endswith(".scale")}
    parameters = sum(
        math.prod(tensor.shape) * (2 if tensor.dtype in _PACKED and name.removesuffix(".weight") in scaled else 1)
        for name, tensor in chosen.items()
        if not (name.endswith(".scale") and f"{name.removesuffix('.scale')}.weight" in tensors)
    )
    return f"{parameters:,}", f"{sum(_bytes(tensor) for tensor in chosen.values()):,}"


def _bytes(tensor: StoredTensor) -> int:
    return math.prod(tensor.shape) * _BITS.get(tensor.dtype, 8) // 8


def _cache_lines(layout: CacheLayout) -> list[str]:
    here = 4 * layout.floats_per_block / layout.block_size
    return [
        f"cache in the release's formats: {layout.released_bytes_per_token:g} bytes per token, "
        f"{layout.released_bytes_per_slot:,} per sequence",
        f"cache in this engine: {here:g} bytes per token, window keys included",
    ]


def _format_lines(tensors: dict[str, StoredTensor]) -> list[str]:
    kinds: dict[str, int] = {}
    for tensor in tensors.values():
        kinds[tensor.dtype] = kinds.get(tensor.dtype, 0) + 1
    files = len({tensor.file for tensor in tensors.values()})
    listed = ", ".join(f"{count} of {kind}" for kind, count in sorted(kinds.items()))
    return [f"{len(tensors)} tensors in {files} {'file' if files == 1 else 'files'}: {listed}"]


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column > 1 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
