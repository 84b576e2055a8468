"""Judges cases about the engine: each is carried out by a function, as their steps are words."""

from __future__ import annotations

import asyncio
import atexit
import json
import random
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

import deepseek_recipe as recipe
from deepinfer.backends.native import NativeEngine
from deepinfer.config import EngineConfig
from deepinfer.core import Grammar, SamplingParams
from deepinfer.errors import EngineError
from deepinfer.model.presets import embedded
from tests.e2e.server_process import ServerProcess
from tests.engine.support import collect, engine_loop, greedy, prompt, request
from tests.structured.grammar_engine import accepts
from tests.structured.support import SMALL_SIZE, small_vocabulary

Row = dict[str, Any]

_ABORTS = 200


def check(row: Row) -> str | None:
    """What the engine got wrong first, or None."""
    procedure = PROCEDURES.get(row["id"])
    return "nothing carries this case out" if procedure is None else procedure(row)


def _abort_in_prefill(_row: Row) -> str | None:
    """Aborts at random steps give all blocks back."""
    chosen = random.Random(46283)
    engine = engine_loop()
    engine._scheduler.check_integrity()
    for number in range(_ABORTS):
        for part in range(chosen.randint(1, 3)):
            engine.add(request(f"{number}/{part}", prompt(number + part, chosen.randint(1, 150)), greedy(9)))
        for _ in range(chosen.randint(0, 4)):
            engine.step()
        engine.abort(f"{number}/{chosen.randint(0, 2)}")
        engine._scheduler.check_integrity()
        engine.abort_all()
        if engine.has_work or engine.cache_bytes or engine.running_count:
            return f"abort {number} left {engine.cache_bytes} bytes of cache behind"
    return None


@cache
def _server() -> ServerProcess:
    """A model with random weights, which ends with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    flags = ("--prompt-format", "v4", "--served-model-name", "DeepSeek-V4-Pro")
    return stack.enter_context(ServerProcess(folder / "server.log", *flags))


def _schema_after_thinking(row: Row) -> str | None:
    """The schema holds the answer and leaves the reasoning alone, for a model that would rather close the object."""
    body = row["input"]["request"]
    schema = body["response_format"]["json_schema"]["schema"]
    # A string may be of any length, and the random model ends none: this token ends it, and no JSON begins with it.
    [closing] = recipe.Tokenizer.built_in("v4").encode('"}')
    for seed in range(5):
        fields = {"max_tokens": 80, "max_thinking_tokens": 20, "seed": seed, "logit_bias": {str(closing): 100}}
        answer = _server().http.post("/v1/chat/completions", json={**body, **fields}, timeout=60)
        if answer.status_code != 200:
            return f"status {answer.status_code}: {answer.text}"
        message = answer.json()["choices"][0]["message"]
        if '"}' not in message["reasoning_content"]:
            return f"the reasoning is held to something: {message['reasoning_content']!r}"
        try:
            jsonschema.validate(json.loads(message["content"]), schema)
        except (json.JSONDecodeError, jsonschema.ValidationError) as error:
            return f"the answer is {message['content']!r}: {error}"
    return None


def _required_call(row: Row) -> str | None:
    """The grammar of a forced call takes what the V4.1 prompt would write, and nothing else."""
    tests = row["input"]["grammar_accept_tests"]
    body = {
        "model": "DeepSeek-V4.1-Flash",
        "messages": [{"role": "user", "content": "How is the weather?"}],
        "tools": [{"type": "function", "function": tool} for tool in tests["tools"]],
        "tool_choice": "required",
    }
    grammar = recipe.encode(body, "chat_completions").grammar
    if grammar is None:
        return "there is no grammar"
    [good] = tests["accept"]
    value = '<｜DSML｜ parameter name="city" string="true">Paris</｜DSML｜ parameter>\n'
    wrong = {
        "empty invoke body": good.replace(value, ""),
        'city as number with string="false"': good.replace('string="true">Paris', 'string="false">5'),
        "extra parameter": good.replace(value, value + value.replace("city", "country")),
        "JSON body": good.replace(value, '{"city": "Paris"}\n'),
    }
    if list(wrong) != tests["reject"]:
        return f"nothing writes {tests['reject']}"
    if not accepts(grammar.text, good):
        return "what the prompt would write is rejected"
    return next((f"accepted: {name}" for name, text in wrong.items() if accepts(grammar.text, text)), None)


def _failing_grammar(_row: Row) -> str | None:
    """A grammar that cannot be compiled ends its own request, and four others go on to their end."""
    return asyncio.run(_run_beside_a_failing_grammar())


async def _run_beside_a_failing_grammar() -> str | None:
    model = embedded(vocab_size=SMALL_SIZE)
    engine = NativeEngine(EngineConfig(), model, vocabulary=small_vocabulary)
    await engine.start()
    try:
        plain = SamplingParams(max_tokens=100)
        others = [
            asyncio.create_task(collect(engine.submit(request(str(number), [number + 1], plain))))
            for number in range(4)
        ]
        bad = request("bad", [7], plain, grammar=Grammar(text='start: "a" X\nX: /b/ & /c/'))
        try:
            await collect(engine.submit(bad))
        except EngineError as error:
            if not error.client_fault:
                return f"the engine takes the blame: {error}"
        else:
            return "the grammar is taken"
        lengths = [len(token_ids) for token_ids, _ in await asyncio.gather(*others)]
        return None if lengths == [100] * 4 else f"the others ended after {lengths} tokens"
    finally:
        await engine.stop()


PROCEDURES: dict[str, Callable[[Row], str | None]] = {
    "eng-abort-prefill": _abort_in_prefill,
    "eng-schema-after-think": _schema_after_thinking,
    "eng-required-grammar": _required_call,
    "eng-grammar-fail-isolated": _failing_grammar,
}
