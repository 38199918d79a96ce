"""Ways from how many lines an empty cache keeps: caches as sets that take what comes until they are full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from setebench.infer.filling import Filling, lost_share, told, whitening

HIT, MISS, FIRST = 14.0, 46.0, 256
PAGE_LINES = 64
LOADS, FILLINGS = 60000, 50
"""Loads timed at every stop that tell hit from miss no better than by one standard deviation."""


def kept(sets: int, ways: int, lines: int, hashed: bool, rng: np.random.Generator) -> float:
    """Share of lines of random pages that an empty cache keeps."""
    if hashed:
        index = rng.integers(0, sets, lines)
    else:
        classes = sets // PAGE_LINES
        begin = rng.integers(0, classes, lines // PAGE_LINES) * PAGE_LINES
        index = (begin[:, None] + np.arange(PAGE_LINES)[None, :]).ravel()
    got = np.bincount(index, minlength=sets)
    return float(np.minimum(got, ways).sum() / got.sum())


def measured(
    sets: int, ways: int, hashed: bool, taken: float = 0.0, offset: float = 0.0, loads: int = LOADS
) -> Filling:
    """What a machine of these sets and ways would tell; `taken` is the share of its lines that others bring in
    addition, `offset` a systematic error of all loads in cycles."""
    rng = np.random.default_rng(loads)
    room, latest = sets * ways, 2 * FIRST
    lines = np.arange(0.35, 1.8, 0.05) * room // PAGE_LINES * PAGE_LINES
    lines = lines[lines > 1.5 * latest]
    fillings = []
    for _ in range(FILLINGS):
        share = np.array([1.0 - kept(sets, ways, int(count * (1 + taken)), hashed, rng) for count in lines.tolist()])
        noise = rng.normal(0, (MISS - HIT) / (loads / FILLINGS) ** 0.5, len(lines))
        fillings.append(HIT + offset + (MISS - HIT) * np.minimum(1.0, share * lines / (lines - latest)) + noise)
    cycles = np.array(fillings)
    return Filling(lines, cycles.mean(axis=0), whitening(cycles), latest, PAGE_LINES)


@pytest.mark.parametrize(("sets", "ways"), [(2048, 4), (2048, 8), (1024, 10), (1024, 16)])
@pytest.mark.parametrize(("hashed", "taken"), [(False, 0.05), (True, 0.0)])
def test_ways_of_a_cache_of_known_size(sets: int, ways: int, hashed: bool, taken: float) -> None:
    found = told(measured(sets, ways, hashed, taken, 0.5), sets * ways, HIT, MISS, FIRST)
    assert found.ways == ways


@pytest.mark.parametrize("loads", [500, 2000, 5000, 10000])
@pytest.mark.parametrize(("sets", "ways"), [(1024, 4), (1024, 16)])
def test_too_few_loads_tell_no_ways(loads: int, sets: int, ways: int) -> None:
    found = told(measured(sets, ways, True, loads=loads), sets * ways, HIT, MISS, FIRST)
    assert found.ways in (ways, None)
    assert found.ways is None or loads > 2000
    assert found.reason or found.ways


def test_a_size_that_the_ways_don_t_go_with_tells_none() -> None:
    """12 ways make no power of two of sets of this size."""
    found = told(measured(1024, 12, hashed=True), 14336, HIT, MISS, FIRST)
    assert found.ways is None


def test_a_curve_of_no_cache_tells_nothing() -> None:
    one = measured(1024, 8, hashed=True)
    straight = replace(one, cycles=np.linspace(HIT, MISS, len(one.lines)))
    assert told(straight, 8192, HIT, MISS, FIRST).ways is None


def test_errors_that_hang_together_are_not_taken_for_independent_ones() -> None:
    rng = np.random.default_rng(8)
    alone = rng.normal(0, 1.0, (100, 20))
    together = alone + 3.0 * rng.normal(0, 1.0, (100, 1)) * np.ones((1, 20))
    shift = np.ones(20)
    assert ((whitening(alone) @ shift) ** 2).sum() == pytest.approx(20 * 100, rel=0.4)
    assert ((whitening(together) @ shift) ** 2).sum() == pytest.approx(100 / 9, rel=0.5)


def test_lost_shares_are_those_of_sets_that_fill() -> None:
    rng = np.random.default_rng(7)
    for hashed in (False, True):
        share = np.mean([1.0 - kept(512, 8, 4096, hashed, rng) for _ in range(400)])
        foretold = lost_share(np.array([4096.0]), 512, 8, None if hashed else PAGE_LINES)
        assert foretold[0] == pytest.approx(share, rel=0.02)
