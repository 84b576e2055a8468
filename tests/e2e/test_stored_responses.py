"""Responses that are kept: gone on from, found again, deleted, and made in the background."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server_process import ServerProcess, eventually
from tests.e2e.test_responses import WEATHER_TOOL

MODEL = "deepinfer-tiny"
TOOLS: dict[str, Any] = {"tools": [WEATHER_TOOL]}


@pytest.fixture
def client(scripted_server: ServerProcess) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{scripted_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def client_of(server: ServerProcess, key: str) -> Any:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


def shown(response: Any) -> dict[str, Any]:
    """All that a response holds, as JSON."""
    found: dict[str, Any] = json.loads(response.model_dump_json(exclude_unset=True))
    return found


def test_a_chain_of_three_turns_is_the_whole_conversation(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="How is the weather?", **TOOLS)
    (call,) = (item for item in first.output if item.type == "function_call")
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 21}'}
    second = client.responses.create(model=MODEL, input=[result], previous_response_id=first.id, **TOOLS)
    assert second.output_text == "It is 21 degrees and sunny in Paris."
    third = client.responses.create(model=MODEL, input="Hello", previous_response_id=second.id, **TOOLS)
    assert (second.previous_response_id, third.previous_response_id) == (first.id, second.id)

    history: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    history += [item.model_dump(exclude_unset=True) for item in first.output]
    history.append(result)
    history += [item.model_dump(exclude_unset=True) for item in second.output]
    history.append({"role": "user", "content": "Hello"})
    by_hand = client.responses.create(model=MODEL, input=history, store=False, **TOOLS)
    assert third.usage is not None and by_hand.usage is not None
    assert third.usage.input_tokens == by_hand.usage.input_tokens
    assert (
        client.responses.input_tokens.count(
            model=MODEL, input="Hello", previous_response_id=second.id, **TOOLS
        ).input_tokens
        == by_hand.usage.input_tokens
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_found_as_it_was(client: Any, stream: bool) -> None:
    fields: dict[str, Any] = {"model": MODEL, "input": "How is the weather?", "metadata": {"a": "b"}, **TOOLS}
    if stream:
        *_, last = client.responses.create(**fields, stream=True)
        made = last.response
    else:
        made = client.responses.create(**fields)
    found = client.responses.retrieve(made.id)
    assert found.id == made.id and found.store is True and found.metadata == {"a": "b"}
    assert shown(found) == shown(made)
    assert found.output_text == "I will look it up."
    client.responses.delete(made.id)
    for act in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError) as caught:
            act(made.id)
        assert caught.value.code == "not_stored"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=MODEL, input="x", previous_response_id=made.id)


def test_what_is_not_to_be_stored_is_not(client: Any) -> None:
    made = client.responses.create(model=MODEL, input="Hello", store=False)
    assert made.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model=MODEL, input="x", previous_response_id=made.id)
    assert caught.value.param == "previous_response_id"


def test_input_items_come_in_pages(client: Any) -> None:
    given: list[Any] = [{"role": "user", "content": f"number {number}"} for number in range(5)]
    given[1] = {"role": "assistant", "content": "an answer"}
    given[2] = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "in parts"}]}
    made = client.responses.create(model=MODEL, input=given)
    items = list(client.responses.input_items.list(made.id, limit=2, order="asc"))
    texts = [item.content[0].text for item in items]
    assert texts == ["number 0", "an answer", "in parts", "number 3", "number 4"]
    assert len({item.id for item in items}) == 5
    newest = client.responses.input_items.list(made.id, limit=1)
    assert newest.data[0].id == items[-1].id and newest.has_more
    (single,) = client.responses.input_items.list(client.responses.create(model=MODEL, input="one text").id)
    assert single.content[0].text == "one text"
    # An item may be named instead of being sent again.
    named: Any = [{"type": "item_reference", "id": items[0].id}]
    count = client.responses.input_tokens.count
    spelled = count(model=MODEL, input=[given[0]]).input_tokens
    assert count(model=MODEL, input=named).input_tokens == spelled
    going_on = client.responses.create(model=MODEL, input=named)
    after_name = count(model=MODEL, input="x", previous_response_id=going_on.id).input_tokens
    after_text = count(
        model=MODEL, input="x", previous_response_id=client.responses.create(model=MODEL, input=[given[0]]).id
    ).input_tokens
    assert after_name == after_text


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "item_x"}, "after"),
    ],
)
def test_faulty_pages_are_refused(scripted_server: ServerProcess, query: dict[str, str], param: str) -> None:
    made = scripted_server.http.post("/v1/responses", json={"model": MODEL, "input": "Hello"}).json()
    response = scripted_server.http.get(f"/v1/responses/{made['id']}/input_items", params=query)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_keys_do_not_see_each_others_responses(start_server: StartServer) -> None:
    server = start_server("--api-key", "one", "--api-key", "two")
    with client_of(server, "one") as one, client_of(server, "two") as two:
        made = one.responses.create(model=MODEL, input="How is the weather?", **TOOLS)
        assert one.responses.retrieve(made.id).id == made.id
        named: Any = [{"type": "item_reference", "id": made.output[0].id}]
        going_on: list[dict[str, Any]] = [{"previous_response_id": made.id, "input": "x"}, {"input": named}]
        for fields in going_on:
            with pytest.raises(openai.NotFoundError):
                two.responses.create(model=MODEL, **fields)
        for act in (two.responses.retrieve, two.responses.delete, two.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                act(made.id)
        assert one.responses.retrieve(made.id).id == made.id


def test_without_a_store_what_needs_one_is_refused(start_server: StartServer) -> None:
    server = start_server("--stored-responses", "0")
    with client_of(server, "any") as client:
        made = client.responses.create(model=MODEL, input="Hello", store=True)
        assert made.store is False and made.output_text
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model=MODEL, input="x", previous_response_id=made.id)
        assert caught.value.param == "previous_response_id"
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model=MODEL, input="x", background=True)
        assert caught.value.param == "background"
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)


def test_a_store_forgets_the_oldest(start_server: StartServer) -> None:
    with client_of(start_server("--stored-responses", "2"), "any") as client:
        made = [client.responses.create(model=MODEL, input="Hello").id for _ in range(3)]
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made[0])
        assert client.responses.retrieve(made[1]).status == client.responses.retrieve(made[2]).status == "completed"


def test_a_response_is_made_in_the_background(client: Any, scripted_server: ServerProcess) -> None:
    made = client.responses.create(model=MODEL, input="count slowly", background=True)
    assert made.status in ("queued", "in_progress") and made.background is True
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=MODEL, input="x", previous_response_id=made.id)
    eventually(lambda: client.responses.retrieve(made.id).status == "completed")
    found = client.responses.retrieve(made.id)
    assert found.background is True and found.output_text.endswith("19 20")
    assert found.usage is not None and found.usage.output_tokens > 20
    eventually(lambda: 'deepinfer_requests_total{route="/v1/responses (background)"' in metrics(scripted_server))
    going_on = client.responses.create(model=MODEL, input="Hello", previous_response_id=made.id)
    assert going_on.status == "completed"
    with pytest.raises(openai.BadRequestError):
        client.responses.retrieve(made.id, stream=True, starting_after=0)


def metrics(server: ServerProcess) -> str:
    return server.http.get("/metrics").text


@pytest.mark.parametrize("stream", [False, True])
def test_the_background_goes_on_when_its_client_leaves(
    client: Any, scripted_server: ServerProcess, stream: bool
) -> None:
    if stream:
        events = client.responses.create(model=MODEL, input="count slowly", background=True, stream=True)
        response_id = next(iter(events)).response.id
        events.close()
    else:
        response_id = client.responses.create(model=MODEL, input="count slowly", background=True).id
    eventually(lambda: client.responses.retrieve(response_id).status == "completed")
    assert scripted_server.health()["running"] == 0


def test_a_stream_is_read_again_from_any_event(client: Any) -> None:
    made = client.responses.create(model=MODEL, input="count slowly", background=True, stream=True)
    first = [next(iter(made)) for _ in range(3)]
    response_id = first[0].response.id
    # While it is made ...
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=first[-1].sequence_number))
    made.close()
    numbers = [event.sequence_number for event in [*first, *rest]]
    assert numbers == list(range(len(numbers)))
    assert rest[-1].type == "response.completed" and rest[-1].response.background is True
    # ... and when it is finished.
    again = list(client.responses.retrieve(response_id, stream=True, starting_after=10))
    assert [event.to_dict() for event in again] == [event.to_dict() for event in [*first, *rest]][11:]
    assert len(list(client.responses.retrieve(response_id, stream=True))) == len(numbers)


def test_the_background_is_cancelled(client: Any, scripted_server: ServerProcess) -> None:
    made = client.responses.create(model=MODEL, input="never end", background=True)
    eventually(lambda: client.responses.retrieve(made.id).status == "in_progress")
    assert client.responses.cancel(made.id).status == "cancelled"
    assert client.responses.cancel(made.id).status == client.responses.retrieve(made.id).status == "cancelled"
    assert scripted_server.health()["running"] == 0
    running = client.responses.create(model=MODEL, input="never end", background=True)
    client.responses.delete(running.id)
    assert scripted_server.health()["running"] == 0
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(running.id)
    plain = client.responses.create(model=MODEL, input="Hello")
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(plain.id)


def test_the_background_counts_against_the_limit_of_its_key(start_server: StartServer) -> None:
    with client_of(start_server("--concurrent-requests", "1"), "any") as client:
        made = client.responses.create(model=MODEL, input="never end", background=True)
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hello")
        client.responses.cancel(made.id)
        assert client.responses.create(model=MODEL, input="Hello").status == "completed"


def test_a_background_that_cannot_run_fails_and_says_why(start_server: StartServer) -> None:
    with client_of(start_server("--context-length", "4000"), "any") as client:
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model=MODEL, input="word " * 5000, background=True)


def test_a_shutdown_lets_the_background_finish(start_server: StartServer) -> None:
    server = start_server()
    with client_of(server, "any") as client:
        client.responses.create(model=MODEL, input="count slowly", background=True)
    assert server.stop() == 0
    assert "path=/v1/responses" in server.log and "finish_reason=stop" in server.log


def test_settings_are_repeated(client: Any) -> None:
    fields: dict[str, Any] = {
        "metadata": {"a": "b"},
        "max_tool_calls": 3,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "service_tier": "auto",
        "truncation": "auto",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "reasoning": {"effort": "max", "summary": "auto"},
        "text": {"verbosity": "low"},
    }
    found = shown(client.responses.create(model=MODEL, input="Hello", **fields))
    expected = {**fields, "service_tier": "default", "text": {"verbosity": "low", "format": {"type": "text"}}}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"metadata": {"a": 5}}, "metadata[...]"),
        ({"store": "yes"}, "store"),
        ({"background": True, "store": False}, "background"),
        ({"truncation": "middle"}, "truncation"),
        ({"previous_response_id": 5}, "previous_response_id"),
    ],
)
def test_faults_are_named(scripted_server: ServerProcess, fields: dict[str, Any], param: str) -> None:
    response = scripted_server.http.post("/v1/responses", json={"model": MODEL, "input": "Hello", **fields})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_compacting_is_not_offered(scripted_server: ServerProcess) -> None:
    response = scripted_server.http.post("/v1/responses/compact", json={})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
