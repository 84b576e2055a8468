"""What clients of Messages rely on: one test a need, with the official client."""

from __future__ import annotations

import base64
import json
import select
from typing import Any

import anthropic
import pytest

from deepinfer.server.images.tokens import image_tokens
from tests.e2e.conftest import StartServer
from tests.e2e.needs.conftest import MODEL, LoggingServer
from tests.e2e.needs.test_chat_completions import Prompt
from tests.e2e.server_process import raw_post
from tests.server.images.test_image_content import encoded

LOOK: Any = {"name": "look", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
PING: Any = {"name": "ping", "input_schema": {"type": "object"}}
TOOLS = [LOOK, PING]
THINK: Any = {"type": "enabled", "budget_tokens": 1024}


def ask(content: Any, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 500, "messages": [{"role": "user", "content": content}], **fields}


def raw_events(server: LoggingServer, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Name and content of each event of a stream."""
    text = server.http.post("/v1/messages", json={**body, "stream": True}).text
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    parts = [frame.removeprefix("event: ").split("\ndata: ") for frame in frames]
    return [(name, json.loads(data)) for name, data in parts]


@pytest.mark.parametrize("content", ["hi", "word " * 150_000], ids=["short", "150k"])
def test_counted_tokens_are_the_used_ones(an: Any, content: str) -> None:
    back = [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "x"}]
    messages: list[Any] = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": back},
        {"role": "user", "content": "and?"},
    ]
    fields = {"model": MODEL, "messages": messages, "tools": TOOLS, "system": "S", "thinking": THINK}
    counted = an.messages.count_tokens(**fields).input_tokens
    usage = an.messages.create(**fields, max_tokens=1).usage
    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_events_come_in_order_with_their_names(server: LoggingServer) -> None:
    events = raw_events(server, ask("look it up", tools=TOOLS))
    assert all(name == content["type"] for name, content in events)
    names = [name for name, _ in events if name != "ping"]
    assert (names[0], names[-2], names[-1]) == ("message_start", "message_delta", "message_stop")
    opened: list[int] = []
    open_now: int | None = None
    for name, content in events:
        match name:
            case "content_block_start":
                assert open_now is None
                open_now = content["index"]
                opened.append(content["index"])
            case "content_block_delta":
                assert content["index"] == open_now
            case "content_block_stop":
                assert content["index"] == open_now
                open_now = None
    assert opened == [0, 1, 2]
    start, delta = events[0][1]["message"], next(content for name, content in events if name == "message_delta")
    assert start["usage"]["input_tokens"] + (start["usage"].get("cache_read_input_tokens") or 0) > 0
    assert delta["usage"]["output_tokens"] > 0 and delta["delta"]["stop_reason"] == "tool_use"


def test_cached_tokens_are_not_counted_twice(an: Any) -> None:
    first, second = (an.messages.create(**ask("said once and once more")).usage for _ in range(2))
    assert second.cache_read_input_tokens > 0
    totals = [usage.input_tokens + usage.cache_read_input_tokens for usage in (first, second)]
    assert totals[0] == totals[1] and second.input_tokens < first.input_tokens


@pytest.mark.parametrize("signature", ["as it came", "", "of another service"])
def test_thinking_is_signed_and_comes_back_with_any_signature(an: Any, prompt_of: Prompt, signature: str) -> None:
    request = ask("look it up", tools=TOOLS, thinking=THINK)
    with an.messages.stream(**request) as stream:
        kinds = [event.delta.type for event in stream if event.type == "content_block_delta"]
        first = stream.get_final_message()
    assert kinds[0] == "thinking_delta" and kinds.count("signature_delta") == 1
    assert kinds.index("signature_delta") == kinds.count("thinking_delta")
    blocks = [block.to_dict() for block in first.content]
    assert blocks[0]["type"] == "thinking" and blocks[0]["signature"]
    if signature != "as it came":
        blocks[0]["signature"] = signature
    result = {"type": "tool_result", "tool_use_id": blocks[-1]["id"], "content": "Lookup result"}
    request["messages"] += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    prompt = prompt_of(lambda: an.messages.create(**request))
    assert "I look it up.</think>One moment." in prompt


def test_thinking_that_cannot_be_read_is_tolerated(an: Any) -> None:
    blocks = [
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "thinking", "thinking": "x", "signature": "foreign"},
        {"type": "text", "text": "before"},
    ]
    request = ask("hi")
    request["messages"] += [{"role": "assistant", "content": blocks}, {"role": "user", "content": "again"}]
    assert an.messages.create(**request).stop_reason == "end_turn"


@pytest.mark.parametrize("effort", [None, "low", "high", "max"])
@pytest.mark.parametrize("thinking", [None, THINK, {"type": "disabled"}, {"type": "adaptive"}])
def test_thinking_and_effort_go_together_in_any_mix(an: Any, thinking: Any, effort: str | None) -> None:
    extra = ({"thinking": thinking} if thinking else {}) | ({"output_config": {"effort": effort}} if effort else {})
    message = an.messages.create(**ask("hi"), extra_body=extra)
    kinds = [block.type for block in message.content]
    assert kinds[-1] == "text" and ("thinking" in kinds) == (thinking != {"type": "disabled"})


def test_a_billing_header_does_not_spoil_the_cache(an: Any) -> None:
    def system(number: int) -> list[Any]:
        header = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.{number}; cch={number:05x};"}
        body = {"type": "text", "text": "Rules. " * 500, "cache_control": {"type": "ephemeral"}}
        return [header, body]

    usages = [an.messages.create(**ask("billed"), system=system(number)).usage for number in (1, 2)]
    total = usages[1].input_tokens + usages[1].cache_read_input_tokens
    assert usages[1].cache_read_input_tokens > 0.9 * total
    assert an.messages.create(**ask("billed"), system="One text.").stop_reason == "end_turn"


def test_system_notes_stay_in_their_place(an: Any, prompt_of: Prompt) -> None:
    messages: list[Any] = []
    cached = 0
    for turn in range(4):
        messages += [{"role": "user", "content": f"turn {turn}"}, {"role": "system", "content": f"note {turn}"}]
        message = an.messages.create(model=MODEL, max_tokens=50, messages=messages)
        assert turn == 0 or message.usage.cache_read_input_tokens > cached
        cached = message.usage.cache_read_input_tokens or 0
        messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
    prompt = prompt_of(lambda: an.messages.create(model=MODEL, max_tokens=50, messages=messages[:-1]))
    places = [prompt.index(f"{kind} {turn}") for turn in range(4) for kind in ("turn", "note")]
    assert places == sorted(places)


def test_the_input_of_a_call_is_an_object(an: Any, server: LoggingServer) -> None:
    message = an.messages.create(**ask("two cities", tools=TOOLS))
    assert [block.input for block in message.content if block.type == "tool_use"] == [{"city": "Oslo"}, {}]
    parts: dict[int, str] = {}
    for name, content in raw_events(server, ask("two cities", tools=TOOLS)):
        if name == "content_block_delta" and content["delta"]["type"] == "input_json_delta":
            parts[content["index"]] = parts.get(content["index"], "") + content["delta"]["partial_json"]
    assert [json.loads(text) for text in parts.values() if text] in ([{"city": "Oslo"}], [{"city": "Oslo"}, {}])
    with an.messages.stream(**ask("two cities", tools=TOOLS)) as stream:
        final = stream.get_final_message()
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"city": "Oslo"}, {}]


def test_a_long_count_holds_nobody_up(server: LoggingServer) -> None:
    """From the last byte of a request to its answer, the server answers other requests."""
    content = " ".join(map(str, range(1_000_000)))
    fields = {"model": MODEL, "messages": [{"role": "user", "content": content}], "tools": TOOLS}
    post = raw_post("/v1/messages/count_tokens", fields)
    answered = 0
    with server.connect() as connection, connection.makefile("rb") as reader:
        connection.sendall(post[:-1])
        for _ in range(100):
            server.health()
        connection.sendall(post[-1:])
        while not select.select([connection], [], [], 0)[0]:
            server.health()
            answered += 1
        status = reader.readline()
    assert status.startswith(b"HTTP/1.1 200 ")
    assert answered > 5


def test_an_image_may_be_the_result_of_a_call(an: Any) -> None:
    def used(*images: Any) -> int:
        call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "Seen:"}, *images]}
        messages = [*ask("x")["messages"], {"role": "assistant", "content": [call]}]
        request = ask("x", tools=TOOLS, messages=[*messages, {"role": "user", "content": [result]}])
        usage = an.messages.create(**request).usage
        return int(usage.input_tokens + usage.cache_read_input_tokens)

    data = base64.b64encode(encoded("PNG", (800, 600))).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    assert used(image, image) - used(image) == image_tokens(800, 600) + 1


def test_results_of_calls_come_in_every_form(an: Any, prompt_of: Prompt) -> None:
    contents: list[Any] = [
        {"content": "result zero"},
        {"content": [{"type": "text", "text": "result one"}, {"type": "text", "text": "in blocks"}]},
        {"content": "result two", "is_error": True},
        {},
        {"content": [{"type": "tool_reference", "tool_name": "look"}]},
    ]
    calls = [{"type": "tool_use", "id": f"c{number}", "name": "look", "input": {}} for number in range(len(contents))]
    results = [{"type": "tool_result", "tool_use_id": f"c{number}", **fields} for number, fields in enumerate(contents)]
    request = ask("look it up", tools=TOOLS)
    request["messages"] += [
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [*reversed(results), {"type": "text", "text": "and a word of mine"}]},
    ]
    prompt = prompt_of(lambda: an.messages.create(**request))
    places = [prompt.index(f"result {word}") for word in ("zero", "one", "two")]
    assert places == sorted(places) and prompt.index("and a word of mine") > places[-1]


def test_the_model_sees_errors_of_tools_if_that_is_asked_for(start_server: StartServer) -> None:
    def counts(*flags: str) -> list[int]:
        with anthropic.Anthropic(base_url=start_server(*flags).url, api_key="none", max_retries=0) as client:
            return [client.messages.count_tokens(**request(is_error)).input_tokens for is_error in (False, True)]

    def request(is_error: bool) -> dict[str, Any]:
        call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": "no such file", "is_error": is_error}
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [call]}]
        return {"model": MODEL, "messages": [*messages, {"role": "user", "content": [result]}], "tools": TOOLS}

    without, shown = counts(), counts("--show-tool-errors")
    assert without[0] == without[1] == shown[0] < shown[1]


@pytest.mark.parametrize("choice", ["auto", "any", "tool", "none"])
def test_every_choice_of_tools_is_accepted(an: Any, choice: str) -> None:
    tool_choice = {"type": choice} | ({"name": "look"} if choice == "tool" else {})
    message = an.messages.create(**ask("look it up", tools=TOOLS, tool_choice=tool_choice))
    if choice != "none":
        assert message.stop_reason == "tool_use" and message.content[-1].name == "look"
    one = {"type": "auto", "disable_parallel_tool_use": True}
    blocks = an.messages.create(**ask("two cities", tools=TOOLS, tool_choice=one)).content
    assert len([block for block in blocks if block.type == "tool_use"]) == 1


def test_what_only_the_service_itself_could_do_is_not_fatal(an: Any) -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}, {**LOOK, "defer_loading": False}]
    extra: dict[str, Any] = {
        "mcp_servers": [],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "u"},
        "container": None,
        "service_tier": "auto",
    }
    headers = {"anthropic-beta": "interleaved-thinking-2025-05-14,context-management-2025-06-27"}
    raw = an.messages.with_raw_response.create(**ask("hi", tools=tools), extra_body=extra, extra_headers=headers)
    assert raw.parse().stop_reason == "end_turn"
    assert "web_search" in raw.headers["x-deepinfer-warnings"]


@pytest.mark.parametrize(
    ("body", "reason", "sequence"),
    [
        (ask("hi"), "end_turn", None),
        (ask("hi", max_tokens=2), "max_tokens", None),
        (ask("restate", stop_sequences=["Question:"]), "stop_sequence", "Question:"),
        (ask("look it up", tools=TOOLS), "tool_use", None),
    ],
)
def test_the_reason_of_the_end(an: Any, body: dict[str, Any], reason: str, sequence: str | None) -> None:
    with an.messages.stream(**body) as stream:
        final = stream.get_final_message()
    for message in (an.messages.create(**body), final):
        assert (message.stop_reason, message.stop_sequence) == (reason, sequence)


def test_either_header_carries_the_key(start_server: StartServer) -> None:
    server = start_server("--api-key", "secret")
    body = ask("Hello")
    for headers in ({"x-api-key": "secret"}, {"authorization": "Bearer secret"}):
        for more in ({}, {"anthropic-version": "2023-06-01"}):
            answer = server.http.post("/v1/messages?beta=true", json=body, headers={**headers, **more})
            assert answer.status_code == 200
    with anthropic.Anthropic(base_url=server.url, auth_token="secret", api_key=None, max_retries=0) as client:
        assert client.messages.create(**body).stop_reason == "end_turn"
    with (
        anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError),
    ):
        client.messages.create(**body)


def test_errors_are_the_clients_exceptions(an: Any) -> None:
    with pytest.raises(anthropic.BadRequestError) as faulty:
        an.messages.create(**ask("hi", max_tokens=0))
    body: Any = faulty.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    with pytest.raises(anthropic.NotFoundError):
        an.messages.create(**{**ask("hi"), "model": "claude-9"})
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 200000 maximum"):
        an.messages.create(**ask("word " * 210_000))
    with pytest.raises(anthropic.BadRequestError, match="input length and `max_tokens` exceed context limit"):
        an.messages.create(**ask("hi", max_tokens=199_999), timeout=30)


def test_a_failure_in_mid_stream_is_an_error_event(an: Any, server: LoggingServer) -> None:
    request = ask("never end", max_tokens=100_000)
    stream = an.messages.create(**request, stream=True, extra_headers={"x-request-id": "fail-messages"})
    with pytest.raises(anthropic.APIStatusError, match="cancelled"):
        for number, _ in enumerate(stream):
            if number == 4:
                server.http.delete("/v1/requests/fail-messages")


def test_an_answer_goes_on_from_what_was_begun(an: Any) -> None:
    request = ask("as json", thinking={"type": "disabled"})
    request["messages"].append({"role": "assistant", "content": '{"colour": "'})
    assert an.messages.create(**request).content[0].text == 'blue"}'
