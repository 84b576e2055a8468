"""The native engine under constraints: in a batch, while grammars compile, and when one of them fails."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from deepinfer.backends.native import NativeEngine
from deepinfer.cache.pool import ModelCache
from deepinfer.config import EngineConfig
from deepinfer.core import FinishReason, Grammar, Request, SamplingParams, StepOutput, ThinkingLimit, TokenLogprob
from deepinfer.errors import EngineError
from deepinfer.model.batch import Batch
from deepinfer.model.presets import embedded
from deepinfer.model.transformer import Transformer
from deepinfer.structured.compiler import GrammarCompiler
from deepinfer.structured.guidance import CompiledGrammar, Guidance
from tests.structured.support import END, MARK, SMALL_SIZE, THINK_END, small_vocabulary

MODEL = embedded(vocab_size=SMALL_SIZE)
CONFIG = EngineConfig(
    context_length=512, block_size=16, block_count=64, max_step_tokens=64, max_running_sequences=16, weight_seed=1
)
NUMBERS = 'start: "[" NUMBER ("," NUMBER){2} "]"\nNUMBER: /[0-9]{1,4}/'


@pytest.fixture
async def engine() -> AsyncIterator[NativeEngine]:
    native = NativeEngine(CONFIG, MODEL, vocabulary=small_vocabulary)
    await native.start()
    yield native
    await native.stop()


def request(name: str, text: str | None, *, max_tokens: int = 60, **fields: Any) -> Request:
    sampling = SamplingParams(max_tokens=max_tokens, seed=len(name) * 31 + ord(name[-1]), stop_token_ids=(END,))
    fields = {"token_ids": list(name.encode()), "sampling": sampling, **fields}
    return Request(request_id=name, grammar=None if text is None else Grammar(text=text), **fields)


async def collect(engine: NativeEngine, one: Request) -> tuple[list[int], FinishReason | None]:
    token_ids: list[int] = []
    reason = None
    async for output in engine.submit(one):
        token_ids += output.token_ids
        reason = output.finish_reason
    return token_ids, reason


def text_of(token_ids: list[int]) -> str:
    return bytes(token_ids).decode()


async def test_answers_match_their_grammars_and_no_other_answer_changes(engine: NativeEngine) -> None:
    free = [request(f"free{n}", None) for n in range(6)]
    alone = [await collect(engine, one) for one in free]
    bound = [request(f"bound{n}", NUMBERS) for n in range(6)]
    together = await asyncio.gather(*[collect(engine, one) for pair in zip(free, bound, strict=True) for one in pair])
    assert together[::2] == alone
    for token_ids, reason in together[1::2]:
        assert reason is FinishReason.STOP
        assert token_ids[-1] == END
        values = text_of(token_ids[:-1])
        assert values[0] == "[" and values[-1] == "]" and all(part.isdigit() for part in values[1:-1].split(","))
    assert together[1::2] == [await collect(engine, one) for one in bound]


async def test_a_cut_answer_says_so(engine: NativeEngine) -> None:
    token_ids, reason = await collect(engine, request("a", NUMBERS, max_tokens=3))
    assert (len(token_ids), token_ids[0], reason) == (3, ord("["), FinishReason.LENGTH)


async def test_answers_survive_preemption() -> None:
    """A sequence that is computed again keeps its place in the grammar."""
    text = "start: /(ab|cd){60}/"

    async def answers(block_count: int) -> list[tuple[list[int], FinishReason | None]]:
        config = replace(CONFIG, context_length=150, block_size=8, block_count=block_count)
        engine = NativeEngine(config, MODEL, vocabulary=small_vocabulary)
        await engine.start()
        try:
            many = [collect(engine, request(f"r{n}", text, max_tokens=130)) for n in range(6)]
            return list(await asyncio.gather(*many))
        finally:
            await engine.stop()

    scarce = await answers(20)
    assert all(reason is FinishReason.STOP for _, reason in scarce)
    assert len({tuple(token_ids) for token_ids, _ in scarce}) > 1
    assert scarce == await answers(200)


@pytest.mark.parametrize("text", [NUMBERS, None])
async def test_thinking_ends_at_its_limit_and_its_log_probability_is_the_models(
    engine: NativeEngine, text: str | None
) -> None:
    limit = ThinkingLimit(tokens=5, end_token_id=THINK_END)
    one = request("t", None, thinking_limit=limit)
    one = replace(
        one,
        grammar=None if text is None else Grammar(text=text, start_after=THINK_END),
        sampling=replace(one.sampling, top_logprobs=SMALL_SIZE, logit_bias={THINK_END: -100.0}),
    )
    token_ids: list[int] = []
    logprobs: list[TokenLogprob] = []
    async for output in engine.submit(one):
        token_ids += output.token_ids
        logprobs += output.logprobs or ()
    assert THINK_END not in token_ids[:5] and token_ids[5] == THINK_END
    for token_id, logprob in zip(token_ids, logprobs, strict=True):
        everything = dict(logprob.top)
        assert everything[token_id] == logprob.logprob
        # Of the whole distribution: neither the constraint nor the bias has taken anything out of it.
        assert sum(math.exp(value) for value in everything.values()) == pytest.approx(1.0, abs=1e-4)
    if text is not None:
        assert text_of(token_ids[6:7]) == "["


async def test_a_grammar_at_fault_ends_its_own_request(engine: NativeEngine) -> None:
    endless = request("other", None, sampling=SamplingParams(max_tokens=200, seed=1))
    other = asyncio.create_task(collect(engine, endless))
    for name, text, code in (
        ("bad", "start: unknown", "invalid_grammar"),
        ("dead", 'start: "a" X\nX: /bc/ & /bd/', "grammar_dead_end"),
        ("never", "start: X\nX: /bc/ & /bd/", "grammar_dead_end"),
        ("deep", 'start: r0\nr9000: "a"\n' + "\n".join(f"r{n}: r{n + 1}" for n in range(9_000)), "grammar_too_complex"),
    ):
        for _ in range(2):
            with pytest.raises(EngineError) as failure:
                await collect(engine, request(name, text))
            assert (failure.value.code, failure.value.client_fault) == (code, True)
    assert len((await other)[0]) == 200
    assert engine.health().waiting == engine.health().running == 0
    assert engine.health().cache_bytes == 0


async def test_a_request_goes_on_without_a_grammar_that_it_does_not_require(engine: NativeEngine) -> None:
    one = request("a", "start: unknown", max_tokens=20)
    assert one.grammar is not None
    free = replace(one, grammar=replace(one.grammar, binding=False, required=False))
    assert await collect(engine, free) == await collect(engine, request("a", None, max_tokens=20))


async def test_an_engine_without_vocabulary_refuses_grammars() -> None:
    engine = NativeEngine(CONFIG, MODEL)
    await engine.start()
    try:
        with pytest.raises(EngineError) as refusal:
            engine.submit(request("a", NUMBERS))
        assert (refusal.value.code, refusal.value.client_fault) == ("grammar_not_supported", True)
    finally:
        await engine.stop()


async def test_a_vocabulary_of_another_size_is_refused() -> None:
    engine = NativeEngine(CONFIG, embedded(vocab_size=300), vocabulary=small_vocabulary)
    with pytest.raises(EngineError, match="260 tokens and the model 300"):
        await engine.start()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grammar": Grammar(text="", start_after=SMALL_SIZE)}, "start_after has 260"),
        ({"grammar": Grammar(text="", trigger=-1)}, "trigger has -1"),
        ({"thinking_limit": ThinkingLimit(tokens=1, end_token_id=SMALL_SIZE)}, "end_token_id has 260"),
        ({"thinking_limit": ThinkingLimit(tokens=-1, end_token_id=0)}, "thinking_limit is -1"),
        (
            {"grammar": Grammar(text=""), "thinking_limit": ThinkingLimit(tokens=1, end_token_id=9)},
            "ends with token 9, and the grammar starts after None",
        ),
    ],
)
async def test_constraints_that_cannot_be_are_refused(
    engine: NativeEngine, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(EngineError, match=words) as refusal:
        engine.submit(replace(request("a", None), **changes))
    assert refusal.value.client_fault


class SlowCompile:
    """Holds up the compiling of every grammar until told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        compile_now = Guidance.compile

        def wait(guidance: Guidance, text: str) -> CompiledGrammar:
            assert self.go_on.wait(20)
            return compile_now(guidance, text)

        monkeypatch.setattr(Guidance, "compile", wait)


