"""What several engine tests need: a model of a few kilobytes, requests, and ways to run them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from deepinfer.config import EngineConfig
from deepinfer.core import FinishReason, Grammar, Request, SamplingParams, StepOutput
from deepinfer.engine import EngineLoop
from deepinfer.model.initial import randomize
from deepinfer.model.presets import embedded
from deepinfer.model.transformer import Transformer

TINY = embedded(vocab_size=1000)
CONFIG = EngineConfig(
    context_length=512, block_size=16, block_count=64, max_step_tokens=64, max_running_sequences=16, weight_seed=1
)


def prompt(number: int, length: int) -> list[int]:
    """Token ids that differ from prompt to prompt."""
    return [(number * 7919 + place * 31 + place * place) % TINY.vocab_size for place in range(length)]


def request(
    request_id: str, token_ids: Sequence[int], sampling: SamplingParams, *, grammar: Grammar | None = None
) -> Request:
    return Request(request_id=request_id, token_ids=token_ids, sampling=sampling, grammar=grammar)


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0.0)


def engine_loop(config: EngineConfig = CONFIG) -> EngineLoop:
    return EngineLoop(config, randomize(Transformer(TINY), seed=config.weight_seed, logit_deviation=5.0))


def run(engine: EngineLoop, requests: Iterable[Request]) -> dict[str, list[int]]:
    """Token ids of each request, all run together until the last has ended."""
    answers: dict[str, list[int]] = {}
    for one in requests:
        engine.add(one)
        answers[one.request_id] = []
    while engine.has_work:
        for request_id, output in engine.step():
            assert isinstance(output, StepOutput), output
            answers[request_id] += output.token_ids
    return answers


async def collect(stream: AsyncIterator[StepOutput]) -> tuple[list[int], FinishReason | None]:
    token_ids: list[int] = []
    reason = None
    async for output in stream:
        token_ids += output.token_ids
        reason = output.finish_reason
    return token_ids, reason
