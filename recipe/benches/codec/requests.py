"""Whole requests to ids, here and by the official package: rows of `make bench-codec`.

Owns: what an agent's request looks like, how both packages take one, and the measurement. A request is the conversation
of a coding agent, with 20 tools and 198 messages of the corpus' texts. *fresh*: a request whose texts were never seen.
*next turn*: the same history and one more call with its result; the history's texts are known from the turn before, as
in a server with a range cache. Runs with the Python of either package, as `requests.py ours|threads|peer FILE`.
"""

from __future__ import annotations

import array
import functools
import hashlib
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

MODEL = "DeepSeek-V4-Pro"
TURNS = 98
PROTOCOLS = ("chat_completions", "messages")
LENGTH = 300_000
"""Characters of text that a request takes."""
_RANGE_CACHE_BYTES = 64 << 20


def agent_request(text: str, protocol: str) -> tuple[bytes, bytes]:
    """The request of an agent made of `text`, and that of its next turn."""
    place = 0

    def take(length: int) -> str:
        nonlocal place
        place += length
        return text[place - length : place]

    tools = [(f"tool_{number}", take(300), take(60)) for number in range(20)]
    system, question = take(8000), take(800)
    rounds = [(take(150), take(400), take(200), take(2100)) for _ in range(TURNS + 1)]
    build = {"chat_completions": _chat, "messages": _messages}[protocol]
    first, second = (build(tools, system, question, rounds[:count]) for count in (TURNS, TURNS + 1))
    return json.dumps(first, ensure_ascii=False).encode(), json.dumps(second, ensure_ascii=False).encode()


def _schema(text: str) -> dict[str, Any]:
    properties = {"path": {"type": "string", "description": text}, "count": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": ["path"]}


def _chat(tools: Any, system: str, question: str, rounds: Any) -> dict[str, Any]:
    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    for number, (said, thought, argument, result) in enumerate(rounds):
        arguments = json.dumps({"path": argument, "count": number})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "tool_1", "arguments": arguments}}
        messages.append({"role": "assistant", "content": said, "reasoning_content": thought, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    functions = [{"name": name, "description": about, "parameters": _schema(field)} for name, about, field in tools]
    declared = [{"type": "function", "function": function} for function in functions]
    return {"model": MODEL, "messages": messages, "tools": declared}


def _messages(tools: Any, system: str, question: str, rounds: Any) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": question}]
    for number, (said, thought, argument, result) in enumerate(rounds):
        call = {"type": "tool_use", "id": f"c{number}", "name": "tool_1", "input": {"path": argument, "count": number}}
        thinking = {"type": "thinking", "thinking": thought, "signature": "s"}
        messages.append({"role": "assistant", "content": [thinking, {"type": "text", "text": said}, call]})
        done = {"type": "tool_result", "tool_use_id": f"c{number}", "content": result}
        messages.append({"role": "user", "content": [done]})
    declared = [{"name": name, "description": about, "input_schema": _schema(field)} for name, about, field in tools]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return {
        "model": MODEL,
        "max_tokens": 2048,
        "system": system,
        "messages": messages,
        "tools": declared,
        "thinking": thinking,
    }


def ours(_: str, threads: int = 1) -> Callable[[bytes, str], Any]:
    """This package, with a range cache, ids as a buffer."""
    import deepseek_recipe as recipe

    options = recipe.Options(range_cache_bytes=_RANGE_CACHE_BYTES, threads=threads)
    return lambda body, protocol: recipe.encode(body, protocol, options=options).token_ids


def peer(file: str) -> Callable[[bytes, str], Any]:
    """The official package, ids as the list that it gives."""
    import deepseek_recipe as official

    encoding = official.DeepseekV4Encoding().with_tokenizer(official.Tokenizer.from_file(file))
    options = official.ConversionOptions()
    requests = {"chat_completions": official.ChatCompletionRequest, "messages": official.MessagesRequest}
    return lambda body, protocol: encoding.encode(requests[protocol](body.decode()).convert(options).conversation)


def main(engine: str, file: str) -> None:
    """Answers `{"body": path, "protocol": name}` with seconds, number of ids and their digest."""
    encode = {"ours": ours, "threads": functools.partial(ours, threads=2), "peer": peer}[engine](file)
    print(json.dumps({"load": 0.0}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        body = pathlib.Path(task["body"]).read_bytes()
        start, clock_start = time.process_time(), time.perf_counter()
        result = encode(body, task["protocol"])
        clock, processor = time.perf_counter() - clock_start, time.process_time() - start
        # A buffer stays one: objects made in between would empty the caches.
        ids = array.array("I", result) if isinstance(result, list) else memoryview(result)
        digest = hashlib.sha256(ids).hexdigest()
        answer = {"processor": processor, "clock": clock, "ids": len(ids), "digest": digest}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
