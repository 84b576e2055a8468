"""Penalties, biases, min-p, top-k and constraints: each against a plain loop in numpy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from deepinfer.core import SamplingParams
from deepinfer.sampler.adjustment import Adjustment, adjustment_of
from deepinfer.sampler.sampler import Choice, sample

SIZE = 40
DRAWS = 4_000
Row = NDArray[np.float64]

tokens = st.lists(st.integers(0, SIZE - 1), max_size=60)
rows = st.lists(st.floats(-20, 20, width=32), min_size=SIZE, max_size=SIZE)
# Quarters are exact in both widths, so that a tie is a tie in the reference too.
coarse_rows = st.lists(st.integers(-40, 4).map(lambda n: n / 4), min_size=SIZE, max_size=SIZE)


def adjusted(logits: list[float], sampling: SamplingParams, prompt: list[int], answer: list[int]) -> Row:
    """Reference: one token after the other."""
    result = np.array(logits, dtype=np.float64)
    for token_id in range(SIZE):
        count = sum(1 for other in answer if other == token_id)
        if count > 0 or token_id in prompt:
            if result[token_id] > 0:
                result[token_id] /= sampling.repetition_penalty
            else:
                result[token_id] *= sampling.repetition_penalty
        result[token_id] -= count * sampling.frequency_penalty
        if count > 0:
            result[token_id] -= sampling.presence_penalty
        result[token_id] += sampling.logit_bias.get(token_id, 0.0)
    return result


def distribution(logits: list[float], *, temperature: float, min_p: float, top_k: int, top_p: float) -> Row:
    """Reference: weights in falling order, dropped one by one; ties by rising id."""
    weights = [math.exp((logit - max(logits)) / temperature) for logit in logits]
    kept = [token_id for token_id in range(SIZE) if weights[token_id] >= min_p]
    kept = sorted(kept, key=lambda token_id: (-weights[token_id], token_id))[:top_k]
    mass = sum(weights[token_id] for token_id in kept)
    result = np.zeros(SIZE)
    before = 0.0
    for token_id in kept:
        if before >= top_p * mass and before > 0:
            break
        result[token_id] = weights[token_id]
        before += weights[token_id]
    result /= result.sum()
    return result


@settings(max_examples=300, deadline=None)
@given(
    logits=rows,
    prompt=tokens,
    answer=tokens,
    presence=st.sampled_from([0.0, 0.7, -2.0]),
    frequency=st.sampled_from([0.0, 0.3, -1.5]),
    repetition=st.sampled_from([1.0, 1.3, 0.5]),
    bias=st.dictionaries(st.integers(0, SIZE - 1), st.floats(-100, 100, width=32), max_size=5),
)
def test_penalties_and_biases_are_those_of_the_reference(
    logits: list[float],
    prompt: list[int],
    answer: list[int],
    presence: float,
    frequency: float,
    repetition: float,
    bias: dict[int, float],
) -> None:
    sampling = SamplingParams(
        max_tokens=1,
        presence_penalty=presence,
        frequency_penalty=frequency,
        repetition_penalty=repetition,
        logit_bias=bias,
    )
    adjustment = Adjustment(sampling, prompt, SIZE)
    for token_id in [*answer, 3, 3, 5]:
        adjustment.accept(token_id)
    adjustment.rollback([3, 3, 5])
    row = torch.tensor(logits)
    adjustment.apply(row)
    assert row.numpy() == pytest.approx(adjusted(logits, sampling, prompt, answer), abs=1e-4)


def test_settings_that_change_nothing_cost_nothing() -> None:
    assert adjustment_of(SamplingParams(max_tokens=1), [1], SIZE) is None
    for changed in (
        {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1},
        {"repetition_penalty": 1.1},
        {"logit_bias": {1: 1.0}},
    ):
        assert adjustment_of(replace(SamplingParams(max_tokens=1), **changed), [1], SIZE) is not None


def draws(logits: list[float], choice: Choice, count: int) -> NDArray[np.int64]:
    row = torch.tensor(logits).expand(count, -1)
    token_ids = sample(row, [replace(choice, seed=seed) for seed in range(count)])
    assert None not in token_ids
    return np.bincount(np.array(token_ids, dtype=np.int64), minlength=SIZE)


@pytest.mark.parametrize(
    ("temperature", "min_p", "top_k", "top_p"),
    [
        (1.0, 0.0, 7, 1.0),
        (0.7, 0.05, SIZE, 1.0),
        (1.5, 0.02, 12, 1.0),
        (1.0, 0.0, 9, 0.8),
        (1.3, 0.1, 6, 0.7),
        (1.0, 1.0, SIZE, 1.0),
        (1.0, 0.0, 500, 0.9),
    ],
)
def test_draws_follow_the_reference(temperature: float, min_p: float, top_k: int, top_p: float) -> None:
    logits = [float(n) for n in np.random.default_rng(5).normal(0, 2, SIZE).astype(np.float32)]
    expected = distribution(logits, temperature=temperature, min_p=min_p, top_k=top_k, top_p=top_p)
    choice = Choice(temperature=temperature, min_p=min_p, top_k=top_k, top_p=top_p, seed=0, position=3)
    counts = draws(logits, choice, DRAWS)
    assert not counts[expected == 0].any(), "a token was drawn that had been dropped"
    kept = expected > 0
    statistic = ((counts - DRAWS * expected)[kept] ** 2 / (DRAWS * expected[kept])).sum()
    freedom = int(kept.sum()) - 1
    # Mean and deviation of the chi-squared distribution; five deviations.
    assert statistic < freedom + 5 * math.sqrt(2 * freedom) + 1e-9


@settings(max_examples=200, deadline=None)
@given(
    logits=coarse_rows,
    top_k=st.integers(1, SIZE + 5),
    min_p=st.sampled_from([0.0, 0.001, 0.3, 1.0]),
    seed=st.integers(0, 2**64 - 1),
)
def test_no_draw_leaves_what_is_kept_even_among_ties(logits: list[float], top_k: int, min_p: float, seed: int) -> None:
    expected = distribution(logits, temperature=1.0, min_p=min_p, top_k=top_k, top_p=1.0)
    choice = Choice(top_k=top_k, min_p=min_p, seed=seed, position=0)
    [token_id] = sample(torch.tensor([logits]), [choice])
    assert token_id is not None and expected[token_id] > 0


@settings(max_examples=200, deadline=None)
@given(
    logits=rows,
    allowed=st.sets(st.integers(0, SIZE - 1), min_size=1),
    bias=st.dictionaries(st.integers(0, SIZE - 1), st.floats(-100, 100, width=32), max_size=5),
    temperature=st.sampled_from([0.0, 1.0, 50.0]),
    top_p=st.sampled_from([0.1, 1.0]),
    top_k=st.sampled_from([None, 1, 3]),
)
def test_nothing_undoes_a_constraint(
    logits: list[float],
    allowed: set[int],
    bias: dict[int, float],
    temperature: float,
    top_p: float,
    top_k: int | None,
) -> None:
    mask = torch.zeros(SIZE, dtype=torch.bool)
    mask[sorted(allowed)] = True
    adjustment = Adjustment(SamplingParams(max_tokens=1, logit_bias=bias), [], SIZE)
    choice = Choice(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=1,
        position=0,
        adjustment=adjustment,
        allowed=mask,
    )
    [token_id] = sample(torch.tensor([logits]), [choice])
    assert token_id in allowed
    if temperature == 0.0:
        changed = adjusted(logits, SamplingParams(max_tokens=1, logit_bias=bias), [], [])
        assert changed[token_id] == pytest.approx(max(changed[sorted(allowed)]), abs=1e-4)


def test_a_forced_token_comes_whatever_the_logits() -> None:
    logits = torch.zeros(3, SIZE)
    logits[0, 9] = -1e30
    choices = [Choice(temperature=temperature, seed=0, position=0, forced=9) for temperature in (0.0, 1.0, 1.0)]
    assert sample(logits, choices) == [9, 9, 9]
    logits[1, 0] = torch.nan
    assert sample(logits, choices) == [9, None, 9]


def test_a_constraint_that_leaves_no_finite_logit_gives_no_token() -> None:
    logits = torch.zeros(1, SIZE)
    logits[0, :3] = -torch.inf
    mask = torch.zeros(SIZE, dtype=torch.bool)
    mask[:3] = True
    assert sample(logits, [Choice(seed=0, position=0, allowed=mask)]) == [None]
