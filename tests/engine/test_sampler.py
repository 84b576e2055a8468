"""The sampler: its distribution is the one asked for, exactly, and rows do not see each other."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from deepinfer.sampler import sampler
from deepinfer.sampler.logprobs import token_logprobs
from deepinfer.sampler.sampler import Choice, sample
from deepinfer.sampler.seeds import uniform

DRAWS = 3_000


def nucleus(logits: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """Reference distribution, by sorting, in float64."""
    probabilities = (logits.double() / temperature).softmax(-1)
    order = probabilities.argsort(descending=True, stable=True)
    ranked = probabilities[order]
    kept = ranked * (ranked.cumsum(0) - ranked < top_p)
    return torch.zeros_like(probabilities).index_put((order,), kept / kept.sum())


def draw(logits: Tensor, *, temperature: float, top_p: float, count: int = DRAWS) -> Tensor:
    choices = [Choice(temperature=temperature, top_p=top_p, seed=seed, position=5) for seed in range(count)]
    return torch.tensor([token_id for token_id in sample(logits.expand(count, -1), choices) if token_id is not None])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 1.0])
def test_draws_follow_the_nucleus(temperature: float, top_p: float) -> None:
    logits = torch.randn(300, generator=torch.Generator().manual_seed(3)) * 2
    expected = nucleus(logits, temperature=temperature, top_p=top_p)
    counts = draw(logits, temperature=temperature, top_p=top_p).bincount(minlength=300).double()
    assert not counts[expected == 0].any(), "a token outside of the nucleus was drawn"
    kept = expected > 0
    statistic = ((counts - DRAWS * expected)[kept] ** 2 / (DRAWS * expected[kept])).sum()
    freedom = int(kept.sum()) - 1
    # Mean and deviation of the chi-squared distribution; five deviations.
    assert statistic < freedom + 5 * math.sqrt(2 * freedom) + 1e-9


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(st.integers(-3, 3), min_size=1, max_size=300),
    top_p=st.floats(0.001, 1.0),
    seed=st.integers(0, 2**64 - 1),
)
def test_no_draw_leaves_the_nucleus_even_among_ties(logits: list[int], top_p: float, seed: int) -> None:
    row = torch.tensor(logits, dtype=torch.float32)
    # A hair more, as float32 may put the edge on the other side of a token.
    allowed = nucleus(row, temperature=1.0, top_p=min(1.0, top_p + 1e-5)) > 0
    [token_id] = sample(row[None], [Choice(temperature=1.0, top_p=top_p, seed=seed, position=0)])
    assert token_id is not None and allowed[token_id]


def test_ties_at_the_edge_go_to_the_smaller_ids() -> None:
    counts = draw(torch.zeros(8), temperature=1.0, top_p=0.45, count=2000).bincount(minlength=8)
    assert (counts > 0).tolist() == [True] * 4 + [False] * 4


@pytest.mark.parametrize(("temperature", "top_p"), [(0.0, 1.0), (1e-300, 1.0), (1.0, 0.0), (1.0, 1e-9)])
def test_greedy_takes_the_first_of_the_largest(temperature: float, top_p: float) -> None:
    logits = torch.zeros(300)
    logits[[130, 140, 299]] = 9.0
    assert draw(logits, temperature=temperature, top_p=top_p, count=20).tolist() == [130] * 20


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_holds_no_numbers_gets_no_token_and_spares_the_others(bad: float, temperature: float) -> None:
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(8))
    choices = [Choice(temperature=temperature, top_p=0.5, seed=row, position=row) for row in range(3)]
    expected = sample(logits, choices)
    assert None not in expected
    if bad == -torch.inf:
        logits[1] = bad
    else:
        logits[1, 17] = bad
    assert sample(logits, choices) == [expected[0], None, expected[2]]


def test_a_row_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(40, 5000, generator=torch.Generator().manual_seed(4)) * 4
    choices = [
        Choice(
            temperature=row % 3 * 0.5,
            top_p=(0.3, 0.9, 1.0)[row % 3 - row % 2],
            top_k=(None, 5, 300)[row % 5 % 3],
            min_p=(0.0, 0.01)[row % 2],
            seed=row,
            position=row,
        )
        for row in range(40)
    ]
    unchanged = logits.clone()
    together = sample(logits, choices)
    assert torch.equal(logits, unchanged)
    assert together == [sample(logits[row : row + 1], choices[row : row + 1])[0] for row in range(40)]


@pytest.mark.parametrize("edge", [0.0, 1.0 - 2.0**-53])
def test_the_edges_of_the_random_number_hit_no_impossible_token(edge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "uniform", lambda *_: edge)
    monkeypatch.setattr(sampler, "LOWEST_SCORE", -torch.inf)
    logits = torch.randn(20, 384, generator=torch.Generator().manual_seed(6))
    impossible = [0, 1, 127, 128, 255, 256, 383]
    logits[:, impossible] = -torch.inf
    for row in logits:
        assert draw(row, temperature=1.0, top_p=1.0, count=1).item() in {2, 382}


def test_uniform_is_uniform_and_depends_on_every_argument() -> None:
    numbers = [uniform(seed, position, n) for seed in (-1, 7) for position in range(50) for n in range(50)]
    assert len(set(numbers)) == 5000
    assert 0.0 <= min(numbers) < 0.01 and 0.99 < max(numbers) < 1.0
    assert abs(sum(numbers) / 5000 - 0.5) < 0.02
    assert uniform(-1, 2, 3) == uniform(2**64 - 1, 2, 3)


@pytest.mark.parametrize("vocabulary_size", [50, 128, 1000])
def test_logprobs_are_the_log_softmax(vocabulary_size: int) -> None:
    logits = torch.randn(3, vocabulary_size, generator=torch.Generator().manual_seed(5)) * 3
    expected = logits.double().log_softmax(-1)
    result = token_logprobs(logits, [4, 5, 6], [0, 20, 5])
    for row, (token_id, count, logprob) in enumerate(zip([4, 5, 6], [0, 20, 5], result, strict=True)):
        assert logprob.logprob == pytest.approx(float(expected[row, token_id]), abs=1e-5)
        top = expected[row].topk(count)
        assert [token for token, _ in logprob.top] == top.indices.tolist()
        assert [value for _, value in logprob.top] == pytest.approx(top.values.tolist(), abs=1e-5)
