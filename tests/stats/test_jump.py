"""Jumps of a time, on curves made up with the noise of a coarse clock."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.stats.jump import Curve, Found, SearchParams, search
from setebench.stats.threshold import over_epochs

UNIT, STEP, SETS_OUT = 400.0, 37.0, 3.0
"""What a request takes, the clock's step, and after how long the next one sets out."""

SEARCH = SearchParams(most=120)


def read(times: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Times as a dithered clock shows them."""
    read: NDArray[np.float64] = np.floor((times + rng.random(times.shape) * STEP) / STEP) * STEP
    return read


def queue(entries: int, number: int, rng: np.random.Generator, noise: float = 15.0) -> NDArray[np.float64]:
    """Eight times of so many requests of which `entries` are in flight at once; some disturbed, some rounds as well."""
    waves, rest = divmod(number - 1, entries)
    times = UNIT * (waves + 1) + SETS_OUT * rest + rng.normal(0, noise, 8)
    times[rng.random(8) < 0.1] += rng.exponential(2000)
    return read(times + (rng.exponential(300) if rng.random() < 0.05 else 0.0), rng)


def searched(entries: int, seed: int, noise: float = 15.0) -> tuple[Curve, Found]:
    rng = np.random.default_rng(seed)
    curve = Curve(1, 256, UNIT, rng)
    return curve, search(lambda number: queue(entries, number, rng, noise), curve, SEARCH)


@pytest.mark.parametrize(("entries", "noise"), [*((n, 15.0) for n in (1, 3, 10, 64)), (2, 60.0), (24, 60.0)])
def test_the_last_number_before_the_jump_is_found(entries: int, noise: float) -> None:
    found = [searched(entries, seed, noise) for seed in range(8)]
    right = [
        (curve, each) for curve, each in found if each.posterior.value == entries and each.posterior.certainty > 0.95
    ]
    assert len(right) >= 7
    assert all(each.questions < 110 and 0.2 * UNIT < curve.height < 1.5 * UNIT for curve, each in right)


@pytest.mark.parametrize("entries", [10, 20])
def test_a_latency_with_a_long_tail_gives_no_wrong_number(entries: int) -> None:
    """One request in ten takes up to twice as long, so most bursts of 20 do."""

    def broad(number: int, rng: np.random.Generator) -> NDArray[np.float64]:
        times = SETS_OUT * ((number - 1) % entries) * np.ones(8)
        for begun in range(0, number, entries):
            own = rng.normal(UNIT, 15, (8, min(entries, number - begun)))
            times += (own + np.where(rng.random(own.shape) < 0.1, rng.exponential(UNIT / 2, own.shape), 0)).max(axis=1)
        return read(times, rng)

    right = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = search(partial(broad, rng=rng), Curve(1, 256, UNIT, rng), SEARCH)
        certain = found.posterior.none < 0.5 and found.posterior.certainty > 0.95
        assert not certain or found.posterior.value == entries
        right += certain
    assert right >= 7


@pytest.mark.parametrize("each", [4.0, 12.0, 40.0])
def test_a_limit_of_the_rate_is_a_slope_and_no_jump(each: float) -> None:
    rng = np.random.default_rng(int(each))
    curve = Curve(1, 256, UNIT, rng)
    found = search(lambda n: read(UNIT + each * (n - 1) + rng.normal(0, 15, 8), rng), curve, SEARCH)
    assert found.decided and found.posterior.none > 0.95


def test_a_steep_slope_is_never_reported_as_a_jump() -> None:
    rng = np.random.default_rng(7)
    curve = Curve(1, 256, UNIT, rng)
    found = search(lambda n: read(UNIT + 100.0 * (n - 1) + rng.normal(0, 15, 8), rng), curve, SEARCH)
    assert found.posterior.certainty < 0.9


def test_places_that_differ_from_round_to_round_are_left_open() -> None:
    rng = np.random.default_rng(5)
    curve = Curve(1, 256, UNIT, rng)
    found = search(lambda number: queue(int(rng.integers(18, 23)), number, rng), curve, SEARCH)
    low, high = found.posterior.interval(0.95)
    assert not found.decided or found.posterior.none > 0.95 or low < high or 18 <= found.posterior.value <= 22


def test_a_later_epoch_asks_only_around_the_jump_and_sees_entries_that_are_taken() -> None:
    curve, found = searched(20, 1)
    rng = np.random.default_rng(2)
    epochs = [found.posterior]
    for entries in (18, 20):
        later = search(partial(queue, entries, rng=rng), curve.again(), SEARCH)
        assert later.questions < 45 and later.posterior.value == entries
        epochs.append(later.posterior)
    together = over_epochs(epochs)
    assert together.value == 20 and together.certainty > 0.95
