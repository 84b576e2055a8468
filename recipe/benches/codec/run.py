"""Our tokenizer and its peers on the same texts, one after the other: `make bench-codec`.

Each engine has an environment of its own and each round new processes, in turn, so that a busy machine slows all alike.
Three kinds of figure, never mixed: *cold* is the first text of a new process, loading included; *fresh* a text that was
never seen, after other text; *warm* the same text again. Single-threaded figures are in processor time, those of two
threads in time of the clock. Ids must be equal to those of `tokenizers`: the run fails where ours
differ, and names peers whose ids do.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import platform
import statistics
import subprocess
import sys
import venv
from typing import Any

import corpus
import requests

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FILE = ROOT / "recipe" / "data" / "tokenizer_v4.json"
PEERS = {
    "deepseek-recipe": "deepseek-recipe==0.2.0",
    "tokenizers": "tokenizers==0.23.3",
    "fastokens": "fastokens==0.3.5",
    "gigatoken": "gigatoken==0.10.0",
    "snaptokens": "snaptokens==0.2.6",
}
SIZES = ("1 KB", "10 KB", "77k tokens", "300k tokens", "1M tokens")
LONG = ("77k tokens", "300k tokens", "1M tokens")
REFERENCE = "tokenizers"
WARM_UP = 4
"""Requests that a new process gets before those that are measured."""


class Engine:
    """A process that encodes: texts, or with another `program` requests."""

    def __init__(self, name: str, python: pathlib.Path, program: str = "engine.py") -> None:
        command = [str(python), str(HERE / program), name, str(FILE)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load: float = self._answer()["load"]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def encode(self, text: corpus.Text, threads: int = 0) -> dict[str, Any]:
        """What one text costs."""
        return self.ask(text=str(text.path), threads=threads)

    def ask(self, **task: Any) -> dict[str, Any]:
        """What a task costs."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def environment(folder: pathlib.Path, *packages: str) -> pathlib.Path:
    """Python of an environment with these packages, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


class Results:
    """All that was measured, by row, engine and column."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[dict[str, float]]]] = {}
        self.digests: dict[str, dict[str, str]] = {}

    def add(self, row: str, engine: str, text: corpus.Text, answer: dict[str, Any], seconds: float) -> None:
        """Notes one measurement, and the ids for the check."""
        self.digests.setdefault(text.name, {})[engine] = answer["digest"]
        measured = {"seconds": seconds, "bytes": text.size, "ids": answer["ids"], "memory": answer["memory"]}
        self.rows.setdefault(row, {}).setdefault(engine, []).append(measured)

    def speed(self, row: str, engine: str, unit: str = "bytes") -> float | None:
        """Median speed, in millions of the unit a second."""
        measured = self.rows.get(row, {}).get(engine)
        return statistics.median(one[unit] / one["seconds"] for one in measured) / 1e6 if measured else None

    def differing(self) -> list[tuple[str, str]]:
        """Texts and engines whose ids are not those of the reference."""
        pairs = [(text, engine, digest) for text, all_ in self.digests.items() for engine, digest in all_.items()]
        return [(text, engine) for text, engine, digest in pairs if digest != self.digests[text].get(REFERENCE, digest)]


def measure_round(engines: dict[str, pathlib.Path], groups: dict[str, list[corpus.Text]], results: Results) -> None:
    """One round: every engine cold, then fresh and warm."""
    first = groups["77k tokens"][0]
    for name, python in engines.items():
        engine = Engine(name, python)
        answer = engine.encode(first)
        results.add("cold, load and 77k tokens", name, first, answer, engine.load + answer["clock"])
        engine.close()
    for name, python in engines.items():
        engine = Engine(name, python)
        for text in groups["warm-up"]:
            engine.encode(text)
        for size in SIZES:
            for text in groups[size]:
                answer = engine.encode(text)
                results.add(f"fresh, {size}", name, text, answer, answer["processor"])
        for group, texts in groups.items():
            for text in texts if group.startswith("one word") else []:
                answer = engine.encode(text)
                results.add(f"{group}, {text.name.rsplit(' ', 1)[0]}", name, text, answer, answer["processor"])
        for size in LONG:
            for text in groups[size]:
                answer = engine.encode(text)
                results.add(f"warm, {size}", name, text, answer, answer["processor"])
        if name == "ours":
            # The second thread starts at the first of these texts, and is there from the next one on.
            for text in groups["1M tokens"] * 2:
                engine.encode(text, threads=2)
            for threads in (1, 2, 1, 2):
                for text in groups["1M tokens"]:
                    answer = engine.encode(text, threads)
                    results.add(
                        f"warm by the clock, 1M tokens, {threads} thread(s)", name, text, answer, answer["clock"]
                    )
        engine.close()


