"""The loop of the native engine: schedule, execute, sample, commit, emit. Ids in, ids out, one step at a time.

The only file that sees all subsystems, and the sole writer of a sequence's tokens. Knows nothing of threads, asyncio,
HTTP or text; its caller owns it and calls it from one thread.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from deepinfer.cache.allocator import BlockAllocator
from deepinfer.cache.pool import ModelCache
from deepinfer.config import EngineConfig
from deepinfer.core import FinishReason, Request, StepOutput, TokenLogprob
from deepinfer.errors import EngineError
from deepinfer.model.batch import Span, build_batch
from deepinfer.model.transformer import Transformer
from deepinfer.sampler.adjustment import Adjustment, adjustment_of
from deepinfer.sampler.logprobs import token_logprobs
from deepinfer.sampler.sampler import Choice, sample
from deepinfer.scheduler.scheduler import Chunk, Scheduler
from deepinfer.scheduler.sequence import Sequence
from deepinfer.structured.constraint import Constraint, Matcher
from deepinfer.structured.masks import Allowed, MaskPool

# An error ends its request, and no other.
Outputs: TypeAlias = list[tuple[str, StepOutput | EngineError]]


@dataclass(frozen=True, slots=True)
class _Flight:
    """A sequence and what its tokens are chosen by."""

    sequence: Sequence
    constraint: Constraint | None
    adjustment: Adjustment | None


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
        self._flights: dict[str, _Flight] = {}
        # Those of them that wait for their grammars. The scheduler does not know them meanwhile.
        self._parked: dict[str, _Flight] = {}
        self._masks = MaskPool(model.config.vocab_size)

    @property
    def has_work(self) -> bool:
        """True while a sequence in flight can go on."""
        return len(self._flights) > len(self._parked)

    @property
    def parked(self) -> dict[str, Request]:
        """Requests in flight that wait for their grammars, by their ids."""
        return {request_id: flight.sequence.request for request_id, flight in self._parked.items()}

    @property
    def running_count(self) -> int:
        """Sequences that hold cache blocks."""
        return self._scheduler.running_count

    @property
    def cache_bytes(self) -> int:
        """Bytes of the cache blocks that sequences in flight hold."""
        return self._allocator.held_count * self._cache.bytes_per_block

    def add(self, request: Request, constraint: Constraint | None = None) -> None:
        """Queue a request, whose constraint is at its beginning. Without a seed of its own it gets a random one."""
        seed = request.sampling.seed
        sequence = Sequence(request, seed=secrets.randbits(64) if seed is None else seed)
        adjustment = adjustment_of(request.sampling, request.token_ids, self._model.config.vocab_size)
        self._flights[request.request_id] = _Flight(sequence, constraint, adjustment)
        self._scheduler.add(sequence)

    def resume(self, request_id: str, matcher: Matcher | None) -> None:
        """Let a parked request go on with its grammar, or without. Raises KeyError for a request that is not parked."""
        flight = self._parked.pop(request_id)
        assert flight.constraint is not None
        flight.constraint.provide(matcher)
        self._scheduler.resume(flight.sequence)

    def abort(self, request_id: str) -> Outputs:
        """End a request, free its blocks and return its last output; nothing for an unknown id."""
        if request_id not in self._flights:
            return []
        self._remove(request_id)
        return [(request_id, StepOutput(token_ids=(), finish_reason=FinishReason.ABORT))]

    def close(self) -> None:
        """End the threads."""
        self._masks.close()

    def abort_all(self) -> Outputs:
        """End every request."""
        return [output for request_id in list(self._flights) for output in self.abort(request_id)]

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
        flights = [self._flights[chunk.sequence.request.request_id] for chunk in chunks if chunk.samples]
        pending = self._masks.start([flight.constraint for flight in flights])
        logits = self._model(build_batch([_span(chunk) for chunk in chunks], self._cache.layout), self._cache)
        masks = pending.result()
        token_ids = sample(logits, [_choice(flight, mask) for flight, mask in zip(flights, masks, strict=True)])
        logprobs = _logprobs(logits, token_ids, flights)
        return [
            (flight.sequence.request.request_id, self._commit(flight, mask, token_id, logprob))
            for flight, mask, token_id, logprob in zip(flights, masks, token_ids, logprobs, strict=True)
        ]

    def _commit(
        self, flight: _Flight, mask: Allowed | EngineError, token_id: int | None, logprob: TokenLogprob | None
    ) -> StepOutput | EngineError:
        sequence = flight.sequence
        request_id, sampling = sequence.request.request_id, sequence.request.sampling
        try:
            token_id = _take(flight, mask, token_id)
        except EngineError as error:
            self._remove(request_id)
            return error
        reason = None
        if token_id in sampling.stop_token_ids:
            reason = FinishReason.STOP
        elif sequence.generated_count == sampling.max_tokens:
            reason = FinishReason.LENGTH
        if reason is not None:
            self._remove(request_id)
        elif flight.constraint is not None and flight.constraint.waiting:
            self._scheduler.remove(sequence)
            self._parked[request_id] = flight
        return StepOutput(
            token_ids=(token_id,),
            logprobs=None if logprob is None else (logprob,),
            finish_reason=reason,
            cached_tokens=sequence.cached_count if sequence.generated_count == 1 else None,
        )

    def _remove(self, request_id: str) -> None:
        flight = self._flights.pop(request_id)
        if self._parked.pop(request_id, None) is None:
            self._scheduler.remove(flight.sequence)


def _span(chunk: Chunk) -> Span:
    sequence = chunk.sequence
    return Span(
        token_ids=sequence.token_ids[chunk.start : chunk.stop],
        start=chunk.start,
        blocks=sequence.blocks,
        output_count=int(chunk.samples),
    )


def _take(flight: _Flight, mask: Allowed | EngineError, token_id: int | None) -> int:
    """Append a token to a sequence. Raises `EngineError` where there is none."""
    if isinstance(mask, EngineError):
        grammar = flight.sequence.request.grammar
        raise mask.about(None if grammar is None else grammar.field)
    if token_id is None:
        raise EngineError(
            "the model gave no finite logit for the next token; check its weights", code="non_finite_logits"
        )
    if flight.constraint is not None:
        flight.constraint.accept(token_id)
    if flight.adjustment is not None:
        flight.adjustment.accept(token_id)
    flight.sequence.token_ids.append(token_id)
    return token_id


def _choice(flight: _Flight, mask: Allowed | EngineError) -> Choice | None:
    if isinstance(mask, EngineError):
        return None
    sampling = flight.sequence.request.sampling
    return Choice(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=flight.sequence.seed,
        position=len(flight.sequence.token_ids),
        adjustment=flight.adjustment,
        allowed=None if mask is None else torch.from_numpy(mask),
        forced=None if flight.constraint is None else flight.constraint.forced,
    )


def _logprobs(logits: Tensor, token_ids: list[int | None], flights: list[_Flight]) -> list[TokenLogprob | None]:
    """Log probabilities of the rows that ask for them and have a token, None for the others."""
    result: list[TokenLogprob | None] = [None] * len(flights)
    asked = [
        (row, token_id, count)
        for row, (token_id, flight) in enumerate(zip(token_ids, flights, strict=True))
        if token_id is not None and (count := flight.sequence.request.sampling.top_logprobs) is not None
    ]
    if asked:
        rows, chosen, counts = zip(*asked, strict=True)
        for row, logprob in zip(rows, token_logprobs(logits[list(rows)], chosen, counts), strict=True):
            result[row] = logprob
    return result
