"""Where requests go: conversations stay together, new ones are dealt out evenly, nothing is asked of what is down."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepinfer.backends.remote.routing import Router
from deepinfer.cache.prefix import PrefixCache

IDLE = [0] * 8


def tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(129280) for _ in range(count)]


def router(count: int = 8, *, load_cap: float = 2.0) -> Router:
    return Router(count, load_cap=load_cap)


class Agent:
    """A conversation: each prompt holds the one before, less the tokens that opened the answer, and something new."""

    def __init__(self, rng: random.Random, shared: Sequence[int], first: int) -> None:
        self._rng = rng
        self._history = [*shared, *tokens(rng, first)]

    def prompt(self) -> list[int]:
        return [*self._history, 1, 2]

    def go_on(self) -> None:
        self._history += tokens(self._rng, self._rng.randrange(20, 400))


def test_a_conversation_stays_where_it_began() -> None:
    rng = random.Random(1)
    dealer = router()
    for _ in range(20):
        agent = Agent(rng, [], 30)
        home = dealer.choose(agent.prompt(), IDLE)
        for _ in range(5):
            agent.go_on()
            assert dealer.choose(agent.prompt(), IDLE) == home


@pytest.mark.parametrize("first", [5, 12, 40, 300])
def test_conversations_that_begin_alike_are_dealt_out(first: int) -> None:
    rng = random.Random(2)
    dealer = router()
    shared = tokens(rng, 3001)
    homes = [dealer.choose(Agent(rng, shared, first).prompt(), IDLE) for _ in range(80)]
    assert [homes.count(place) for place in range(8)] == [10] * 8


def test_history_that_was_written_anew_is_the_same_conversation() -> None:
    rng = random.Random(3)
    dealer = router()
    first = tokens(rng, 777)
    home = dealer.choose(first, IDLE)
    longer = [*first, *tokens(rng, 900)]
    assert dealer.choose(longer, IDLE) == home
    # Its thinking was taken out.
    for _ in range(8):
        dealer.choose(tokens(rng, 500), IDLE)
    assert dealer.choose([*longer[:800], *tokens(rng, 300)], IDLE) == home


def test_interleaved_agents_lose_few_cached_tokens() -> None:
    """Eight upstreams and 200 agents keep at least 95 % of what one upstream with endless memory would have cached."""
    rng = random.Random(4)
    dealer = router()
    shared = [tokens(rng, 2500) for _ in range(3)]
    agents = [Agent(rng, rng.choice(shared), rng.randrange(8, 200)) for _ in range(200)]
    caches: list[PrefixCache[None]] = [PrefixCache(10_000) for _ in IDLE]
    ideal: PrefixCache[None] = PrefixCache(10_000)
    loads = [0] * 8
    running: list[int] = []
    cached = possible = 0
    for _ in range(1200):
        agent = rng.choice(agents)
        prompt = agent.prompt()
        place = dealer.choose(prompt, loads)
        assert place is not None
        cached += caches[place].match(prompt)[0]
        possible += ideal.match(prompt)[0]
        caches[place].keep(prompt, None)
        ideal.keep(prompt, None)
        agent.go_on()
        # Up to 64 run at a time, and end in any order.
        loads[place] += 1
        running.append(place)
        if len(running) > 64:
            loads[running.pop(rng.randrange(len(running)))] -= 1
    assert cached / possible >= 0.95


def test_a_lost_upstream_moves_its_own_conversations_only() -> None:
    rng = random.Random(5)
    dealer = router()
    shared = tokens(rng, 2000)
    agents = [Agent(rng, shared, 50) for _ in range(200)]
    homes = [dealer.choose(agent.prompt(), IDLE) for agent in agents]
    lost: list[int | None] = [None if place == 3 else 0 for place in range(8)]
    for agent in agents:
        agent.go_on()
    moved = [dealer.choose(agent.prompt(), lost) for agent in agents]
    changes = [(before, after) for before, after in zip(homes, moved, strict=True) if before != after]
    assert {before for before, _ in changes} == {3}
    assert len(changes) <= len(agents) / 8
    assert 3 not in moved
    # They stay where they went when it is back.
    for agent in agents:
        agent.go_on()
    assert [dealer.choose(agent.prompt(), IDLE) for agent in agents] == moved


def test_an_upstream_with_too_much_to_do_gets_no_more() -> None:
    rng = random.Random(6)
    dealer = router(4)
    prompt = tokens(rng, 200)
    home = dealer.choose(prompt, [0] * 4)
    assert home is not None
    busy = [10] * 4
    busy[home] = 15
    assert dealer.choose(prompt, busy) == home
    busy[home] = 60
    assert dealer.choose(prompt, busy) != home


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loads=st.lists(st.one_of(st.none(), st.integers(0, 500)), min_size=1, max_size=9),
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=20),
)
def test_what_is_down_is_never_chosen_and_something_is_if_it_can_be(
    seed: int, loads: list[int | None], lengths: list[int]
) -> None:
    rng = random.Random(seed)
    dealer = router(len(loads), load_cap=1.0)
    for length in lengths:
        place = dealer.choose(tokens(rng, length), loads)
        if all(load is None for load in loads):
            assert place is None
        else:
            assert place is not None and loads[place] is not None


def prompts_without_end() -> Iterator[list[int]]:
    rng = random.Random(7)
    while True:
        yield tokens(rng, 640)


def test_memory_is_bounded() -> None:
    dealer = Router(3, load_cap=2.0, max_marks=500, max_conversations=50)
    endless = prompts_without_end()
    for _ in range(1000):
        dealer.choose(next(endless), [0, 0, 0])
    assert len(dealer._young) + len(dealer._old) <= 2 * (500 + 30)
    assert len(dealer._conversations) == sum(dealer._homes) == 50