def request_bodies(text: corpus.Text) -> list[tuple[str, str, pathlib.Path]]:
    """Conversations of texts that no other has, in the protocols in turn: protocol, kind and file of each request."""
    whole = text.path.read_text(encoding="utf-8")
    bodies = []
    for place in range(len(whole) // requests.LENGTH):
        part = whole[place * requests.LENGTH :][: requests.LENGTH]
        protocol = requests.PROTOCOLS[place % len(requests.PROTOCOLS)]
        for kind, body in zip(("fresh", "next turn"), requests.agent_request(part, protocol), strict=True):
            path = text.path.with_name(f"request-{place}-{kind.replace(' ', '-')}.json")
            path.write_bytes(body)
            bodies.append((protocol, kind, path))
    return bodies


def measure_requests(engines: dict[str, pathlib.Path], text: corpus.Text, rounds: int) -> str:
    """Whole requests to ids, as a table. Raises SystemExit if the ids of both packages differ."""
    packages = {"ours": engines["ours"], "threads": engines["ours"], "peer": engines["deepseek-recipe"]}
    bodies = request_bodies(text)
    answers: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    digests: dict[pathlib.Path, set[str]] = {}
    for _ in range(rounds):
        for name, python in packages.items():
            engine = Engine(name, python, "requests.py")
            for place, (protocol, kind, path) in enumerate(bodies):
                answer = engine.ask(body=str(path), protocol=protocol)
                digests.setdefault(path, set()).add(answer["digest"])
                if place >= WARM_UP:
                    answers.setdefault((protocol, kind), {}).setdefault(name, []).append(answer)
            engine.close()
    if any(len(found) > 1 for found in digests.values()):
        raise SystemExit("the ids of a request differ from those of deepseek-recipe")
    titles = "agent's request of 99 calls, ms | ours | deepseek-recipe | ratio | two threads, by the clock | ratio"
    lines = [f"| {titles} |", "| --- | --- | --- | --- | --- | --- |"]
    for (protocol, kind), measured in answers.items():
        here, there = (milliseconds(measured[name], "processor") for name in ("ours", "peer"))
        both, alone = (milliseconds(measured[name], "clock") for name in ("threads", "peer"))
        cells = f"{here:.2f} | {there:.1f} | {there / here:.1f} | {both:.2f} | {alone / both:.1f}"
        lines.append(f"| {protocol}, {kind} | {cells} |")
    return "\n".join(lines)


def milliseconds(answers: list[dict[str, Any]], column: str) -> float:
    """Median of a time."""
    return statistics.median(answer[column] for answer in answers) * 1e3


def table(results: Results, names: list[str]) -> str:
    """The figures as a table: speed in MB/s, and ours in relation to each peer."""
    peers = [name for name in names if name != "ours"]
    columns = [*names, *(f"ours / {peer}" for peer in peers), "ours, Mtokens/s"]
    lines = ["| MB/s | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]

    def line(title: str, speeds: dict[str, float | None], tokens: float | None) -> str:
        ours = speeds.get("ours")
        ratios = [ours / speed if ours and speed else None for speed in (speeds[peer] for peer in peers)]
        cells = [speeds[name] for name in names] + ratios + [tokens]
        return f"| {title} | " + " | ".join("-" if cell is None else f"{cell:.3g}" for cell in cells) + " |"

    for row in results.rows:
        speeds = {name: results.speed(row, name) for name in names}
        lines.append(line(row, speeds, results.speed(row, "ours", "ids")))
    means = {}
    for name in names:
        speeds_of = [results.speed(f"fresh, {size}", name) for size in LONG]
        means[name] = math.prod(speed or math.nan for speed in speeds_of) ** (1 / len(LONG))
    lines.append(line("**fresh, geometric mean of the long ones**", dict(means), None))
    return "\n".join(lines)


def machine() -> str:
    """What was measured on."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":")[1].strip() for line in cpu.splitlines() if line.startswith("model name")), "?")
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{cpu.count('processor')} cores of {model}, {system}, load {load}"


def main() -> None:
    """Builds environments and texts, measures, checks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", help="our wheel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default=",".join(PEERS), help="which, separated by commas")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "target" / "bench-codec")
    roots = ["/usr", sys.prefix, str(pathlib.Path.home() / ".cargo" / "registry")]
    parser.add_argument("--roots", nargs="+", default=roots, help="folders whose files are the texts")
    arguments = parser.parse_args()
    engines = {"ours": environment(arguments.folder / "ours", "--force-reinstall", arguments.wheel)}
    for peer in arguments.peers.split(","):
        engines[peer] = environment(arguments.folder / peer, PEERS[peer], "numpy")
    groups = corpus.build(arguments.roots, arguments.folder / "texts")
    results = Results()
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        measure_round(engines, groups, results)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    print(f"{machine()}; commit {commit.strip()}; medians of {arguments.rounds} rounds\n")
    print(table(results, list(engines)))
    cold = results.rows["cold, load and 77k tokens"].items()
    print("\n| cold start to the ids of 77k tokens | ms | MiB added |\n| --- | --- | --- |")
    for name, measured in cold:
        memory = statistics.median(one["memory"] for one in measured)
        print(f"| {name} | {milliseconds(measured, 'seconds'):.1f} | {memory / 1024:.1f} |")
    if "deepseek-recipe" in engines:
        print("\n" + measure_requests(engines, groups["1M tokens"][0], arguments.rounds))
    (arguments.folder / "results.json").write_text(json.dumps(results.rows, indent=1))
    differing = results.differing()
    for text, engine in differing:
        print(f"\nthe ids of {text} by {engine} differ from those of {REFERENCE}")
    if any(engine == "ours" for _, engine in differing):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
