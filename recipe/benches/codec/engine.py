"""One tokenizer in a process of its own: tasks on standard input, answers on standard output, a line of JSON each.

Owns: how each peer is loaded and called. Must not know: what is compared with what. Runs with the Python of the peer's
own environment, so it uses the standard library only.
"""

from __future__ import annotations

import array
import hashlib
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any


def load(engine: str, file: str) -> Callable[..., Any]:
    """The engine's fastest way to encode a text without control tokens of its own making."""
    if engine == "ours":
        import deepseek_recipe

        tokenizer = deepseek_recipe.Tokenizer.built_in("v4")
        return tokenizer.encode_to_buffer
    if engine == "deepseek-recipe":
        import deepseek_recipe

        return deepseek_recipe.Tokenizer.from_file(file).encode
    if engine == "tokenizers":
        import tokenizers

        batch = tokenizers.Tokenizer.from_file(file).encode_batch_fast
        return lambda text: batch([text], add_special_tokens=False)[0]
    if engine == "gigatoken":
        import gigatoken

        return gigatoken.Tokenizer(file).encode
    if engine == "fastokens":
        import fastokens

        return fastokens.Tokenizer.from_file(file).encode
    if engine == "snaptokens":
        import snaptokens

        return snaptokens.Tokenizer.from_file(file).encode
    raise SystemExit(f"unknown engine {engine!r}")


def ids_of(result: Any) -> array.array[int] | memoryview:
    """The ids in whatever an engine returns. A buffer stays one: objects made in between would empty the caches."""
    ids = getattr(result, "ids", result)
    is_list = isinstance(ids, list | tuple) or memoryview(ids).itemsize != array.array("I").itemsize
    return array.array("I", ids) if is_list else memoryview(ids)


def resident() -> int:
    """Resident memory of this process, in KiB."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def main(engine: str, file: str) -> None:
    """Answers `{"text": path, "threads": n}` with seconds of processor and of clock, number of ids and their digest."""
    before, clock = resident(), time.perf_counter()
    encode = load(engine, file)
    report = {"load": time.perf_counter() - clock}
    print(json.dumps(report), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        text = pathlib.Path(task["text"]).read_bytes().decode()
        options = {"threads": task["threads"]} if task.get("threads") else {}
        processor, clock = time.process_time(), time.perf_counter()
        result = encode(text, **options)
        clock = time.perf_counter() - clock
        processor = time.process_time() - processor
        memory = resident() - before
        ids = ids_of(result)
        digest = hashlib.sha256(ids).hexdigest()
        answer = {"processor": processor, "clock": clock, "ids": len(ids), "digest": digest, "memory": memory}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
