"""Chooses the next token of each row of logits.

A row passes its penalties and biases, and then its constraint, which nothing after it can undo; from what is left,
temperature, min-p, top-k and nucleus draw one token. No row's result depends on another row.

Nothing is sorted: a nucleus draw (smallest set of tokens, by falling probability and then rising id, whose mass reaches
top_p) works like quickselect. Draw a token from the whole distribution; if the mass ranked before it is below top_p it
lies in the nucleus. If not, the whole nucleus ranks before it: drop everything else and draw again. That is rejection
sampling, so the accepted token has exactly the nucleus's distribution. A round is a few passes over the vocabulary and
drops half of the mass on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from deepinfer.sampler.adjustment import Adjustment
from deepinfer.sampler.seeds import uniform
from deepinfer.sampler.segments import SEGMENT, largest, pick, segments

# Rows sampled together: few enough for their weights to stay in a core's cache.
ROWS_PER_PASS = 8
# Below this temperature every float32 logit that is not the largest gets probability 0, or as good as.
GREEDY_TEMPERATURE = 1e-6
# exp() of less is a denormal float32, several times slower. Such tokens get weight 0; they would all weigh 1e-32.
LOWEST_SCORE = -87.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How one row is sampled. `position` is the place of the new token in its sequence.

    `allowed` [vocabulary], bool, are the tokens that may be chosen, None for all; `forced` is one that must be.
    """

    seed: int
    position: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    adjustment: Adjustment | None = None
    allowed: Tensor | None = None
    forced: int | None = None

    @property
    def is_greedy(self) -> bool:
        """True when the most probable token is taken."""
        return self.temperature < GREEDY_TEMPERATURE or self.top_p <= 0.0 or self.top_k == 1


def sample(logits: Tensor, choices: Sequence[Choice | None]) -> list[int | None]:
    """Return one token id per row of `logits` [rows, vocabulary], float32; the logits are left unchanged.

    Rows whose choice is None are passed over. None is returned for these, and for rows that hold NaN or positive
    infinity or have no finite logit left.
    """
    token_ids: list[int | None] = [None] * len(choices)
    for greedy in (True, False):
        rows = [row for row, choice in enumerate(choices) if choice is not None and choice.is_greedy is greedy]
        for first in range(0, len(rows), ROWS_PER_PASS):
            some = rows[first : first + ROWS_PER_PASS]
            chosen = _choose(logits[some], [choice for row in some if (choice := choices[row]) is not None], greedy)
            for row, token_id in zip(some, chosen, strict=True):
                token_ids[row] = token_id
    return token_ids


def _choose(logits: Tensor, choices: Sequence[Choice], greedy: bool) -> list[int | None]:
    """Choose from rows of `logits`, which are changed."""
    highest = logits.amax(-1, keepdim=True)
    sound = highest.isfinite()
    for row, choice in enumerate(choices):
        if choice.adjustment is not None:
            choice.adjustment.apply(logits[row])
        if choice.allowed is not None:
            logits[row].masked_fill_(~choice.allowed, -torch.inf)
    if any(choice.adjustment is not None or choice.allowed is not None for choice in choices):
        highest = logits.amax(-1, keepdim=True)
        sound &= highest.isfinite()
    # What a broken row holds must not stop the others.
    logits.masked_fill_(~sound, 0.0)
    highest.masked_fill_(~sound, 0.0)
    token_ids = _most_probable(logits) if greedy else _draw(logits.sub_(highest), choices)
    return [
        None if not fine else token_id if choice.forced is None else choice.forced
        for fine, token_id, choice in zip(sound[:, 0].tolist(), token_ids, choices, strict=True)
    ]


def _most_probable(logits: Tensor) -> list[int]:
    cut = segments(logits, fill=-torch.inf)
    best = cut.amax(-1).argmax(-1)
    return (best * SEGMENT + pick(cut, best).argmax(-1)).tolist()


def _draw(scores: Tensor, choices: Sequence[Choice]) -> list[int]:
    """Draw from rows of `scores`, whose highest is 0; they are changed."""
    scores.div_(torch.tensor([choice.temperature for choice in choices])[:, None])
    weights = segments(functional.threshold(scores, LOWEST_SCORE, -torch.inf, inplace=True).exp_(), fill=0.0)
    for row, choice in zip(weights, choices, strict=True):
        _truncate(row, choice)
    token_ids = _weighted(weights, [uniform(choice.seed, choice.position, 0) for choice in choices])
    return [
        token_id if choice.top_p >= 1.0 else _nucleus(row, token_id, choice)
        for row, token_id, choice in zip(weights, token_ids, choices, strict=True)
    ]


def _truncate(weights: Tensor, choice: Choice) -> None:
    """Set to 0 what min-p and top-k drop from `weights` [segments, SEGMENT], whose largest is 1."""
    if choice.min_p > 0.0:
        # Less than `min_p`, not as little: the threshold of torch drops what is as little.
        weights.masked_fill_(weights < choice.min_p, 0.0)
    if choice.top_k is not None and choice.top_k < weights.numel():
        least = largest(weights[None], choice.top_k)[0][0, -1]
        ties = (weights.view(-1) == least).nonzero()[:, 0]
        above = int((weights > least).count_nonzero())
        weights.masked_fill_(weights < least, 0.0)
        weights.view(-1)[ties[choice.top_k - above :]] = 0.0


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
