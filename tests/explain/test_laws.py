"""Laws of `explain` and `diff` for any request, and for bodies that are none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import deepseek_recipe as recipe
from tests.explain.support import Case, cases, text_of, tiling_fault, value_at

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["<think>", "<｜User｜>", "</tool_result>", "｜DSML｜", "\n\n", "{}", '"', "é\u0301", "𓀀"]),
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.just([]),
    st.just({}),
)
PROTOCOLS = st.sampled_from(["chat_completions", "responses", "messages"])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member and item of a body: what holds it, and its key there."""
    steps = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [place for step in steps for place in [(value, step), *places(value[step])]]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Case, Any]:
    """A request of the vectors with a few changes."""
    case = draw(st.sampled_from(cases()))
    body = copy.deepcopy(case.body)
    for _ in range(draw(st.integers(1, 3))):
        found = places(body)
        texts = [(holder, step) for holder, step in found if isinstance(holder[step], str) and step != "model"]
        match draw(st.sampled_from(["text", "text", "text", "junk", "leave out", "repeat"])):
            case "text" if texts:
                holder, step = draw(st.sampled_from(texts))
                holder[step] = draw(TEXTS)
            case "junk" if found:
                holder, step = draw(st.sampled_from(found))
                holder[step] = draw(JUNK)
            case "leave out" if found:
                holder, step = draw(st.sampled_from(found))
                del holder[step]
            case "repeat" if lists := [place for place in found if isinstance(place[0], list)]:
                holder, step = draw(st.sampled_from(lists))
                holder.insert(step, copy.deepcopy(holder[step]))
    return case, body


@given(mutated())
@settings(max_examples=400, deadline=None)
def test_spans_account_for_every_token_of_what_is_accepted(given: tuple[Case, Any]) -> None:
    case, body = given
    try:
        encoded = recipe.encode(text_of(body), case.protocol, options=case.options)
    except recipe.RequestError as refused:
        with pytest.raises(recipe.RequestError) as raised:
            recipe.explain(text_of(body), case.protocol, options=case.options)
        assert (raised.value.code, raised.value.param) == (refused.code, refused.param)
        return
    spans = recipe.explain(text_of(body), case.protocol, options=case.options)
    assert tiling_fault(spans, encoded) is None
    for span in spans:
        assert span.path is None or value_at(body, span.path) is not value_at


@given(mutated())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_request_shares_all_of_itself(given: tuple[Case, Any]) -> None:
    case, body = given
    try:
        difference = recipe.diff(body, text_of(body), case.protocol, options=case.options)
    except recipe.RequestError:
        assume(False)
    assert difference.shared == difference.first_tokens == difference.second_tokens
    assert difference.first_share == difference.second_share == 1.0
    assert (difference.first, difference.second, difference.path) == (None, None, None)


@given(st.sampled_from(cases()), TEXTS, st.data())
@settings(max_examples=300, deadline=None)
def test_a_changed_text_is_named(case: Case, text: str, data: st.DataObject) -> None:
    """Texts of messages, where each has its own place in the prompt."""
    spans = [
        span for span in case.explained() if span.path and span.path.endswith(("content", ".text", "instructions"))
    ]
    paths = [span.path for span in spans if span.path and "tools" not in span.path]
    assume(paths)
    path = data.draw(st.sampled_from(paths))
    holder_path, _, key = path.rpartition(".")
    body = copy.deepcopy(case.body)
    holder = value_at(body, holder_path)
    assume(isinstance(holder[key], str) and holder[key] != text)
    holder[key] = text
    try:
        difference = recipe.diff(case.body, body, case.protocol, options=case.options)
    except recipe.RequestError:
        assume(False)
    named = {part.path for part in (difference.first, difference.second) if part is not None}
    # A text that begins with white space, or that is none, may share its first token with its neighbour.
    shares = any(not side[:1].strip() for side in (text, value_at(case.body, path)))
    assert path in named or shares or difference.first is None
    if difference.path == path:
        assert path in str(difference)


@given(st.lists(st.lists(st.sampled_from(["yes", "no"]), min_size=1, max_size=4), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_turn_shares_what_any_earlier_one_has(sequence: list[list[str]]) -> None:
    """Of few different words, so that sequences have much in common."""
    bodies = [chat(texts) for texts in sequence]
    prompts = [recipe.encode(body, "chat_completions").token_ids.tolist() for body in bodies]
    turns = recipe.diff_sequence(bodies, "chat_completions")
    assert [turn.tokens for turn in turns] == [len(prompt) for prompt in prompts]
    for index, turn in enumerate(turns):
        longest = max((common(prompts[index], earlier) for earlier in prompts[:index]), default=0)
        assert turn.shared == longest
        if turn.earlier is None:
            assert index == 0 and turn.difference is None
        else:
            assert common(prompts[index], prompts[turn.earlier]) == longest


def chat(texts: list[str]) -> dict[str, Any]:
    """A chat of some texts, the user's first."""
    roles = [("assistant", "user")[place % 2 == 0] for place in range(len(texts))]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    return {"model": "DeepSeek-V4.1-Flash", "messages": messages}


def common(one: list[int], other: list[int]) -> int:
    """Number of ids that two lists begin with."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


HOSTILE = [
    b"",
    b"\xff",
    b"[",
    b"null",
    b"[]",
    b'"text"',
    b"[" * 100_000,
    b"{}",
    b'{"model": 3}',
    b'{"model": "no"}',
    "{",
    "\x00",
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: repr(body[:12]))
@pytest.mark.parametrize("protocol", ["chat_completions", "responses", "messages"])
def test_a_hostile_body_is_refused(body: bytes | str, protocol: str) -> None:
    good = next(case for case in cases() if case.protocol == protocol)
    for call in (
        lambda: recipe.explain(body, protocol),
        lambda: recipe.diff(body, good.body, protocol, options=good.options),
        lambda: recipe.diff(good.body, body, protocol, options=good.options),
        lambda: recipe.diff_sequence([body], protocol),
    ):
        with pytest.raises(recipe.RequestError):
            call()


@given(st.binary(max_size=40), PROTOCOLS)
def test_bytes_are_refused_or_explained(body: bytes, protocol: str) -> None:
    with pytest.raises(recipe.RequestError):
        recipe.explain(body, protocol)


def test_a_fault_in_a_sequence_says_where() -> None:
    good = next(case for case in cases() if case.protocol == "chat_completions")
    with pytest.raises(recipe.RequestError) as raised:
        recipe.diff_sequence([good.body, "{}"], "chat_completions", options=good.options)
    assert raised.value.__notes__ == ["in requests[1]"]


def test_wrong_arguments_are_no_faults_of_a_request() -> None:
    with pytest.raises(ValueError, match="protocol must be") as raised:
        recipe.explain("{}", "soap")
    assert not isinstance(raised.value, recipe.RequestError)
    with pytest.raises(TypeError):
        recipe.explain(3, "messages")  # type: ignore[arg-type]