@pytest.fixture
def slow_compile(monkeypatch: pytest.MonkeyPatch) -> SlowCompile:
    return SlowCompile(monkeypatch)


async def test_others_go_on_while_a_grammar_compiles(engine: NativeEngine, slow_compile: SlowCompile) -> None:
    waiting = asyncio.create_task(collect(engine, request("waiting", NUMBERS)))
    for n in range(3):
        assert len((await collect(engine, request(f"free{n}", None)))[0]) > 0
    assert not waiting.done()
    assert engine.health().waiting == 1
    slow_compile.go_on.set()
    assert (await waiting)[1] is FinishReason.STOP


async def test_a_request_can_be_ended_while_its_grammar_compiles(
    engine: NativeEngine, slow_compile: SlowCompile
) -> None:
    stream = engine.submit(request("a", NUMBERS))
    engine.abort("a")
    assert [output async for output in stream] == [StepOutput(token_ids=(), finish_reason=FinishReason.ABORT)]
    async with aclosing(engine.submit(request("b", NUMBERS))):
        pass
    # The id is free again, for a request that is not the one whose grammar then arrives.
    async with asyncio.timeout(10):
        while engine.health().waiting:
            await asyncio.sleep(0.001)
    again = asyncio.create_task(collect(engine, request("a", 'start: "x"')))
    slow_compile.go_on.set()
    assert await again == ([ord("x"), END], FinishReason.STOP)


