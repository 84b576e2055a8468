"""Compares a checkpoint with recorded outputs of another implementation: `python -m deepinfer.model.check DIR`.

The directory holds a checkpoint, `inputs.json`, and `golden.npz` (no rounding of caches) or `golden_quant.npz` (with),
or both. Each sequence runs as one prefill alone, as a prefill and decode steps in batches with the others, and so in
ragged pieces. One line per key: the largest difference, the limit. Exits with 1 if any is above its limit.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deepinfer.cache.pool import ModelCache
from deepinfer.errors import EngineError
from deepinfer.model.batch import Span, build_batch
from deepinfer.model.checkpoint import load_model
from deepinfer.model.config import ModelConfig, Quantization
from deepinfer.model.files import read_config, read_json, stored_tensors
from deepinfer.model.trace import Trace
from deepinfer.model.transformer import Transformer

Values: TypeAlias = npt.NDArray[Any]
Golden: TypeAlias = Mapping[str, Values]

LOGITS: Final = 3e-4
STREAMS: Final = 1e-3
# With rounding, a value near the edge of two steps may flip and move all rows after it. Such rows are not compared.
QUANTIZED: Final = 1e-3
NOISE: Final = 1e-3
BLOCK_GROUPS: Final = 16
# Tokens per step and sequence of the ragged run, in turn; sequences begin at different places of the cycle.
PIECES: Final = (1, 7, 2, 13, 1, 1, 4, 24, 3)
# Keys of the golden file that have one row per token along this axis, and the value of ours behind each.
_PER_LAYER: Final = {
    "streams": "streams",
    "pre": "pre",
    "router_idx": "router_idx",
    "router_w": "router_w",
    "attn_out": "attn_out",
    "ffn_out": "ffn_out",
    "index_sel": "index_sel",
}


class Report:
    """Largest difference of each key over all sequences, and whether all are within their limits."""

    def __init__(self) -> None:
        self._worst: dict[str, tuple[float, float]] = {}

    def add(self, key: str, difference: float, limit: float) -> None:
        """Note one comparison; NaN is above every limit."""
        known = self._worst.get(key, (0.0, limit))[0]
        worst = difference if np.isnan(difference) or difference > known else known
        self._worst[key] = (worst, limit)

    @property
    def passed(self) -> bool:
        """True if there is something, and nothing is above its limit."""
        return bool(self._worst) and all(worst <= limit for worst, limit in self._worst.values())

    def lines(self) -> list[str]:
        """One line per key."""
        width = max((len(key) for key in self._worst), default=0)
        return [
            f"{key:{width}}  {worst:9.2e}  limit {limit:.0e}  {'ok' if worst <= limit else 'ABOVE'}"
            for key, (worst, limit) in self._worst.items()
        ]


def main(arguments: Sequence[str]) -> int:
    """Check each directory named; 0 if all agree, 1 if not or on an error, 2 without a name."""
    if not arguments:
        print("usage: python -m deepinfer.model.check DIR ...", file=sys.stderr)
        return 2
    try:
        passed = [check_directory(Path(name)) for name in arguments]
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if all(passed) else 1


def check_directory(directory: Path) -> bool:
    """Check every golden file of `directory`, printing the reports. Raises `EngineError` if there is none."""
    names = [name for name in ("golden.npz", "golden_quant.npz") if (directory / name).exists()]
    if not names:
        raise EngineError(f"{directory} has neither golden.npz nor golden_quant.npz", code="invalid_checkpoint")
    passed = True
    files = {name: dict(np.load(directory / name)) for name in names}
    # What the hash is made of may stand in one file for both.
    hashed = {key: value for golden in files.values() for key, value in golden.items() if key.startswith("engram_")}
    for name, golden in files.items():
        report = check(directory, golden | hashed, quantized=name == "golden_quant.npz")
        print(f"{directory.name}/{name}: {'passed' if report.passed else 'FAILED'}")
        print("\n".join(f"  {line}" for line in report.lines()))
        passed &= report.passed
    return passed


@torch.inference_mode()
def check(directory: Path, golden: Golden, *, quantized: bool) -> Report:
    """Compare all sequences of `inputs.json` with `golden`."""
    config = replace(read_config(directory), quantization=Quantization(caches=quantized))
    config = _with_engram_sizes(config, golden, directory)
    token_map = golden.get("engram_token_map")
    model = load_model(directory, config=config, token_map=None if token_map is None else token_map.tolist())
    inputs = read_json(directory / "inputs.json")
    report = Report()
    _compare_hash(report, model, golden)
    sequences, halves = inputs["sequences"], inputs["decode_prefill_lengths"]
    plans = [(ids, [half] + [1] * (len(ids) - half)) for ids, half in zip(sequences, halves, strict=True)]
    decodes, _ = _run(model, plans)
    for number, (ids, half) in enumerate(zip(sequences, halves, strict=True)):
        own = {key.removeprefix(f"s{number}_"): value for key, value in golden.items() if key.startswith(f"s{number}_")}
        compare = _Comparison(report, own, quantized=quantized)
        trace = Trace()
        prefill, cache = _run(model, [(ids, [len(ids)])], trace)
        compare.prefill(model, prefill[0], trace, cache)
        compare.logits("decode_logits", decodes[number][half:], own["decode_logits"], slice(half, None))
        report.add("decode = prefill, every bit", float((decodes[number] != prefill[0]).sum()), 0.0)
    _compare_ragged(report, model, sequences, golden, quantized=quantized)
    return report


class _Comparison:
    """Compares one sequence's values with those of its golden keys."""

    def __init__(self, report: Report, golden: Golden, *, quantized: bool) -> None:
        self._report, self._golden, self._quantized = report, golden, quantized
        rows = len(golden["ids"])
        self._steady = golden["row_noise"] < NOISE if quantized else np.ones(rows, dtype=bool)

    def logits(self, key: str, found: Tensor, wanted: Values, rows: slice = slice(None)) -> None:
        """Compare logits [rows, vocabulary] of `rows`."""
        limit = QUANTIZED if self._quantized else LOGITS
        self._near(key, found.numpy(), wanted, self._steady[rows], limit)

    def prefill(self, model: Transformer, logits: Tensor, trace: Trace, cache: ModelCache) -> None:
        """Compare everything the golden file knows of a prefill."""
        self.logits("logits", logits, self._golden["logits"])
        for key, name in _PER_LAYER.items():
            if key in self._golden:
                for layer, wanted in zip(trace.layers(name), self._golden[key], strict=True):
                    self._rows(key, trace.last(name, layer), wanted)
        for key in ("hidden_pre_norm", "hidden_final"):
            if key in self._golden:
                self._rows(key, trace.last(key, 0), self._golden[key])
        for layer in trace.layers("cand_mask"):
            self._rows("cand_mask", trace.last("cand_mask", layer), self._golden["cand_mask"])
        if "engram_rows" in self._golden:
            found = torch.stack([trace.last("engram_rows", layer) for layer in trace.layers("engram_rows")], 1)
            self._rows("engram_rows", found, self._golden["engram_rows"])
        for layer in trace.layers("index_scores"):
            if (key := f"index_scores_L{layer}") in self._golden:
                self._rows("index_scores", trace.last("index_scores", layer), self._golden[key])
        for source in model.config.kv_source_layer_ids:
            for key, entries in (("compressed_kv", cache.compressed), ("index_key", cache.index_keys)):
                if (name := f"{key}_L{source}") in self._golden:
                    wanted = self._golden[name]
                    ratio = model.config.compress_ratios[source]
                    steady = self._steady[ratio - 1 :: ratio][: len(wanted)]
                    self._near(key, entries[source][: len(wanted)].numpy(), wanted, steady, STREAMS)

    def _rows(self, key: str, found: Tensor, wanted: Values) -> None:
        """Compare values with one row per token: whole numbers exactly, others within the limit of streams."""
        exact = not np.issubdtype(wanted.dtype, np.floating)
        self._near(key, found.numpy(), wanted, self._steady, 0.0 if exact else STREAMS)

    def _near(self, key: str, found: Values, wanted: Values, rows: Values, limit: float) -> None:
        if found.shape != wanted.shape:
            self._report.add(f"{key} (shape {found.shape}, wanted {wanted.shape})", np.nan, limit)
            return
        left, right = found[rows], wanted[rows]
        different = left != right
        with np.errstate(invalid="ignore"):
            gaps = np.abs(left.astype(np.float64) - right.astype(np.float64))[different]
        self._report.add(key, float(np.nan_to_num(gaps, nan=np.inf).max(initial=0.0)), limit)


