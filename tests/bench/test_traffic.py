"""Generated conversations: the same for a seed, growing as an agent's do, and of the sizes that were recorded."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe
from deepinfer.bench.answers import Answer, Protocol
from deepinfer.bench.traffic import TOOL, Conversation, Traffic, arrivals

RECORDED = Path(__file__).parents[1] / "e2e" / "agent_requests"
SEEDS = st.integers(0, 2**32)


def answer(protocol: Protocol, number: int, *, call: bool = True) -> Answer:
    """An answer as the server's clients fold it, with a call or without."""
    arguments, call_id, reasoning, text = {"path": "a.py"}, f"call_{number}", "Let me think.", "I will look."
    message: dict[str, Any]
    history: list[dict[str, Any]]
    match protocol:
        case Protocol.CHAT:
            function = {"name": TOOL, "arguments": json.dumps(arguments)}
            message = {"role": "assistant", "content": text, "reasoning_content": reasoning}
            calls = {"tool_calls": [{"id": call_id, "type": "function", "function": function}]} if call else {}
            history = [message | calls]
        case Protocol.RESPONSES:
            thoughts = [{"type": "reasoning_text", "text": reasoning}]
            items: list[dict[str, Any]] = [
                {"type": "reasoning", "id": f"rs_{number}", "summary": [], "content": thoughts},
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text}],
                },
                {"type": "function_call", "call_id": call_id, "name": TOOL, "arguments": json.dumps(arguments)},
            ]
            history = items if call else items[:2]
        case Protocol.MESSAGES:
            blocks: list[dict[str, Any]] = [
                {"type": "thinking", "thinking": reasoning, "signature": "s"},
                {"type": "text", "text": text},
                {"type": "tool_use", "id": call_id, "name": TOOL, "input": arguments},
            ]
            history = [{"role": "assistant", "content": blocks if call else blocks[:2]}]
    return Answer(history=history, call_ids=[call_id] if call else [], finished=True)


def token_ids(conversation: Conversation) -> list[int]:
    """The prompt that the server makes of the present turn."""
    name = "chat_completions" if conversation.protocol is Protocol.CHAT else conversation.protocol.value
    return list(recipe.encode({**conversation.body(), "model": "DeepSeek-V4.1-Flash"}, name).token_ids)


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_the_seed_says_all(seed: int) -> None:
    first, second = (Traffic(seed, "m") for _ in range(2))
    for _ in range(4):
        one, other = first.conversation(), second.conversation()
        for number in range(2):
            assert one.body() == other.body()
            for conversation in (one, other):
                conversation.advance(answer(conversation.protocol, number))
    assert Traffic(seed + 1, "m").conversation().body() != Traffic(seed, "m").conversation().body()


@given(SEEDS, st.lists(st.booleans(), min_size=1, max_size=4))
@settings(max_examples=10, deadline=None)
def test_each_turn_goes_on_from_the_one_before(seed: int, calls: list[bool]) -> None:
    traffic = Traffic(seed, "m", scale=0.02)
    for conversation in [traffic.conversation() for _ in Protocol]:
        before, prompt = conversation.body(), token_ids(conversation)
        for number, call in enumerate(calls):
            conversation.advance(answer(conversation.protocol, number, call=call))
            body, ids = conversation.body(), token_ids(conversation)
            field = "input" if conversation.protocol is Protocol.RESPONSES else "messages"
            assert body[field][: len(before[field])] == before[field] != body[field]
            assert {**body, field: None} == {**before, field: None}
            assert ids[: len(prompt)] == prompt
            before, prompt = body, ids


def test_conversations_share_instructions_and_a_projects_notes_and_then_part() -> None:
    traffic = Traffic(0, "m", projects=2)
    by_protocol: dict[Protocol, list[list[int]]] = {protocol: [] for protocol in Protocol}
    for _ in range(12):
        conversation = traffic.conversation()
        by_protocol[conversation.protocol].append(token_ids(conversation))
    for first, other_project, same_project, _ in by_protocol.values():
        assert shared(first, other_project) > 5_000
        assert shared(first, same_project) > shared(first, other_project) + 400
        assert shared(first, same_project) < len(first) - 20


def shared(first: list[int], second: list[int]) -> int:
    """How many ids two prompts begin with in common."""
    return next(place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)


@pytest.mark.parametrize(
    ("protocol", "recorded"), [(Protocol.MESSAGES, "claude_code_turn1"), (Protocol.RESPONSES, "codex_turn1")]
)
def test_first_turns_are_as_long_as_recorded_ones(protocol: Protocol, recorded: str) -> None:
    body = json.loads((RECORDED / f"{recorded}.json").read_text(encoding="utf-8"))
    traffic = Traffic(0, "m")
    generated = next(c.body() for c in iter(traffic.conversation, None) if c.protocol is protocol)
    for field in ("system", "tools", "input", "messages"):
        wanted, found = (len(json.dumps(source.get(field))) for source in (body, generated))
        assert found == pytest.approx(wanted, rel=0.1), field


@given(SEEDS, st.floats(1.0, 100.0))
@settings(deadline=None)
def test_arrivals_are_a_poisson_process_of_the_rate(seed: int, rate: float) -> None:
    times = list(arrivals(rate, 1000 / rate, seed))
    assert times == list(arrivals(rate, 1000 / rate, seed)) == sorted(times)
    # 1,000 are expected, with a standard deviation of 32; of an exponential, mean and deviation are equal.
    assert 750 < len(times) < 1250
    gaps = [rate * (after - before) for before, after in pairwise(times)]
    assert 0.7 < fmean(gap * gap for gap in gaps) / (2 * fmean(gaps) ** 2) < 1.4


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_of_nothing_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        next(arrivals(rate, 1.0, 0))
