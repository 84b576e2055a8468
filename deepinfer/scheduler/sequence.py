"""A request in flight. The engine alone writes `token_ids`, the scheduler alone `computed_count` and `blocks`."""

from __future__ import annotations

from deepinfer.core import Request


class Sequence:
    """Tokens of one request and how far the cache has seen them.

    `token_ids` is the prompt and then the answer; the first `computed_count` of them have their keys and values in
    `blocks`. `seed` is the seed of the request, or the one drawn for it. `cached_count` is how many tokens of the
    prompt had been computed for another sequence when this one was first admitted.
    """

    __slots__ = ("blocks", "cached_count", "computed_count", "prompt_length", "request", "seed", "token_ids")

    def __init__(self, request: Request, *, seed: int) -> None:
        self.request = request
        self.seed = seed
        self.token_ids = list(request.token_ids)
        self.prompt_length = len(self.token_ids)
        self.computed_count = 0
        self.cached_count: int | None = None
        self.blocks: list[int] = []

    @property
    def pending_count(self) -> int:
        """Tokens the model has still to see: 1 while decoding."""
        return len(self.token_ids) - self.computed_count

    @property
    def generated_count(self) -> int:
        """Length of the answer so far."""
        return len(self.token_ids) - self.prompt_length
