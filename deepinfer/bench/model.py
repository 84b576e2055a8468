"""Speed of the model alone: prefill and decode by batch size, batch-invariant and free, and the share of each block."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from deepinfer.cache.pool import ModelCache
from deepinfer.model.attention import Attention
from deepinfer.model.batch import Batch, Span, build_batch
from deepinfer.model.checkpoint import load_model
from deepinfer.model.compressor import Compressor
from deepinfer.model.engram import Engram
from deepinfer.model.indexer import Indexer
from deepinfer.model.initial import randomize
from deepinfer.model.layer import Layer
from deepinfer.model.moe import MixtureOfExperts
from deepinfer.model.presets import bench
from deepinfer.model.transformer import Transformer

PROMPT = 512
BATCHES = (1, 8, 32)
BLOCK_SIZE = 16
WARM_UP = 2
# Blocks whose time is told apart; a block within another counts for itself alone.
_BLOCKS = {
    Attention: "attention",
    Compressor: "compressor",
    Indexer: "indexer",
    MixtureOfExperts: "experts",
    Engram: "engram",
    Layer: "hyper-connections, norms",
    Transformer: "head, embedding, rest",
}


def run_bench(checkpoint: Path | None, *, threads: int, rounds: int) -> None:
    """Measure and print. Raises `EngineError` for a checkpoint that cannot be loaded."""
    torch.set_num_threads(threads)
    model = randomize(Transformer(bench()), seed=0) if checkpoint is None else load_model(checkpoint)
    ends = ("embed.weight", "head.weight")
    inner = sum(parameter.numel() for name, parameter in model.named_parameters() if name not in ends)
    print(f"{inner / 1e6:.1f} M parameters besides embeddings, {threads} threads, prompt of {PROMPT} tokens")
    print(f"{'':14}{'tokens/s':>10}{'ms/step':>9}{'CPU ms':>8}{'free mode':>11}{'cost of invariance':>20}")
    setting = _Setting(model)
    for label, count, batch in setting.cases():
        fixed, free = setting.compare(batch, rounds)
        wall, cpu = fixed
        line = f"{label:14}{count / wall:10.0f}{wall * 1e3:9.1f}{cpu * 1e3:8.1f}{count / free[0]:11.0f}"
        print(f"{line}{wall / free[0]:19.2f}x")
    for label, _, batch in setting.cases():
        print(f"{label:14}{setting.shares(batch)}")


class _Setting:
    """A model, its cache filled with prompts, and the batches to measure."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._layout = model.config.cache_layout(BLOCK_SIZE)
        self._blocks = PROMPT // BLOCK_SIZE + 1
        sequences = max(BATCHES)
        self._cache = ModelCache(self._layout, block_count=self._blocks * sequences, slot_count=sequences)
        for sequence in range(sequences):
            self._run(self._batch([self._span(sequence, PROMPT, 0)]))

    def cases(self) -> list[tuple[str, int, Batch]]:
        """Label, tokens and batch of each measurement."""
        decodes = [[self._span(sequence, 1, PROMPT) for sequence in range(count)] for count in BATCHES]
        named = [(f"decode, {len(spans)}", len(spans), self._batch(spans)) for spans in decodes]
        return [("prefill", PROMPT, self._batch([self._span(0, PROMPT, 0)])), *named]

    def compare(self, batch: Batch, rounds: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Median seconds of wall clock and processor, batch-invariant and free, measured in turn."""
        times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for number in range(WARM_UP + rounds):
            for invariant in (True, False):
                self._model.set_batch_invariant(invariant)
                wall, cpu = time.perf_counter(), time.process_time()
                self._run(batch)
                if number >= WARM_UP:
                    times[invariant].append((time.perf_counter() - wall, time.process_time() - cpu))
        self._model.set_batch_invariant(True)
        fixed, free = ((median(t[0] for t in times[mode]), median(t[1] for t in times[mode])) for mode in (True, False))
        return fixed, free

    def shares(self, batch: Batch) -> str:
        """Share of each block in the time of a step."""
        watch = _Stopwatch(self._model)
        for _ in range(5):
            self._run(batch)
        watch.close()
        total = sum(watch.seconds.values())
        ranked = sorted(watch.seconds.items(), key=lambda item: -item[1])
        return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in ranked if seconds >= total / 200)

    def _span(self, sequence: int, length: int, start: int) -> Span:
        vocabulary = self._model.config.vocab_size
        ids = [(sequence * 7919 + place * place) % vocabulary for place in range(start, start + length)]
        blocks = range(sequence * self._blocks, (sequence + 1) * self._blocks)
        return Span(token_ids=ids, start=start, blocks=blocks, slot=sequence, output_count=1)

    def _batch(self, spans: Sequence[Span]) -> Batch:
        return build_batch(spans, self._layout)

    @torch.inference_mode()
    def _run(self, batch: Batch) -> None:
        self._model(batch, self._cache)


class _Stopwatch:
    """Seconds spent in each kind of block, without the blocks inside it."""

    def __init__(self, model: Transformer) -> None:
        self.seconds = dict.fromkeys(_BLOCKS.values(), 0.0)
        self._running: list[str] = []
        self._since = 0.0
        self._handles = []
        for module in model.modules():
            for kind, name in _BLOCKS.items():
                if isinstance(module, kind):
                    self._handles.append(module.register_forward_pre_hook(self._enter(name)))
                    self._handles.append(module.register_forward_hook(self._leave))

    def close(self) -> None:
        """Take the hooks out again."""
        for handle in self._handles:
            handle.remove()

    def _enter(self, name: str) -> Callable[[nn.Module, Any], None]:
        def enter(_: nn.Module, __: Any) -> None:
            self._charge()
            self._running.append(name)

        return enter

    def _leave(self, *_: Any) -> None:
        self._charge()
        self._running.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now
