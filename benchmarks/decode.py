"""What streaming costs from Python, beside the official deepseek-recipe: `python benchmarks/decode.py`.

    python -m venv peer && peer/bin/pip install deepseek-recipe==0.2.0
    python benchmarks/decode.py --peer-python peer/bin/python --peer-tokenizer tokenizer.json

Each engine runs in a process of its own, and they take turns. For each protocol and channel, one answer is pushed id by
id, 64 ids at a time and at once, up to the bytes or JSON texts of all events; the ids are made into lists or chunks
beforehand. Printed are nanoseconds of processor time for an id, microseconds of the end (the finish; here also the full
response), all medians, and how many times faster this project is. The last table shows how ids may be handed over.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

_ROOT = Path(__file__).parents[1]
_TEXTS = ("docs/dsml.md", "recipe/src/output/machine.rs", "docs/encoding.md", "recipe/src/json/parse.rs")
_CHINESE = "今天下午三点在二楼会议室开会。请大家带上上周的报告。如果不能参加请提前告诉我。\n\n"
_CALL = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="w">\n<｜DSML｜parameter name="t" string="true">'
_CHANNELS = {"reasoning": "", "content": "</think>", "arguments": "</think>" + _CALL}
_BODIES: dict[str, dict[str, Any]] = {
    "chat_completions": {"messages": [{"role": "user", "content": "x"}], "stream": True},
    "responses": {"input": "x", "stream": True},
    "messages": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "stream": True},
}
_MODEL = "DeepSeek-V4-Pro"
_HAND_OVER_SIZES = (1, 16, 128, 255, 256, 1024)

Case = dict[str, Any]
# Pushes all ids of a case and ends the answer: nanoseconds of the pushes, and of the end.
Run = Callable[[Case], tuple[int, int]]


def main() -> None:
    """Measure, or be one of the engines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="interpreter of an environment with deepseek-recipe 0.2.0")
    parser.add_argument("--peer-tokenizer", help="DeepSeek V4's tokenizer.json, which the peer reads")
    parser.add_argument("--ids", type=int, default=16384, help="length of an answer (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="times that each case is run (%(default)s)")
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--engine", choices=("ours", "peer"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        serve(ours() if arguments.engine == "ours" else peer(arguments.peer_tokenizer))
        return
    engines = {"ours": Engine([sys.executable, __file__, "--engine", "ours"])}
    if arguments.peer_python:
        command = [arguments.peer_python, __file__, "--engine", "peer", "--peer-tokenizer", arguments.peer_tokenizer]
        engines["peer"] = Engine(command)
    figures = measure(engines, arguments.ids, arguments.rounds)
    print_table(figures)
    print_hand_over(arguments.ids, arguments.rounds)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")


class Engine:
    """A process that runs cases, a line of JSON each. It ends with this one, when its input does."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, case: Case) -> tuple[float, float]:
        """Nanoseconds for an id, microseconds for the end."""
        requests = cast("IO[str]", self._process.stdin)
        answers = cast("IO[str]", self._process.stdout)
        requests.write(json.dumps(case) + "\n")
        requests.flush()
        pushes, end = json.loads(answers.readline())
        return pushes / len(case["ids"]), end / 1000


def measure(engines: dict[str, Engine], length: int, rounds: int) -> list[Case]:
    """One entry for each protocol, channel and size of a push, with all times of each engine."""
    cases: list[Case] = []
    figures: list[Case] = []
    for protocol in _BODIES:
        for channel, start in _CHANNELS.items():
            for size in (1, 64, length):
                cases.append({"protocol": protocol, "size": size, "ids": ids(start, length)})
                figures.append({"protocol": protocol, "channel": channel, "size": size, "push_ns": {}, "end_us": {}})
    for _ in range(rounds):
        for case, figure in zip(cases, figures, strict=True):
            for name, engine in engines.items():
                push, end = engine.run(case)
                figure["push_ns"].setdefault(name, []).append(push)
                figure["end_us"].setdefault(name, []).append(end)
    return figures


def ids(start: str, length: int) -> list[int]:
    """The ids of an answer."""
    import deepseek_recipe as recipe

    tokenizer = recipe.Tokenizer.built_in("v4.1")
    text = "".join((_ROOT / path).read_text() for path in _TEXTS) + _CHINESE * 20
    first = list(tokenizer.encode(start, special=True))
    rest = list(tokenizer.encode(text))
    return (first + rest * (length // len(rest) + 1))[:length]


def print_table(figures: list[Case]) -> None:
    """Medians and ratios."""
    names = list(figures[0]["push_ns"])
    heads = [*(f"{name}, ns" for name in names), "ratio", *(f"end {name}, µs" for name in names)]
    print(f"{'protocol':17} {'channel':10} {'a push':>7} " + " ".join(f"{head:>13}" for head in heads))
    for figure in figures:
        pushes = [statistics.median(figure["push_ns"][name]) for name in names]
        ends = [statistics.median(figure["end_us"][name]) for name in names]
        cells = [f"{value:13.1f}" for value in (*pushes, pushes[-1] / pushes[0], *ends)]
        print(f"{figure['protocol']:17} {figure['channel']:10} {figure['size']:7} " + " ".join(cells))


def print_hand_over(length: int, rounds: int) -> None:
    """What an id costs as a part of a list, an array and a memoryview, in pushes of several sizes."""
    run = ours()
    kinds: dict[str, Callable[[list[int]], Any]] = {
        "list": list,
        "array": lambda part: array("I", part),
        "memoryview": lambda part: memoryview(array("I", part)),
    }
    answer = ids("", length)
    print(f"\n{'ns an id':10} " + " ".join(f"{size:>8}" for size in _HAND_OVER_SIZES))
    for kind, make in kinds.items():
        cells = []
        for size in _HAND_OVER_SIZES:
            case = {"protocol": "chat_completions", "size": size, "ids": answer, "make": make}
            cells.append(statistics.median(run(case)[0] / length for _ in range(rounds)))
        print(f"{kind:10} " + " ".join(f"{cell:8.1f}" for cell in cells))


def serve(run: Run) -> None:
    """Run the cases that come, one line each."""
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def ours() -> Run:
    """This project: `push` gives the bytes of the events."""
    import deepseek_recipe as recipe

    parsing = recipe.Parsing(initial_stage="reasoning_start", parse_tool_calls=True)

    def run(case: Case) -> tuple[int, int]:
        decoder = recipe.Decoder(
            case["protocol"], parsing, id="id", model=_MODEL, created=0, seed=b"", include_usage=False
        )
        parts = pieces(case, case.get("make", list))
        start = time.process_time_ns()
        for part in parts:
            decoder.push(part)
        middle = time.process_time_ns()
        decoder.finish("stop")
        decoder.response()
        return middle - start, time.process_time_ns() - middle

    return run


def peer(tokenizer_file: str) -> Run:
    """The official package: `push` gives events, `to_json` their text."""
    import deepseek_recipe as package

    official: Any = package
    tokenizer = official.Tokenizer.from_file(tokenizer_file)
    stage = official.ThinkingInitialStage.ReasoningStart
    requests = {
        "chat_completions": official.ChatCompletionRequest,
        "responses": official.ResponsesRequest,
        "messages": official.MessagesRequest,
    }

    def run(case: Case) -> tuple[int, int]:
        kind = requests[case["protocol"]]
        body = json.dumps(_BODIES[case["protocol"]] | {"model": _MODEL})
        generator = kind.chunk_generator(kind(body).convert(official.ConversionOptions()), "id", _MODEL)
        options = official.ParsingOptions(parse_tool_calls=True, thinking_initial_stage=stage)
        processor = official.StreamProcessor(generator, options, tokenizer)
        chunks = pieces(case, official.InferenceChunk.tokens)
        finish = official.InferenceChunk.finish(official.InferenceFinishReason.Stop)
        start = time.process_time_ns()
        for chunk in chunks:
            for event in processor.push(chunk):
                event.to_json()
        middle = time.process_time_ns()
        for event in processor.push(finish):
            event.to_json()
        return middle - start, time.process_time_ns() - middle

    return run


def pieces(case: Case, make: Callable[[list[int]], Any]) -> list[Any]:
    """The ids of a case as what is pushed."""
    size, answer = case["size"], case["ids"]
    return [make(answer[place : place + size]) for place in range(0, len(answer), size)]


if __name__ == "__main__":
    main()
