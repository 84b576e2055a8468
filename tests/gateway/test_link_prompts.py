"""What both ends of a link remember: prompts come as they went, little of them is sent, and memory has its bounds."""

from __future__ import annotations

import hashlib
import random

import pytest

from deepinfer.link.ids import ids_to_bytes
from deepinfer.link.prompts import KEPT_BYTES, Beginning, PromptMemory, SentPrompts

CHANCE = random.Random(3)


def ids(count: int) -> list[int]:
    return [CHANCE.randrange(129280) for _ in range(count)]


class Ends:
    """Both ends of a link, and what went over it."""

    def __init__(self) -> None:
        self.sent, self.kept = SentPrompts(), PromptMemory()
        self.number = 0
        self.bytes = 0

    def send(self, prompt: list[int]) -> int:
        """Send a prompt; returns how many ids went."""
        self.number += 1
        data = ids_to_bytes(prompt)
        known, beginning = self.sent.cut(data)
        self.sent.keep(self.number, known, beginning)
        rest = data if beginning is None else data[beginning.length :]
        assert self.kept.join(self.number, beginning, rest) == data
        self.check()
        return len(rest) // 4

    def check(self) -> None:
        """Both ends know the same, and no more than they may."""
        assert list(self.sent._known) == list(self.kept._known)
        for end in (self.sent, self.kept):
            assert end._bytes == sum(len(known.ids) for known in end._known.values()) <= KEPT_BYTES
        assert set(self.sent._index.values()) <= set(self.sent._known)


def test_a_conversation_is_sent_once() -> None:
    ends, prompt = Ends(), ids(9000)
    assert ends.send([*prompt, 1, 2, 3]) == 9003
    for _ in range(8):
        # The opening of the answer is not part of what comes next.
        prompt += ids(700)
        # And so much of what came before that it may stand in it.
        assert ends.send([*prompt, 1, 2, 3]) == 764
    assert len(ends.kept) == 1
    assert ends.send([*prompt, 1, 2, 3]) == 64


def test_conversations_that_begin_alike_share_what_they_begin_with() -> None:
    ends, instructions = Ends(), ids(9000)
    conversations = [[*instructions, *ids(500)] for _ in range(20)]
    counts = [ends.send(prompt) for prompt in conversations]
    assert counts == [9500, *[500] * 19]
    for _ in range(3):
        for prompt in conversations:
            prompt += ids(300)
            assert ends.send(prompt) == 364
    assert len(ends.kept) == 20


def test_a_prompt_that_parts_from_an_earlier_one_leaves_it_there() -> None:
    ends, prompt = Ends(), ids(5000)
    ends.send(prompt)
    assert ends.send([*prompt[:4200], *ids(100)]) == 100
    assert ends.send([*prompt, *ids(100)]) == 164


def test_short_prompts_and_very_long_ones_are_not_remembered() -> None:
    ends = Ends()
    for length in (1, 255, KEPT_BYTES // 32 + 1):
        prompt = ids(length)
        assert (ends.send(prompt), ends.send(prompt), len(ends.kept)) == (length, length, 0)


def test_what_was_not_used_for_longest_is_forgotten_at_both_ends() -> None:
    ends = Ends()
    prompts = [ids(KEPT_BYTES // 32) for _ in range(9)]
    for prompt in prompts[:8]:
        ends.send(prompt)
    assert ends.send(prompts[0]) == 64
    assert ends.send(prompts[8]) == len(prompts[8])
    assert (len(ends.kept), ends.send(prompts[0]), ends.send(prompts[1])) == (8, 64, len(prompts[1]))


def test_random_traffic_comes_as_it_went() -> None:
    ends = Ends()
    prompts = [ids(CHANCE.randrange(1, 12_000)) for _ in range(5)]
    for _ in range(300):
        prompt = CHANCE.choice(prompts)
        prompt = [*prompt[: CHANCE.randrange(len(prompt) + 1)], *ids(CHANCE.randrange(1, 400))]
        prompts[CHANCE.randrange(5)] = prompt
        ends.send(prompt)


def test_hashes_are_those_of_the_whole() -> None:
    sent, prompt = SentPrompts(), ids(9000)
    sent.keep(1, *sent.cut(ids_to_bytes(prompt)))
    sent.prepare(1)
    follow = ids(300)
    for number, later in enumerate(
        [
            prompt,
            [*prompt[:-1], 5],
            # Shorter than what it goes on from, but for the opening of the answer.
            prompt[:8940],
            [*prompt[:8940], *follow],
            # It parts before that.
            [*prompt[:6000], *follow],
            [*prompt[:6000], *follow, *follow],
        ]
    ):
        data = ids_to_bytes(later)
        known, beginning = sent.cut(data)
        sent.keep(10 + number, known, beginning)
        assert beginning is not None and beginning.digest == hashlib.sha256(data).digest()
        assert 5000 * 4 < beginning.length <= len(data)


DATA = ids_to_bytes(ids(4000))
MORE = ids_to_bytes(ids(10))


def digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


@pytest.mark.parametrize(
    "beginning",
    [
        Beginning(2, 16000, digest(DATA, MORE)),
        Beginning(-1, 16000, digest(DATA, MORE)),
        Beginning(1, 16004, digest(DATA, MORE)),
        Beginning(1, -4, digest(DATA[:-4], MORE)),
        Beginning(1, 2**70, digest(DATA, MORE)),
        Beginning(1, 15996, digest(DATA, MORE)),
        Beginning(1, 16000, b""),
        Beginning(1, 16000, digest(DATA)),
    ],
    ids=["unknown", "negative", "too long", "backwards", "huge", "another length", "no hash", "another hash"],
)
def test_a_beginning_that_is_not_there_is_told(beginning: Beginning) -> None:
    kept = PromptMemory()
    kept.join(1, None, DATA)
    assert kept.join(5, beginning, MORE) is None
    # It did no harm.
    assert kept.join(6, Beginning(1, 16000, digest(DATA, MORE)), MORE) == DATA + MORE


def test_no_prompt_grows_without_end() -> None:
    kept, more = PromptMemory(), bytes(KEPT_BYTES // 32)
    assert kept.join(0, None, more) is not None
    lengths = []
    for number in range(1, 30):
        grown = bytes(len(more) * (number + 1))
        joined = kept.join(number, Beginning(number - 1, len(grown) - len(more), digest(grown)), more)
        lengths.append(0 if joined is None else len(joined))
    # The last that is joined is too long to be gone on from.
    assert lengths[:4] == [len(more) * count for count in (2, 3, 4, 5)] and not any(lengths[4:])
    assert len(kept) == 0
