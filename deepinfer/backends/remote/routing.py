"""Which upstream a request goes to: where its conversation was before, unless too much runs there already.

Owns what is remembered of past prompts. Pure policy: ids and loads in, a number out; no network and no clock.

A conversation is known by its first prompt: a later prompt that holds all of it, but for its last tokens, goes on with
it. Prompts that merely begin alike, with the same instructions, are conversations of their own, and new ones are dealt
out evenly. So if an upstream is lost, only its share of the conversations moves. The cap on loads is that of consistent
hashing with bounded loads (Mirrokni et al. 2018).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from deepinfer.cache.prefix import packed

# Prompts are remembered in blocks of tokens, and their last part in steps, which tell short first messages apart.
_BLOCK: Final = 64
_STEP: Final = 4
# The last tokens of a prompt open the answer, and later prompts may have others in their place.
_OPENER: Final = 4
_ID_BYTES: Final = 4
# Up to so many requests at a time are never too many.
_FREE_LOAD: Final = 16


@dataclass(slots=True)
class _Conversation:
    """Where a conversation lives, and how many tokens a prompt must share with it to go on with it."""

    home: int
    opening: int


class Router:
    """Deals requests out to `count` upstreams. For one thread.

    An upstream may have `load_cap` times the average load before its conversations go elsewhere. Memory is bounded:
    about 100 bytes for each of twice `max_marks` blocks of prompts, and for each conversation.
    """

    def __init__(
        self, count: int, *, load_cap: float, max_marks: int = 1 << 17, max_conversations: int = 1 << 14
    ) -> None:
        self._load_cap = load_cap
        self._max_marks = max_marks
        self._max_conversations = max_conversations
        # Hash of a prompt's beginning to the number of the conversation that it belongs to. Two generations: what is
        # not met again while the younger one fills up is forgotten.
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        # The least recently used first.
        self._conversations: OrderedDict[int, _Conversation] = OrderedDict()
        self._homes = [0] * count
        self._next_number = 0

    def choose(self, token_ids: Sequence[int], loads: Sequence[int | None]) -> int | None:
        """Place a prompt, given how many requests each upstream runs; None stands for one that takes no requests.

        Returns the number of an upstream, or None if none takes requests. Costs O(prompt length).
        """
        if all(load is None for load in loads):
            return None
        if len(loads) == 1:
            return 0
        data = packed(token_ids).tobytes()
        blocks = _chain(0, data, 0, len(data) // _ID_BYTES, _BLOCK)
        number, shared = self._longest_match(data, blocks)
        conversation = self._conversations.get(number)
        if conversation is None or shared < conversation.opening:
            number, conversation = self._next_number, None
            self._next_number += 1
        home = self._place(None if conversation is None else conversation.home, loads)
        self._remember(number, conversation, home, data, blocks)
        return home

    def _longest_match(self, data: bytes, blocks: list[int]) -> tuple[int, int]:
        """The conversation that shares most with a prompt (-1: none), and how many tokens they share."""
        length = len(data) // _ID_BYTES
        number, place = -1, len(blocks)
        while place > 0 and (number := self._recall(blocks[place - 1])) < 0:
            place -= 1
        shared = place * _BLOCK
        for step in _chain(blocks[place - 1] if place else 0, data, shared, min(length, shared + _BLOCK), _STEP):
            if (owner := self._recall(step)) < 0:
                break
            number, shared = owner, shared + _STEP
        return number, shared

    def _place(self, home: int | None, loads: Sequence[int | None]) -> int:
        open_loads = [load for load in loads if load is not None]
        cap = max(_FREE_LOAD, ceil(self._load_cap * (sum(open_loads) + 1) / len(open_loads)))
        if home is not None and (load := loads[home]) is not None and load < cap:
            return home
        # Never empty: the least load is below the average, and the cap is not.
        fitting = [(load, place) for place, load in enumerate(loads) if load is not None and load < cap]
        return min(fitting, key=lambda entry: (self._homes[entry[1]], *entry))[1]

    def _remember(
        self, number: int, conversation: _Conversation | None, home: int, data: bytes, blocks: list[int]
    ) -> None:
        length = len(data) // _ID_BYTES
        if conversation is None:
            conversation = _Conversation(home, max(_STEP, (length - _OPENER) // _STEP * _STEP))
            self._conversations[number] = conversation
            self._homes[home] += 1
            if len(self._conversations) > self._max_conversations:
                self._homes[self._conversations.popitem(last=False)[1].home] -= 1
        else:
            self._conversations.move_to_end(number)
            self._homes[conversation.home] -= 1
            self._homes[home] += 1
            conversation.home = home
        start = len(blocks) * _BLOCK
        steps = _chain(blocks[-1] if blocks else 0, data, start, length, _STEP)
        for mark in (*blocks, *steps):
            if self._recall(mark) not in self._conversations:
                self._young[mark] = number
        if len(self._young) > self._max_marks:
            self._young, self._old = {}, self._young

    def _recall(self, mark: int) -> int:
        number = self._young.get(mark, -1)
        if number < 0 and (number := self._old.get(mark, -1)) >= 0:
            self._young[mark] = number
        return number


def _chain(before: int, data: bytes, start: int, stop: int, step: int) -> list[int]:
    """Hashes of the beginnings that end every `step` tokens after `start`; `before` is that of the one to `start`."""
    size = step * _ID_BYTES
    chain = []
    for place in range(start * _ID_BYTES, stop * _ID_BYTES - size + 1, size):
        before = hash((before, data[place : place + size]))
        chain.append(before)
    return chain
