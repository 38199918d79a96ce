"""Ports of simulated machines: which time a request gets, and how far it walks for it. As plain Python, uncompiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.sim.kernel import basics
from setebench.sim.layout import (
    NEVER,
    PORT_FACTOR,
    PORT_FULL_FROM,
    PORT_FULL_TO,
    PORT_SHIFT,
    PORT_SLOTS,
    PORT_WALKED,
    PORT_WORDS,
)

INTERVAL = 10
BEGIN = 1_000_000
divide_by = basics._divide_by
Reserve = Callable[["Words", int], int]


class Words(list[int]):
    """A calendar that counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__([0] * PORT_WORDS)
        self.looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


@pytest.fixture(scope="module")
def reserve() -> Reserve:
    """`basics.reserve` and what it calls, without a compiler."""
    return lambda words, t: basics.reserve(words, 0, t, INTERVAL)


def forget(words: Words) -> None:
    words[PORT_FULL_FROM] = words[PORT_FULL_TO] = words[PORT_WALKED] = 0


@given(st.lists(st.tuples(st.integers(-300, 3 * PORT_SLOTS), st.integers(1, 60)), min_size=1, max_size=15))
def test_a_stretch_known_to_be_full_saves_walking_and_changes_no_time(
    reserve: Reserve, bursts: list[tuple[int, int]]
) -> None:
    """Bursts of requests, each behind the one before or up to 300 units of time back, held against a calendar that
    keeps no stretch."""
    knowing, ignorant = Words(), Words()
    t = BEGIN
    for step, requests in bursts:
        t += step
        for number in range(requests):
            forget(ignorant)
            assert reserve(knowing, t + 3 * number) == reserve(ignorant, t + 3 * number)


def test_requests_behind_a_long_queue_of_the_past_do_not_walk_past_each_other(reserve: Reserve) -> None:
    """The queue of a burst that is over was once kept as the stretch worth knowing, and each request of the next
    burst walked past all before it."""
    words = Words()
    for number in range(1500):
        reserve(words, BEGIN + 2 * number)
    later = BEGIN + 1600 * INTERVAL
    words.looks = 0
    for number in range(400):
        reserve(words, later + 2 * number)
    assert words.looks / 400 < 30


@given(st.integers(1, 1 << 40), st.integers(0, NEVER - 1), st.integers(-1, 1))
def test_a_port_divides_exactly(interval: int, time: int, beside: int) -> None:
    port = [0] * PORT_WORDS
    divide_by(port, 0, interval)
    nearby = min(max(time // interval * interval + beside, 0), NEVER - 1)
    for t in (time, nearby):
        factor = port[PORT_FACTOR] % (1 << 64)
        assert ((t << 1) * factor >> 64) >> port[PORT_SHIFT] == t // interval
