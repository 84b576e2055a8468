"""Chooses the next token of each row of logits: greedy, temperature and nucleus sampling.

No row's result depends on another row. Nothing is sorted: a nucleus draw (smallest set of tokens, by falling
probability and then rising id, whose mass reaches top_p) works like quickselect. Draw a token from the whole
distribution; if the mass ranked before it is below top_p it lies in the nucleus. If not, the whole nucleus ranks
before it: drop everything else and draw again. That is rejection sampling, so the accepted token has exactly the
nucleus's distribution. A round is a few passes over the vocabulary and drops half of the mass on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from deepinfer.sampler.seeds import uniform
from deepinfer.sampler.segments import SEGMENT, pick, segments

# Rows sampled together: few enough for their weights to stay in a core's cache.
ROWS_PER_PASS = 8
# Below this temperature every float32 logit that is not the largest gets probability 0, or as good as.
GREEDY_TEMPERATURE = 1e-6
# exp() of less is a denormal float32, several times slower. A whole vocabulary at this floor weighs 1e-32.
LOWEST_SCORE = -87.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How one row is sampled. `position` is the place of the new token in its sequence."""

    temperature: float
    top_p: float
    seed: int
    position: int

    @property
    def is_greedy(self) -> bool:
        """True when the most probable token is taken."""
        return self.temperature < GREEDY_TEMPERATURE or self.top_p <= 0.0


def sample(logits: Tensor, choices: Sequence[Choice]) -> list[int]:
    """Return one token id per row of `logits` [rows, vocabulary], float32; the logits are left unchanged.

    Raises ArithmeticError when a row that is not greedy holds NaN or infinity.
    """
    token_ids = [0] * len(choices)
    for method, greedy in ((_most_probable, True), (_draw, False)):
        rows = [row for row, choice in enumerate(choices) if choice.is_greedy is greedy]
        for first in range(0, len(rows), ROWS_PER_PASS):
            some = rows[first : first + ROWS_PER_PASS]
            for row, token_id in zip(some, method(logits[some], [choices[row] for row in some]), strict=True):
                token_ids[row] = token_id
    return token_ids


def _most_probable(logits: Tensor, _: Sequence[Choice]) -> list[int]:
    cut = segments(logits, fill=-torch.inf)
    best = cut.amax(-1).argmax(-1)
    return (best * SEGMENT + pick(cut, best).argmax(-1)).tolist()


def _draw(logits: Tensor, choices: Sequence[Choice]) -> list[int]:
    temperatures = torch.tensor([choice.temperature for choice in choices])[:, None]
    highest = logits.amax(-1, keepdim=True)
    if not highest.isfinite().all():
        raise ArithmeticError("a row of logits holds NaN or infinity; check the model's weights")
    scores = (logits - highest).div_(temperatures).clamp_min_(LOWEST_SCORE)
    weights = segments(scores.exp_(), fill=0.0)
    token_ids = _weighted(weights, [uniform(choice.seed, choice.position, 0) for choice in choices])
    return [
        token_id if choice.top_p >= 1.0 else _nucleus(row, token_id, choice)
        for row, token_id, choice in zip(weights, token_ids, choices, strict=True)
    ]


def _nucleus(weights: Tensor, token_id: int, choice: Choice) -> int:
    """Return `token_id`, drawn from `weights` [segments, SEGMENT], or one drawn later that lies in the nucleus."""
    limit = choice.top_p * _mass(weights)
    draw = 0
    while True:
        own = float(weights.view(-1)[token_id])
        before = functional.threshold(weights, own, 0.0)
        ties = weights.view(-1)[:token_id] == own
        if _mass(before) + own * int(ties.count_nonzero()) < limit:
            return token_id
        before.view(-1)[:token_id].masked_fill_(ties, own)
        weights = before
        draw += 1
        [token_id] = _weighted(weights[None], [uniform(choice.seed, choice.position, draw)])


def _mass(weights: Tensor) -> float:
    return float(weights.sum(-1).double().sum())


def _weighted(weights: Tensor, uniforms: Sequence[float]) -> list[int]:
    """Invert the cumulative sum of each row of unnormalised `weights` [rows, segments, SEGMENT] at its uniform."""
    masses = weights.sum(-1).double()
    cumulative = masses.cumsum(-1)
    targets = torch.tensor(uniforms, dtype=torch.float64) * cumulative[:, -1]
    place = _first_above(cumulative, targets)
    rest = targets - (pick(cumulative, place) - pick(masses, place))
    return (place * SEGMENT + _first_above(pick(weights, place).double().cumsum(-1), rest)).tolist()


def _first_above(cumulative: Tensor, targets: Tensor) -> Tensor:
    # Rounding may push a target out of [0, total); inside, the place found has a weight above zero.
    total = cumulative[:, -1]
    targets = targets.clamp_min(0.0).minimum(total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, targets[:, None], right=True)[:, 0]
