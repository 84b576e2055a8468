"""Answers of a real vLLM through the gateway: the same tokens, and the same of all that is told of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.server_process import ServerProcess, eventually
from tests.vllm.protocols import CHAT, TOKENIZER, Answer, Protocol, events_of, every_protocol, streamed_or_not
from tests.vllm.relay import Relay
from tests.vllm.vllm_process import VllmProcess

# The first test of a session starts vLLM.
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

END = 1
# Longer than some blocks of vLLM's cache, and the same in no other test.
LONG = " ".join(f"Pebble {number} is grey." for number in range(120))


def usage_of(vllm_usage: dict[str, Any]) -> tuple[int, int, int]:
    cached = vllm_usage["prompt_tokens_details"]["cached_tokens"]
    return vllm_usage["prompt_tokens"], cached, vllm_usage["completion_tokens"]


@every_protocol
@streamed_or_not
def test_ids_go_in_and_their_text_comes_out(
    watched: ServerProcess, relay: Relay, protocol: Protocol, stream: bool
) -> None:
    body = protocol.body(f"Tell me about {protocol.name}.", 24)
    before = len(relay.passages)
    answer = protocol.ask(watched, body, stream=stream)
    (passage,) = relay.passages[before:]
    assert passage.prompt_ids == protocol.prompt_ids(body)
    assert len(passage.answer_ids) == 24
    # Spaces around an answer are no part of it.
    assert answer.text.strip() == TOKENIZER.decode(passage.answer_ids).strip()
    assert answer.finish == protocol.length
    assert answer.usage == usage_of(passage.usage)


@every_protocol
def test_the_greedy_answer_is_that_of_vllm(vllm: VllmProcess, gateway: ServerProcess, protocol: Protocol) -> None:
    body = protocol.body("Greedy.", 40)
    direct = vllm.complete(protocol.prompt_ids(body), max_tokens=40, temperature=0)
    answer = protocol.ask(gateway, body)
    assert answer.text.strip() == TOKENIZER.decode(direct["choices"][0]["token_ids"]).strip()


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.0, "seed": 7, "top_p": 0.8}])
def test_completions_have_the_ids_of_vllm(
    vllm: VllmProcess, gateway: ServerProcess, sampling: dict[str, float]
) -> None:
    prompt = TOKENIZER.encode("Once upon a time")
    direct = vllm.complete(prompt, max_tokens=40, **sampling)["choices"][0]
    body = {"model": "deepinfer-tiny", "prompt": prompt, "max_tokens": 40, "return_token_ids": True, **sampling}
    (through,) = gateway.http.post("/v1/completions", json=body).json()["choices"]
    for member in ("token_ids", "prompt_token_ids", "finish_reason"):
        assert through[member] == direct[member]
    # vLLM leaves out a character that the last token begins.
    assert through["text"] == TOKENIZER.decode(direct["token_ids"])


def test_seeds_differ(gateway: ServerProcess) -> None:
    texts = {CHAT.ask(gateway, CHAT.body("Dice.", 20, temperature=1, seed=seed)).text for seed in (1, 2, 1)}
    assert len(texts) == 2


@streamed_or_not
def test_log_probabilities_are_those_of_vllm(vllm: VllmProcess, gateway: ServerProcess, stream: bool) -> None:
    body = CHAT.body("How likely?", 8, logprobs=True, top_logprobs=3)
    direct = vllm.complete(CHAT.prompt_ids(body), max_tokens=8, temperature=0, logprobs=3)["choices"][0]
    if stream:
        with gateway.http.stream("POST", CHAT.path, json=CHAT.streaming(body)) as response:
            choices = [choice for event in events_of(response.iter_lines()) for choice in event["choices"]]
    else:
        choices = gateway.http.post(CHAT.path, json=body).json()["choices"]
    entries = [entry for choice in choices for entry in (choice.get("logprobs") or {}).get("content") or ()]
    found = direct["logprobs"]
    assert [entry["logprob"] for entry in entries] == pytest.approx(found["token_logprobs"], abs=1e-4)
    assert b"".join(bytes(entry["bytes"]) for entry in entries) == TOKENIZER.decode_bytes(direct["token_ids"])
    for entry, top in zip(entries, found["top_logprobs"], strict=True):
        tops = [alternative["logprob"] for alternative in entry["top_logprobs"]]
        assert tops == pytest.approx(sorted(top.values(), reverse=True)[:3], abs=1e-4)


@every_protocol
def test_an_answer_ends_with_its_end_token(gateway: ServerProcess, protocol: Protocol) -> None:
    # Chat Completions alone has a way to ask for the token; elsewhere a schema of one value leads to it.
    wanted = {"logit_bias": {str(END): 100}} if protocol.name == CHAT.name else protocol.schema({"const": 5})
    answer = protocol.ask(gateway, protocol.body("End.", 40, **wanted))
    assert answer.finish == protocol.stop
    assert answer.text == ("" if protocol.name == CHAT.name else "5")


def test_an_answer_ends_with_a_text_to_stop_at(vllm: VllmProcess, gateway: ServerProcess) -> None:
    whole = CHAT.ask(gateway, CHAT.body("Stop somewhere.", 40)).text
    stop = whole[30:33]
    body = CHAT.body("Stop somewhere.", 1500, stop=[stop])
    answer = CHAT.ask(gateway, body)
    assert (answer.text, answer.finish) == (whole[: whole.index(stop)], "stop")
    assert answer.usage[2] <= 40
    eventually(lambda: vllm.count("num_requests_running") == 0)


@every_protocol
@streamed_or_not
def test_a_prompt_that_was_seen_is_cached(
    watched: ServerProcess, relay: Relay, protocol: Protocol, stream: bool
) -> None:
    body = protocol.body(f"{protocol.name}, {stream}. {LONG}", 4)
    first = protocol.ask(watched, body, stream=stream)
    second = protocol.ask(watched, body, stream=stream)
    assert second.text == first.text
    assert first.usage[1] < 128 < second.usage[1] < second.usage[0]
    assert second.usage == usage_of(relay.passages[-1].usage)


def test_the_next_turn_has_the_ids_that_vllm_wrote(watched: ServerProcess, relay: Relay) -> None:
    # Letters, as there is no record of bytes that are no text.
    body = CHAT.body("Once more.", 300, structured_outputs={"regex": "[a-z]{150}"})
    message = watched.http.post(CHAT.path, json=body).json()["choices"][0]["message"]
    first = relay.passages[-1]
    next_turn = CHAT.body("", 20)
    next_turn["messages"] = [*body["messages"], message, {"role": "user", "content": "Go on."}]
    CHAT.ask(watched, next_turn)
    written = first.prompt_ids + first.answer_ids
    # The tokenizer makes others of the text.
    assert TOKENIZER.encode(message["content"]) != first.answer_ids[:-1]
    assert relay.passages[-1].prompt_ids[: len(written)] == written


def test_many_at_once_are_each_answered_as_alone(vllm: VllmProcess, gateway: ServerProcess) -> None:
    bodies = [CHAT.body(f"Question {number}.", 30) for number in range(24)]

    def ask(body: dict[str, Any]) -> Answer:
        return CHAT.ask(gateway, body, stream=True)

    with ThreadPoolExecutor(len(bodies)) as threads:
        answers = list(threads.map(ask, bodies))
    for body, answer in zip(bodies, answers, strict=True):
        direct = vllm.complete(CHAT.prompt_ids(body), max_tokens=30, temperature=0)["choices"][0]
        assert answer.text.strip() == TOKENIZER.decode(direct["token_ids"]).strip()
