"""Judges cases about a server: their requests go to a real one, over real sockets, one after another.

Besides what a case expects, every answer obeys the laws of its protocol: no 5xx, errors in the protocol's own envelope,
streams with their one end, and counts that agree. Steps in words are carried out by the functions of `IN_WORDS`.
"""

from __future__ import annotations

import atexit
import json
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.server_process import ServerProcess, eventually, raw_post

Row = dict[str, Any]

# Answers of the model: long reasoning, and for a call that is required two of them.
_SCRIPT = """
[[rule]]
match = "<｜DSML｜ calls>\\\\s*$"
in = "whole"
output = '''{calls}</｜DSML｜ calls>'''

[[rule]]
match = "never end"
output = "Talking.</think>{endless}"
delay_seconds = 0.005

[[rule]]
output = "The user greets me, so I think of a greeting that is long enough.</think>Hello there!"
"""
_CALL = (
    '<｜DSML｜ invoke name="get_weather">\n<｜DSML｜ parameter name="city" string="true">{city}</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n"
)
_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
_SECONDS_TO_REST = 1.0
_HEALTH_SECONDS = 0.1
_AS_JSON: Row = {"headers": {"content-type": "application/json"}, "timeout": 60}


@cache
def server() -> ServerProcess:
    """The one server of all cases; it ends with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    calls = "".join(_CALL.format(city=city) for city in ("Oslo", "Rome"))
    rules = folder / "rules.toml"
    rules.write_text(_SCRIPT.format(calls=calls, endless="and so on " * 5000), encoding="utf-8")
    flags = ("--engine", "scripted", "--script", str(rules), "--served-model-name", "DeepSeek-V4-Pro")
    return stack.enter_context(ServerProcess(folder / "log", *flags))


def check(row: Row) -> str | None:
    """What the server got wrong first, or None."""
    steps = row["input"]["steps"]
    if any(isinstance(step, str) for step in steps):
        procedure = IN_WORDS.get(row["id"])
        return "has steps in words that nothing carries out" if procedure is None else procedure()
    answers = [_send(step) for step in steps]
    for step, answer in zip(steps, answers, strict=True):
        if wrong := _law_broken(step, answer):
            return f"{step['path']}: {wrong}"
    for key, expected in (row["expect"]["value"] or {}).items():
        found = FINDINGS[key](answers)
        if not (found <= expected if key == "max_calls" else found == expected):
            return f"{key}: expected {expected}, found {found}"
    return _counts_differ(steps, answers) or (CHECKS[row["id"]](answers) if row["id"] in CHECKS else None)


def _send(step: Row) -> httpx.Response:
    return server().http.request(step["method"], step["path"], json=step["body"], timeout=60)


def _law_broken(step: Row, answer: httpx.Response) -> str | None:
    if answer.status_code >= 500:
        return f"status {answer.status_code}"
    if answer.status_code >= 400:
        body = answer.json()
        is_messages = "/messages" in step["path"]
        enveloped = body.get("type") == "error" and "type" in body["error"] if is_messages else "code" in body["error"]
        return None if enveloped else f"the error is not in its protocol's envelope: {body}"
    if not (step["body"] or {}).get("stream"):
        return None
    events = _events(answer)
    if "/chat/completions" in step["path"]:
        return _chat_stream_wrong(step["body"], events, answer.text)
    if "/responses" in step["path"]:
        return _responses_stream_wrong(step["body"], events)
    return None


def _events(answer: httpx.Response) -> list[Row]:
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def _chat_stream_wrong(body: Row, chunks: list[Row], text: str) -> str | None:
    if not text.endswith("data: [DONE]\n\n"):
        return "the stream does not end with [DONE]"
    if (body.get("stream_options") or {}).get("include_usage"):
        usages = [chunk for chunk in chunks if not chunk["choices"]]
        if len(usages) != 1 or usages != chunks[-1:] or not usages[0]["usage"]["total_tokens"]:
            return "there is not exactly one last chunk with usage and without choices"
        if any(chunk["usage"] is not None for chunk in chunks[:-1]):
            return "a chunk before the last has usage"
    elif any(not chunk["choices"] for chunk in chunks):
        return "a chunk without choices came without being asked for"
    return None


def _responses_stream_wrong(body: Row, events: list[Row]) -> str | None:
    if events[0]["type"] != "response.created":
        return f"the stream opens with {events[0]['type']}"
    if [event["sequence_number"] for event in events] != list(range(len(events))):
        return "the events are not numbered from 0 without gaps"
    if [event["type"] in _TERMINAL for event in events].index(True) != len(events) - 1:
        return "there is not exactly one terminal event, the last"
    wanted = (body.get("reasoning") or {}).get("effort")
    for event in (events[0], events[-1]):
        if event["response"]["reasoning"]["effort"] != wanted:
            return f"{event['type']} does not repeat the effort {wanted}"
    return None


def _counts_differ(steps: list[Row], answers: list[httpx.Response]) -> str | None:
    """What counting a prompt gives is what using it gives."""
    counted = None
    for step, answer in zip(steps, answers, strict=True):
        if step["path"].endswith("/count_tokens"):
            counted = answer.json()["input_tokens"]
        elif step["path"] == "/v1/messages" and counted is not None:
            usage = answer.json()["usage"]
            used = usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0)
            if used != counted:
                return f"counted {counted} tokens, used {used}"
    return None


def _most_calls(answers: list[httpx.Response]) -> int:
    messages = [choice["message"] for answer in answers for choice in answer.json()["choices"]]
    return max(len(message.get("tool_calls") or []) for message in messages)


def _statuses(answers: list[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


FINDINGS: dict[str, Callable[[list[httpx.Response]], Any]] = {"statuses": _statuses, "max_calls": _most_calls}


def _cut_in_thinking(answers: list[httpx.Response]) -> str | None:
    (answer,) = answers
    body = answer.json()
    (choice,) = body["choices"]
    message = choice["message"]
    if choice["finish_reason"] != "length" or not message["reasoning_content"] or message["content"]:
        return f"the answer is not cut in its reasoning: {choice}"
    return None if body["usage"]["completion_tokens"] == 8 else f"usage is wrong: {body['usage']}"


def _one_call(answers: list[httpx.Response]) -> str | None:
    found = (_statuses(answers), _most_calls(answers))
    return None if found == ([200], 1) else f"not one answer with one call: {found}"


CHECKS: dict[str, Callable[[list[httpx.Response]], str | None]] = {
    "srv-thinking-exhausts": _cut_in_thinking,
    "srv-parallel-false": _one_call,
}


def _disconnect() -> str | None:
    """A client that hangs up on an answer that is not streamed frees what it held."""
    body = {"model": "DeepSeek-V4-Pro", "max_tokens": 4096, "messages": [{"role": "user", "content": "never end"}]}
    with server().connect() as connection:
        connection.sendall(raw_post("/v1/chat/completions", body))
        eventually(lambda: server().gauge("deepinfer_running") == 1)
    limit = time.monotonic() + _SECONDS_TO_REST
    while (server().gauge("deepinfer_running"), server().gauge("deepinfer_cache_bytes")) != (0, 0):
        if time.monotonic() > limit:
            return f"it still ran {_SECONDS_TO_REST:g} s after its client had left"
    return None


def _huge_prompt() -> str | None:
    """While a huge prompt is tokenised, others are answered."""
    text = "The quick brown fox jumps over the lazy dog. " * (4_000_000 // 45)
    fields = {"model": "DeepSeek-V4-Pro", "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    # Written beforehand: that too would hold this process, and with it the clock.
    body = json.dumps(fields).encode()
    for path in ("/v1/chat/completions", "/v1/messages/count_tokens"):
        url = server().url + path
        posting = threading.Thread(target=httpx.post, args=(url,), kwargs={"content": body, **_AS_JSON})
        posting.start()
        slowest = 0.0
        while posting.is_alive():
            started = time.monotonic()
            server().http.get("/health")
            slowest = max(slowest, time.monotonic() - started)
            time.sleep(0.02)
        if slowest > _HEALTH_SECONDS:
            return f"{path}: /health took {slowest:.3f} s meanwhile"
    return None


IN_WORDS: dict[str, Callable[[], str | None]] = {
    "srv-disconnect-nonstream": _disconnect,
    "srv-tokenise-offloop": _huge_prompt,
}
