"""The loop of the native engine: schedule, execute, sample, commit, emit. Ids in, ids out, one step at a time.

The only file that sees all subsystems, and the sole writer of a sequence's tokens. Knows nothing of threads, asyncio,
HTTP or text; its caller owns it and calls it from one thread.
"""

from __future__ import annotations

import secrets
from typing import TypeAlias

import torch
from torch import Tensor

from deepinfer.cache.allocator import BlockAllocator
from deepinfer.cache.pool import ModelCache
from deepinfer.config import EngineConfig
from deepinfer.core import FinishReason, Request, StepOutput, TokenLogprob
from deepinfer.model.batch import Span, build_batch
from deepinfer.model.transformer import Transformer
from deepinfer.sampler.logprobs import token_logprobs
from deepinfer.sampler.sampler import Choice, sample
from deepinfer.scheduler.scheduler import Chunk, Scheduler
from deepinfer.scheduler.sequence import Sequence

Outputs: TypeAlias = list[tuple[str, StepOutput]]


class EngineLoop:
    """Sequences in flight, the model and its cache. Requests must have been checked: see `backends/admission.py`."""

    def __init__(self, config: EngineConfig, model: Transformer) -> None:
        self._model = model
        self._allocator = BlockAllocator(config.block_count)
        # All in blocks, so that a sequence can go on where any other has been.
        layout = model.config.cache_layout(config.block_size, paged=True)
        self._cache = ModelCache(layout, block_count=config.block_count)
        self._scheduler = Scheduler(
            self._allocator,
            block_size=config.block_size,
            max_step_tokens=config.max_step_tokens,
            max_running_sequences=config.max_running_sequences,
            kept_sequences=config.kept_sequences,
        )
        self._sequences: dict[str, Sequence] = {}

    @property
    def has_work(self) -> bool:
        """True while a sequence is in flight."""
        return bool(self._sequences)

    @property
    def running_count(self) -> int:
        """Sequences that hold cache blocks."""
        return self._scheduler.running_count

    @property
    def cache_bytes(self) -> int:
        """Bytes of the cache blocks that sequences in flight hold."""
        return self._allocator.held_count * self._cache.bytes_per_block

    def add(self, request: Request) -> None:
        """Queue a request. Without a seed of its own it gets a random one."""
        seed = request.sampling.seed
        sequence = Sequence(request, seed=secrets.randbits(64) if seed is None else seed)
        self._sequences[request.request_id] = sequence
        self._scheduler.add(sequence)

    def abort(self, request_id: str) -> Outputs:
        """End a request, free its blocks and return its last output; nothing for an unknown id."""
        sequence = self._sequences.pop(request_id, None)
        if sequence is None:
            return []
        self._scheduler.remove(sequence)
        return [(request_id, StepOutput(token_ids=(), finish_reason=FinishReason.ABORT))]

    def abort_all(self) -> Outputs:
        """End every request."""
        return [output for request_id in list(self._sequences) for output in self.abort(request_id)]

    @torch.inference_mode()
    def step(self) -> Outputs:
        """Run one forward pass and return what it produced: at most one token per sequence."""
        chunks = self._scheduler.schedule()
        # In this order: a block may be the source of one copy and then the target of another.
        for chunk in chunks:
            if chunk.block_copy is not None:
                self._cache.copy_block(*chunk.block_copy)
        # Chunks of equal length share calls; the many of one token stand together.
        chunks.sort(key=lambda chunk: chunk.stop - chunk.start > 1)
        logits = self._model(build_batch([_span(chunk) for chunk in chunks], self._cache.layout), self._cache)
        sequences = [chunk.sequence for chunk in chunks if chunk.samples]
        token_ids = sample(logits, [_choice(sequence) for sequence in sequences])
        logprobs = _logprobs(logits, token_ids, sequences)
        return [
            (sequence.request.request_id, self._commit(sequence, token_id, logprob))
            for sequence, token_id, logprob in zip(sequences, token_ids, logprobs, strict=True)
        ]

    def _commit(self, sequence: Sequence, token_id: int, logprob: TokenLogprob | None) -> StepOutput:
        sequence.token_ids.append(token_id)
        sampling = sequence.request.sampling
        reason = None
        if token_id in sampling.stop_token_ids:
            reason = FinishReason.STOP
        elif sequence.generated_count == sampling.max_tokens:
            reason = FinishReason.LENGTH
        if reason is not None:
            del self._sequences[sequence.request.request_id]
            self._scheduler.remove(sequence)
        return StepOutput(
            token_ids=(token_id,),
            logprobs=None if logprob is None else (logprob,),
            finish_reason=reason,
            cached_tokens=sequence.cached_count if sequence.generated_count == 1 else None,
        )


def _span(chunk: Chunk) -> Span:
    sequence = chunk.sequence
    return Span(
        token_ids=sequence.token_ids[chunk.start : chunk.stop],
        start=chunk.start,
        blocks=sequence.blocks,
        output_count=int(chunk.samples),
    )


def _choice(sequence: Sequence) -> Choice:
    sampling = sequence.request.sampling
    return Choice(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sequence.seed,
        position=len(sequence.token_ids),
    )


def _logprobs(logits: Tensor, token_ids: list[int], sequences: list[Sequence]) -> list[TokenLogprob | None]:
    """Log probabilities of the rows that ask for them, None for the others."""
    result: list[TokenLogprob | None] = [None] * len(sequences)
    counts = [sequence.request.sampling.top_logprobs for sequence in sequences]
    asked = {row: count for row, count in enumerate(counts) if count is not None}
    if asked:
        described = token_logprobs(logits[list(asked)], [token_ids[row] for row in asked], list(asked.values()))
        for row, logprob in zip(asked, described, strict=True):
            result[row] = logprob
    return result