def _run(
    model: Transformer, sequences: Sequence[tuple[Sequence[int], Sequence[int]]], trace: Trace | None = None
) -> tuple[list[Tensor], ModelCache]:
    """Logits [tokens, vocabulary] of each sequence, given as ids and the sizes of its pieces, all in common steps.

    Unwritten memory of the caches holds NaN, so that a read past what is visible shows.
    """
    block_size = BLOCK_GROUPS * math.lcm(*(ratio or 1 for ratio in model.config.compress_ratios))
    layout = model.config.cache_layout(block_size)
    blocks = max(-(-len(ids) // block_size) for ids, _ in sequences)
    cache = ModelCache(layout, block_count=blocks * len(sequences), slot_count=len(sequences), fill=float("nan"))
    done = [0] * len(sequences)
    logits: list[list[Tensor]] = [[] for _ in sequences]
    for step in range(max(len(pieces) for _, pieces in sequences)):
        spans, owners = [], []
        for slot, (ids, pieces) in enumerate(sequences):
            if step < len(pieces):
                piece = ids[done[slot] : done[slot] + pieces[step]]
                own = range(slot * blocks, (slot + 1) * blocks)
                spans.append(Span(token_ids=piece, start=done[slot], blocks=own, slot=slot, output_count=len(piece)))
                owners.append(slot)
                done[slot] += len(piece)
        found = model(build_batch(spans, layout), cache, trace)
        for slot, part in zip(owners, found.split([len(span.token_ids) for span in spans]), strict=True):
            logits[slot].append(part)
    return [torch.cat(parts) for parts in logits], cache


def _compare_ragged(
    report: Report, model: Transformer, sequences: Sequence[Sequence[int]], golden: Golden, *, quantized: bool
) -> None:
    plans = [(ids, _pieces(len(ids), number)) for number, ids in enumerate(sequences)]
    for number, found in enumerate(_run(model, plans)[0]):
        own = {key: golden[f"s{number}_{key}"] for key in ("ids", "logits", "row_noise")}
        _Comparison(report, own, quantized=quantized).logits("ragged batches", found, own["logits"])


def _pieces(length: int, offset: int) -> list[int]:
    sizes: list[int] = []
    while sum(sizes) < length:
        sizes.append(min(PIECES[(len(sizes) + offset) % len(PIECES)], length - sum(sizes)))
    return sizes


def _with_engram_sizes(config: ModelConfig, golden: Golden, directory: Path) -> ModelConfig:
    """Take the sizes of the hash from the golden file, as not every `config.json` states them."""
    if not config.engram_layer_ids or not {"engram_primes", "engram_multipliers"} <= golden.keys():
        return config
    primes, longest = golden["engram_primes"], int(golden["engram_multipliers"].shape[-1])
    table = stored_tensors(directory)[f"layers.{config.engram_layer_ids[0]}.engram.embed.weight"]
    return replace(
        config,
        engram_max_ngram_size=longest,
        engram_n_heads=primes.size // len(config.engram_layer_ids) // (longest - 1),
        engram_head_dim=table.shape[1],
        engram_vocab_size=int(primes.min()),
    )


def _compare_hash(report: Report, model: Transformer, golden: Golden) -> None:
    tables = [layer.engram.table for layer in model.layers if layer.engram is not None]
    for key, name in (("primes", "primes"), ("offsets", "offsets"), ("multipliers", "multipliers")):
        if tables and (wanted := golden.get(f"engram_{key}")) is not None:
            found = np.concatenate([getattr(table, name).numpy().ravel() for table in tables])
            same = np.array_equal(found, wanted.ravel())
            report.add(f"engram_{key}", 0.0 if same else np.inf, 0.0)
    if tables and (pad := golden.get("engram_pad_compressed_id")) is not None:
        own = int(model.token_map[model.config.engram_pad_token_id])
        report.add("engram_pad_compressed_id", float(own != int(pad)), 0.0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
