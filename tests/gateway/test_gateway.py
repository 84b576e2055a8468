"""A gateway in front of real servers: clients cannot tell it from the server behind it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.e2e.server_process import ServerProcess, chat_body, eventually, raw_post
from tests.gateway.conftest import StartServer

MODEL = "deepinfer-tiny"
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
CHAT_TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
MESSAGE_TOOLS = [{"name": "get_weather", "input_schema": CITY}]
RESPONSE_TOOLS = [{"type": "function", "name": "get_weather", "parameters": CITY}]
QUESTIONS = ["Hello", "How is the weather in Paris?", "Say it in emoji"]
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
# What differs from answer to answer.
MASKED = re.compile(
    r'"(id|call_id|created|created_at|completed_at|system_fingerprint|signature|encrypted_content)":("[^"]*"|\d+)'
)


def body_of(protocol: str, question: str, **fields: Any) -> dict[str, Any]:
    user = [{"role": "user", "content": question}]
    if protocol == "responses":
        return {"model": MODEL, "input": question, "tools": RESPONSE_TOOLS, "store": False, **fields}
    if protocol == "messages":
        return {"model": MODEL, "messages": user, "tools": MESSAGE_TOOLS, "max_tokens": 500, **fields}
    return {"model": MODEL, "messages": user, "tools": CHAT_TOOLS, **fields}


def masked(server: ServerProcess, path: str, body: dict[str, Any]) -> str:
    answer = server.http.post(path, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return MASKED.sub(r'"\1":0', answer.text)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("protocol", PATHS)
def test_answers_are_those_of_the_upstream(
    scripted: ServerProcess, gateway_to_scripted: ServerProcess, protocol: str, question: str
) -> None:
    body, path = body_of(protocol, question), PATHS[protocol]
    # Once for the cache, so that all later ones find as much in it.
    masked(scripted, path, body)
    assert masked(gateway_to_scripted, path, body) == masked(scripted, path, body)


@pytest.mark.parametrize("question", QUESTIONS)
def test_streams_add_up_to_the_plain_answers(gateway_to_scripted: ServerProcess, question: str) -> None:
    base = gateway_to_scripted.url
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        with client.chat.completions.stream(**body_of("chat", question)) as chat:
            final = chat.get_final_completion().choices[0]
        plain = client.chat.completions.create(**body_of("chat", question)).choices[0]
        assert final.message.content == plain.message.content and final.finish_reason == plain.finish_reason
        calls = [(call.function.name, call.function.arguments) for call in plain.message.tool_calls or []]
        assert [(call.function.name, call.function.arguments) for call in final.message.tool_calls or []] == calls
        fields: dict[str, Any] = body_of("responses", question)
        with client.responses.stream(**fields) as responses:
            response = responses.get_final_response()
        assert response.output_text == client.responses.create(**fields).output_text
        assert response.status == "completed" and response.usage is not None and response.usage.output_tokens > 5
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        with client.messages.stream(**body_of("messages", question)) as messages:
            message = messages.get_final_message()
        again = client.messages.create(**body_of("messages", question))
        assert [block.type for block in message.content] == [block.type for block in again.content]
        assert (message.stop_reason, message.usage.output_tokens) == (again.stop_reason, again.usage.output_tokens)


def test_cached_tokens_are_passed_on(gateway_to_scripted: ServerProcess) -> None:
    body = chat_body("Count what is cached of this question")
    gateway_to_scripted.http.post(PATHS["chat"], json=body)
    usage = gateway_to_scripted.http.post(PATHS["chat"], json=body).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
    # Messages tells the cost of the prompt in its first event.
    stream = gateway_to_scripted.http.post(PATHS["messages"], json=body | {"max_tokens": 50, "stream": True}).text
    first = next(json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: "))
    assert first["message"]["usage"]["cache_read_input_tokens"] == usage["prompt_tokens"] - 1


def test_one_call_is_enough_where_one_is_asked_for(gateway_to_scripted: ServerProcess) -> None:
    for parallel, count in ((True, 2), (False, 1)):
        body = body_of("chat", "Make two calls", parallel_tool_calls=parallel)
        answer = gateway_to_scripted.http.post(PATHS["chat"], json=body).json()
        assert len(answer["choices"][0]["message"]["tool_calls"]) == count
    eventually(lambda: gateway_to_scripted.health()["running"] == 0)


def test_several_choices(gateway_to_scripted: ServerProcess) -> None:
    answer = gateway_to_scripted.http.post(PATHS["chat"], json=chat_body("Hello", n=3)).json()
    assert [choice["message"]["content"] for choice in answer["choices"]] == [
        "Hello! Ask me about the weather in Paris."
    ] * 3


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": FORMAT, "thinking": {"type": "enabled", "budget_tokens": 9}},
        {"response_format": FORMAT, "thinking": {"type": "disabled"}},
        {"tools": CHAT_TOOLS, "tool_choice": "required", "thinking": {"type": "disabled"}, "max_tokens": 200},
        {"logprobs": True, "top_logprobs": 3, "max_tokens": 12},
        {"logit_bias": {"5": 90, "6": 88}, "frequency_penalty": 1.5, "max_tokens": 12},
        {"structured_outputs": {"regex": "[a-c]{4}"}, "thinking": {"type": "disabled"}},
    ],
    ids=["format after thinking", "format", "call", "logprobs", "bias", "regex"],
)
def test_a_model_behind_it_gives_the_same_answer(
    native: ServerProcess, gateway_to_native: ServerProcess, fields: dict[str, Any]
) -> None:
    body = chat_body("Describe a place in json.", **{"max_tokens": 120, "seed": 7, **fields})
    masked(native, PATHS["chat"], body)
    direct, through = (json.loads(masked(server, PATHS["chat"], body)) for server in (native, gateway_to_native))
    for answer in (direct, through):
        for choice in answer["choices"]:
            for call in choice["message"].get("tool_calls") or ():
                call["id"] = ""
    assert through == direct
    if "response_format" in fields:
        assert json.loads(through["choices"][0]["message"]["content"]).keys() == {"name", "old"}


def test_a_refusal_names_the_field_as_the_upstream_does(
    native: ServerProcess, gateway_to_native: ServerProcess
) -> None:
    body = chat_body("x", structured_outputs={"grammar": "start: missing"}, thinking={"type": "disabled"})
    direct, through = (server.http.post(PATHS["chat"], json=body) for server in (native, gateway_to_native))
    assert (through.status_code, direct.status_code) == (400, 400)
    for key in ("code", "param"):
        assert through.json()["error"][key] == direct.json()["error"][key]
    assert native.url in through.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_ends_the_request_at_the_upstream(
    scripted: ServerProcess, gateway_to_scripted: ServerProcess, stream: bool
) -> None:
    with gateway_to_scripted.connect() as connection:
        connection.sendall(raw_post(PATHS["chat"], chat_body("never end", stream=stream)))
        eventually(lambda: scripted.health()["running"] == 1)
        assert gateway_to_scripted.gauge(f'deepinfer_upstream_running{{upstream="{scripted.url}"}}') == 1
    eventually(lambda: scripted.health()["running"] == 0 and gateway_to_scripted.health()["running"] == 0)


@pytest.mark.parametrize(
    ("protocol", "mark"), [("chat", '"error"'), ("messages", "event: error"), ("responses", "response.failed")]
)
def test_an_upstream_that_dies_ends_its_streams_with_an_error(
    start_upstream: StartServer, start_gateway: StartServer, protocol: str, mark: str
) -> None:
    first, second = start_upstream(), start_upstream()
    gateway = start_gateway(first, second)
    with gateway.http.stream("POST", PATHS[protocol], json=body_of(protocol, "never end", stream=True)) as response:
        lines = response.iter_lines()
        while '" so' not in next(lines):
            pass
        dying = first if first.health()["running"] else second
        dying.process.send_signal(signal.SIGKILL)
        rest = "\n".join(lines)
    assert mark in rest and f"upstream {dying.url}: the connection" in rest
    for _ in range(4):
        assert gateway.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 200
    assert gateway.gauge(f'deepinfer_upstream_ready{{upstream="{dying.url}"}}') == 0
    assert gateway.health()["ready"]


def test_the_key_goes_to_the_upstream_and_nowhere_else(
    start_upstream: StartServer, start_gateway: StartServer, tmp_path: Path
) -> None:
    key = "sk-secret-of-the-upstream"
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    upstream = start_upstream("--api-key", key)
    gateway = start_gateway(upstream, flags=("--upstream-api-key", str(file), "--log-level", "debug", "--log-prompts"))
    assert gateway.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 200
    assert upstream.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 401
    shown = gateway.log + gateway.http.get("/metrics").text + gateway.http.get("/health").text
    assert key not in shown

    wrong = run("serve", "--engine", "remote", "--upstream", upstream.url, "--upstream-api-key", "sk-wrong-one")
    assert wrong.returncode == 1
    assert "refuses the gateway's key" in wrong.stderr and "sk-wrong-one" not in wrong.stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepinfer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--upstream URL"),
        (["--upstream", "ftp://host"], "use http or https"),
        (["--upstream", "http://me:secret-word@host"], "no user name"),
        (["--upstream", "http://127.0.0.1:1"], "no connection"),
        (["--upstream", "http://127.0.0.1:1", "--upstream", "127.0.0.1:1/v1"], "given twice"),
        (["--upstream", "http://127.0.0.1:1", "--upstream-api-key", "two words"], "visible ASCII"),
        (["--upstream", "https://127.0.0.1:1", "--upstream-ca", "/nowhere.pem"], "--upstream-ca"),
        (["--upstream", "http://127.0.0.1:1", "--upstream-load-cap", "0.5"], "at least 1"),
    ],
)
def test_mistakes_say_what_to_do(flags: list[str], words: str) -> None:
    result = run("serve", "--engine", "remote", *flags)
    assert result.returncode in (1, 2)
    assert words in result.stderr and "secret-word" not in result.stderr and "Traceback" not in result.stderr


def test_the_doctor_asks_the_upstreams(scripted: ServerProcess) -> None:
    found = run("doctor", "--engine", "remote", "--upstream", scripted.url, "--upstream", "http://127.0.0.1:1")
    assert found.returncode == 0, found.stdout
    assert f"upstream {scripted.url} is deepinfer over a link, model {MODEL}" in found.stdout
    assert "warn  upstream http://127.0.0.1:1 cannot be used: no connection" in found.stdout
    assert run("doctor", "--engine", "remote", "--upstream", "http://127.0.0.1:1").returncode == 1


def test_gateways_may_stand_behind_each_other(gateway_to_scripted: ServerProcess, start_gateway: StartServer) -> None:
    outer = start_gateway(gateway_to_scripted)
    body = body_of("chat", "How is the weather in Paris?")
    assert masked(outer, PATHS["chat"], body).count("get_weather") == 1
    with httpx.stream("POST", outer.url + PATHS["chat"], json=chat_body("never end", stream=True)) as response:
        lines = response.iter_lines()
        next(lines)
        eventually(lambda: gateway_to_scripted.health()["running"] == 1)
    eventually(lambda: gateway_to_scripted.health()["running"] == 0)


def test_a_lost_upstream_is_taken_back(start_upstream: StartServer, start_gateway: StartServer) -> None:
    upstream = start_upstream()
    gateway = start_gateway(upstream)
    port = upstream.address[1]
    assert upstream.stop() == 0
    eventually(lambda: gateway.http.get("/ready").status_code == 503)
    refused = gateway.http.post(PATHS["chat"], json=chat_body("Hello"))
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "upstream_unreachable"
    time.sleep(0.1)
    start_upstream("--port", str(port))
    eventually(lambda: gateway.http.get("/ready").status_code == 200)
    assert gateway.http.post(PATHS["chat"], json=chat_body("Hello")).status_code == 200
