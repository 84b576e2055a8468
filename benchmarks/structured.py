"""What structured output costs and whether it holds: `python -m benchmarks.structured costs | answers`.

`costs` prints how long grammars take to compile and masks take to compute, over generated requests. `answers` runs
generated requests on the embedded model, whose weights are random, and fails unless 95 % of the answers come to an end
within their 512 tokens and each of those is what was asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

import deepseek_recipe as recipe
from deepinfer.backends.native import NativeEngine
from deepinfer.config import EngineConfig
from deepinfer.core import Grammar
from deepinfer.model.presets import embedded
from deepinfer.server.bridge import engine_requests
from deepinfer.server.vocabulary import read_vocabulary
from deepinfer.structured.compiler import GrammarCompiler
from deepinfer.structured.guidance import CompiledGrammar, Guidance
from tests.structured.asking import OPTIONS, answer, asked, check, is_finished

_WALK_TOKENS = 300
_END = recipe.eos_token_id("v4.1")
_AT_ONCE = 64
_LEAST_FINISHED = 0.95


def main() -> int:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("costs", "answers"))
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "costs":
        return measure_costs(arguments.requests)
    return asyncio.run(measure_answers(arguments.requests, arguments.seeds))


def measure_costs(count: int) -> int:
    """Compile the grammars of `count` requests, and walk each at random."""
    vocabulary = read_vocabulary("v4.1")
    start = time.perf_counter()
    compiler = GrammarCompiler(vocabulary)
    print(f"set-up: {time.perf_counter() - start:.2f} s")
    compiler.warm()
    guidance = Guidance(vocabulary)
    texts = [_grammar(number).text for number in range(count)]
    checked, compiled, masks = Times(), Times(), Times()
    for number, text in enumerate(texts):
        with checked:
            compiler.compile(text).result()
        with compiled:
            grammar = guidance.compile(text)
        _walk(grammar, len(vocabulary.token_bytes), random.Random(number), masks)
    compiler.close()
    print(f"grammars: {count}, of {min(map(len, texts))} to {max(map(len, texts))} characters")
    print("compile, checked in another process first:", checked.wall)
    print("compile, without that:", compiled.wall)
    print("compile, without that, processor time:", compiled.processor)
    print("mask:", masks.wall)
    print("mask, processor time:", masks.processor)
    return 0


class Times:
    """Wall and processor time of each pass through a block."""

    def __init__(self) -> None:
        self._starts = (0.0, 0.0)
        self._walls: list[float] = []
        self._processors: list[float] = []

    def __enter__(self) -> None:
        self._starts = (time.perf_counter(), time.thread_time())

    def __exit__(self, *_: object) -> None:
        wall, processor = self._starts
        self._processors.append(time.thread_time() - processor)
        self._walls.append(time.perf_counter() - wall)

    @property
    def wall(self) -> str:
        """What to print of the wall times."""
        return _described(self._walls)

    @property
    def processor(self) -> str:
        """What to print of the processor times: what a machine with nothing else to do would take."""
        return _described(self._processors)


def _grammar(number: int) -> Grammar:
    one = asked(number)
    encoded = recipe.encode(one.body, protocol=one.protocol, options=OPTIONS)
    [request] = engine_requests(encoded, encoded.token_ids.tolist(), answer_id="a", context_length=1 << 20)
    assert request.grammar is not None
    return request.grammar


def _walk(grammar: CompiledGrammar, size: int, chance: random.Random, times: Times) -> None:
    """Take a random way through a grammar."""
    matcher = grammar.matcher()
    words = np.zeros(-(-size // 32), dtype=np.uint32)
    for _ in range(_WALK_TOKENS):
        with times:
            matcher.mask(words)
        allowed = np.unpackbits(words.view(np.uint8), bitorder="little").nonzero()[0]
        token_id = int(chance.choice(allowed))
        if token_id == _END:
            break
        matcher.accept(token_id)


def _described(seconds: Sequence[float]) -> str:
    milliseconds = np.array(seconds) * 1000
    median, p95, p99 = np.percentile(milliseconds, (50, 95, 99))
    return f"median {median:.3f} ms, p95 {p95:.3f}, p99 {p99:.3f}, largest {milliseconds.max():.3f}, of {len(seconds)}"


async def measure_answers(count: int, seeds: int) -> int:
    """Run `count` requests with each seed; 1 if they do not keep to what is promised."""
    engine = NativeEngine(EngineConfig(), embedded(), vocabulary=lambda: read_vocabulary("v4.1"))
    await engine.start()
    gate = asyncio.Semaphore(_AT_ONCE)
    outcomes: Counter[str] = Counter()

    async def run(number: int, seed: int) -> None:
        one = asked(number)
        async with gate:
            try:
                whole = await answer(engine, one, name=f"{number}-{seed}", seed=seed)
            except Exception as error:
                print(f"request {number}, seed {seed}: {type(error).__name__}: {error}", flush=True)
                outcomes["failed"] += 1
                return
        if not is_finished(one, whole):
            outcomes["cut"] += 1
            return
        try:
            check(one, whole)
        except Exception as error:
            print(f"request {number}, seed {seed}: {type(error).__name__}: {error}\n{one.body}\n{whole}", flush=True)
            outcomes["wrong"] += 1
            return
        outcomes["right"] += 1

    start = time.perf_counter()
    await asyncio.gather(*[run(number, seed) for seed in range(seeds) for number in range(count)])
    await engine.stop()
    total = count * seeds
    share = outcomes["right"] / total
    print(f"{total} answers in {time.perf_counter() - start:.0f} s: {dict(outcomes)}, {share:.1%} finished and right")
    return 0 if share >= _LEAST_FINISHED and not outcomes["wrong"] and not outcomes["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
