"""When a grammar holds, after thinking or a trigger; what is barred before; and that all of it can be taken back."""

from __future__ import annotations

import random

import pytest

from deepinfer.core import Grammar, ThinkingLimit
from deepinfer.errors import EngineError
from deepinfer.structured.guidance import Guidance
from deepinfer.structured.guide import Guide
from tests.structured.support import END, MARK, OTHER, SMALL_SIZE, THINK_END, allowed, small_vocabulary

TEXT = 'start: "a" ("b" | "c")* <[258]> %json {"type": "integer", "minimum": 0, "maximum": 150}'
A, B, C, Z = b"abcz"
EVERYTHING = set(range(SMALL_SIZE))


@pytest.fixture(scope="module")
def guidance() -> Guidance:
    return Guidance(small_vocabulary())


def guide(
    guidance: Guidance,
    *,
    start_after: int | None = None,
    trigger: int | None = None,
    binding: bool = True,
    thinking_tokens: int | None = None,
    text: str | None = TEXT,
) -> Guide:
    limit = None if thinking_tokens is None else ThinkingLimit(tokens=thinking_tokens, end_token_id=THINK_END)
    if text is None:
        return Guide(None, limit, ending_ids=(END,))
    grammar = Grammar(text=text, start_after=start_after, trigger=trigger, binding=binding)
    result = Guide(grammar, limit, ending_ids=(END,))
    result.provide(guidance.compile(text).matcher())
    return result


def accept(constraint: Guide, *token_ids: int) -> None:
    for token_id in token_ids:
        constraint.accept(token_id)


def test_a_grammar_without_conditions_holds_from_the_first_token(guidance: Guidance) -> None:
    constraint = guide(guidance)
    assert allowed(constraint) == {A}
    accept(constraint, A)
    assert allowed(constraint) == {B, C, MARK}
    accept(constraint, C, B, MARK)
    assert allowed(constraint) == set(b"0123456789")
    accept(constraint, *b"7")
    assert allowed(constraint) == {*b"0123456789", END}
    accept(constraint, END)
    with pytest.raises(EngineError, match="no place for token 256"):
        constraint.accept(END)


def test_a_token_that_is_barred_is_an_error(guidance: Guidance) -> None:
    constraint = guide(guidance)
    with pytest.raises(EngineError, match=f"no place for token {Z}") as failure:
        constraint.accept(Z)
    assert failure.value.code == "grammar_violated"


def test_thinking_is_free_but_must_not_end_the_answer(guidance: Guidance) -> None:
    constraint = guide(guidance, start_after=THINK_END)
    assert allowed(constraint) == EVERYTHING - {END}
    accept(constraint, Z, MARK, OTHER, A)
    assert allowed(constraint) == EVERYTHING - {END}
    accept(constraint, THINK_END)
    assert allowed(constraint) == {A}


def test_thinking_before_a_grammar_that_may_be_left_out_is_free(guidance: Guidance) -> None:
    constraint = guide(guidance, start_after=THINK_END, trigger=MARK, binding=False)
    assert allowed(constraint) is None
    accept(constraint, MARK)
    assert allowed(constraint) is None, "the trigger does not count while the model thinks"
    accept(constraint, THINK_END, Z)
    assert allowed(constraint) is None
    accept(constraint, MARK)
    assert allowed(constraint) == {A}


def test_a_trigger_wakes_the_grammar(guidance: Guidance) -> None:
    constraint = guide(guidance, trigger=MARK)
    assert allowed(constraint) == EVERYTHING - {END}
    accept(constraint, Z, THINK_END)
    assert allowed(constraint) == EVERYTHING - {END}
    accept(constraint, MARK)
    assert allowed(constraint) == {A}
    accept(constraint, A)
    assert allowed(constraint) == {B, C, MARK}


@pytest.mark.parametrize("text", [TEXT, None])
def test_thinking_that_used_up_its_limit_is_ended(guidance: Guidance, text: str | None) -> None:
    constraint = guide(guidance, start_after=THINK_END, thinking_tokens=3, text=text)
    for _ in range(3):
        assert constraint.forced is None
        constraint.accept(Z)
    assert constraint.forced == THINK_END
    constraint.rollback(1)
    assert constraint.forced is None
    accept(constraint, Z, THINK_END)
    assert constraint.forced is None
    assert allowed(constraint) == (None if text is None else {A})


def test_thinking_that_ends_in_time_is_left_alone(guidance: Guidance) -> None:
    constraint = guide(guidance, thinking_tokens=3, text=None)
    accept(constraint, Z, THINK_END)
    for _ in range(5):
        assert constraint.forced is None
        constraint.accept(Z)


def test_a_limit_of_nothing_ends_thinking_at_once(guidance: Guidance) -> None:
    assert guide(guidance, start_after=THINK_END, thinking_tokens=0).forced == THINK_END


@pytest.mark.parametrize("start_after", [None, THINK_END])
@pytest.mark.parametrize("trigger", [None, MARK])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_taken_back_never_was(
    guidance: Guidance, start_after: int | None, trigger: int | None, seed: int
) -> None:
    """Tokens are accepted and taken back at random; at every step the constraint is as one that saw only the rest."""
    chance = random.Random(seed)

    def new() -> Guide:
        return guide(
            guidance, start_after=start_after, trigger=trigger, thinking_tokens=None if start_after is None else 4
        )

    constraint, history, longest_step_back = new(), list[int](), 0
    for _ in range(60):
        if history and (history[-1] == END or chance.random() < 0.3):
            count = chance.randint(1, len(history))
            longest_step_back = max(longest_step_back, count)
            constraint.rollback(count)
            del history[-count:]
        else:
            choices = allowed(constraint) or EVERYTHING
            likely = sorted(choices & {A, B, THINK_END, MARK, END}) or sorted(choices)
            token_id = constraint.forced or chance.choice(likely)
            constraint.accept(token_id)
            history.append(token_id)
        again = new()
        accept(again, *history)
        assert constraint.forced == again.forced
        if not history or history[-1] != END:
            assert allowed(constraint) == allowed(again), history
    assert longest_step_back > 2


def test_more_than_there_is_cannot_be_taken_back(guidance: Guidance) -> None:
    constraint = guide(guidance)
    accept(constraint, A)
    for count in (2, -1):
        with pytest.raises(ValueError, match=f"take back {count} of 1 tokens"):
            constraint.rollback(count)


@pytest.mark.parametrize("goes_on_with_it", [True, False])
def test_a_matcher_is_waited_for_when_the_grammar_wakes(guidance: Guidance, goes_on_with_it: bool) -> None:
    grammar = Grammar(text=TEXT, start_after=THINK_END, trigger=MARK, binding=False)
    constraint = Guide(grammar, None, ending_ids=(END,))
    for token_id in (MARK, THINK_END, OTHER, MARK):
        assert not constraint.waiting
        constraint.accept(token_id)
    assert constraint.waiting
    constraint.rollback(1)
    assert not constraint.waiting
    constraint.accept(MARK)
    assert constraint.waiting
    constraint.provide(guidance.compile(TEXT).matcher() if goes_on_with_it else None)
    assert not constraint.waiting
    assert allowed(constraint) == ({A} if goes_on_with_it else None)
    constraint.accept(A)
    constraint.rollback(3)
    accept(constraint, OTHER, MARK)
    assert not constraint.waiting
    assert allowed(constraint) == ({A} if goes_on_with_it else None)


def test_a_matcher_can_be_wanted_at_once() -> None:
    assert Guide(Grammar(text=TEXT), None, ending_ids=(END,)).waiting