def calling(name: str, text: str, *, max_tokens: int = 60) -> Request:
    """A request whose answer is some free tokens, then the mark that wakes its grammar, then what that lets through.

    Whatever the model would say, it says the mark, wherever it may.
    """
    free = request(name, None, thinking_limit=ThinkingLimit(tokens=5, end_token_id=THINK_END))
    sampling = replace(free.sampling, max_tokens=max_tokens, logit_bias={MARK: 100.0})
    grammar = Grammar(text=text, start_after=THINK_END, trigger=MARK, binding=False, required=False)
    return replace(free, sampling=sampling, grammar=grammar)


async def test_a_sleeping_grammar_is_waited_for_only_when_it_wakes(
    engine: NativeEngine, slow_compile: SlowCompile
) -> None:
    slow_compile.go_on.set()
    at_once = await collect(engine, calling("a", NUMBERS + "\n"))
    slow_compile.go_on.clear()
    stream = engine.submit(calling("a", NUMBERS))
    written = [token_id for _ in range(7) for token_id in (await anext(stream)).token_ids]
    assert written == [*[MARK] * 5, THINK_END, MARK]
    waiting = asyncio.create_task(anext(stream))
    for n in range(3):
        assert len((await collect(engine, request(f"free{n}", None)))[0]) > 0
    assert not waiting.done()
    assert (engine.health().waiting, engine.health().running, engine.health().cache_bytes) == (1, 0, 0)
    slow_compile.go_on.set()
    written += (await waiting).token_ids
    outputs = [output async for output in stream]
    written += [token_id for output in outputs for token_id in output.token_ids]
    assert (written, outputs[-1].finish_reason) == at_once
    assert re.fullmatch(r"\[[0-9]+(,[0-9]+){2}\]", text_of(written[7:-1]))


async def test_a_grammar_that_never_wakes_is_not_compiled(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compile_now = Guidance.compile

    def note(guidance: Guidance, text: str) -> CompiledGrammar:
        compiled.append(text)
        return compile_now(guidance, text)

    monkeypatch.setattr(Guidance, "compile", note)
    one = calling("a", NUMBERS)
    asleep = replace(one, sampling=replace(one.sampling, logit_bias={MARK: -100.0}))
    assert len((await collect(engine, asleep))[0]) > 6
    assert not compiled
    await collect(engine, one)
    assert compiled == [NUMBERS]


@pytest.mark.parametrize("text", ["start: unknown", "start: X\nX: /bc/ & /bd/"])
async def test_a_sleeping_grammar_that_cannot_be_compiled_is_left_out_when_it_wakes(
    engine: NativeEngine, text: str
) -> None:
    assert await collect(engine, calling("a", text)) == ([*[MARK] * 5, THINK_END, *[MARK] * 54], FinishReason.LENGTH)


@pytest.mark.parametrize("ends", ["abort", "close", "stop"])
async def test_a_request_can_be_ended_while_it_waits_for_the_grammar_that_woke(
    slow_compile: SlowCompile, ends: str
) -> None:
    engine = NativeEngine(CONFIG, MODEL, vocabulary=small_vocabulary)
    slow_compile.go_on.set()
    await engine.start()
    slow_compile.go_on.clear()
    stream = engine.submit(calling("a", NUMBERS))
    for _ in range(7):
        await anext(stream)
    async with asyncio.timeout(10):
        while engine.health().running:
            await asyncio.sleep(0.001)
        if ends == "abort":
            engine.abort("a")
        elif ends == "close":
            await stream.aclose()
        else:
            await engine.stop()
        if ends != "close":
            assert [output.finish_reason async for output in stream] == [FinishReason.ABORT]
        while engine.health().waiting:
            await asyncio.sleep(0.001)
    slow_compile.go_on.set()
    if ends != "stop":
        assert (await collect(engine, calling("a", NUMBERS)))[1] is FinishReason.STOP
    await engine.stop()


async def test_stopping_ends_requests_whose_grammars_compile(slow_compile: SlowCompile) -> None:
    engine = NativeEngine(CONFIG, MODEL, vocabulary=small_vocabulary)
    slow_compile.go_on.set()
    await engine.start()
    slow_compile.go_on.clear()
    stream = engine.submit(request("a", NUMBERS))
    while not engine.health().waiting:
        await asyncio.sleep(0.001)
    await engine.stop()
    assert [output.finish_reason async for output in stream] == [FinishReason.ABORT]
    slow_compile.go_on.set()


async def test_a_row_whose_allowed_logits_are_no_numbers_ends_alone(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = Transformer.forward

    def without_bracket(model: Transformer, batch: Batch, cache: ModelCache) -> Tensor:
        logits = forward(model, batch, cache)
        logits[:, ord("[")] = -torch.inf
        return logits

    monkeypatch.setattr(Transformer, "forward", without_bracket)
    other = asyncio.create_task(collect(engine, request("other", None)))
    with pytest.raises(EngineError) as failure:
        await collect(engine, request("a", NUMBERS))
    assert failure.value.code == "non_finite_logits"
    assert (await other)[1] is not None


def test_closing_the_compiler_ends_its_processes() -> None:
    compiler = GrammarCompiler(small_vocabulary())
    compiler.warm()
    [checker] = compiler._checkers
    process = checker._process
    assert process is not None and process.poll() is None
    compiler.close()
    assert process.poll() is not None
