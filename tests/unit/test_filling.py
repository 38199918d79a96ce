"""Ways from how many lines an empty cache keeps: caches as sets that take what comes until they are full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from setebench.infer.filling import Filling, Holding, _all_explained, lost_share, sizes_told, told, whitening

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


@pytest.mark.parametrize(("sets", "ways"), [(1024, 8), (1024, 12)])
@pytest.mark.parametrize(("hashed", "taken"), [(False, 0.05), (True, 0.0)])
def test_one_size_of_known_ways_goes_with_a_filling(sets: int, ways: int, hashed: bool, taken: float) -> None:
    size = sets * ways
    sizes = [Holding(size * number // 8, 0.0) for number in (5, 6, 7, 8, 10, 12)]
    found = measured(sets, ways, hashed, taken, 0.5, loads=5000)
    assert sizes_told(found, ways, sizes, HIT, MISS, (True,)) == [size]
    assert sizes_told(found, ways // 4, sizes, HIT, MISS, (True,)) == []


def test_lines_that_the_cache_before_holds_alone_take_no_room() -> None:
    own = measured(1024, 8, True)
    later = replace(own, lines=own.lines + 4 * FIRST, latest=own.latest + 4 * FIRST)
    assert sizes_told(later, 8, [Holding(each, 4.0 * FIRST) for each in (7168, 8192)], HIT, MISS, (True,)) == [8192]


def kept_of_early(sets: int, ways: int, lines: int, latest: int, rng: np.random.Generator) -> float:
    """Of all lines the share that an empty cache loses of those before the `latest`, replacing any line alike."""
    held = np.full((sets, ways), -1)
    used = np.zeros(sets, dtype=np.int64)
    for number, own in enumerate(rng.integers(0, sets, lines).tolist()):
        way = used[own] if used[own] < ways else rng.integers(ways)
        held[own, way] = number
        used[own] = min(used[own] + 1, ways)
    early = lines - latest
    return (early - int(((held >= 0) & (held < early)).sum())) / lines


@pytest.mark.parametrize("latest", [500, 2000])
def test_latest_lines_that_are_lost_are_not_counted(latest: int) -> None:
    rng = np.random.default_rng(3)
    share = np.mean([kept_of_early(512, 8, 5000, latest, rng) for _ in range(6)])
    foretold = lost_share(np.array([5000.0]), 512, 8, None, np.array([float(latest)]))
    assert foretold[0] == pytest.approx(share, abs=0.006)


def test_a_room_between_those_of_two_sizes_goes_with_the_one_that_explains_the_curve_nearly_as_well() -> None:
    """Few fillings err by some hundredths, so the best room may be one that no cache leaves."""
    own = measured(1024, 8, True, loads=1500)
    best = min(_all_explained(own, 8, 8192, HIT, MISS, 0.0, alike=True), key=lambda each: each.left).room
    sizes = [Holding(round(best / 1.075), 0.0), Holding(round(best / 0.7), 0.0)]
    assert sizes_told(own, 8, sizes, HIT, MISS, (True,)) == [sizes[0].lines]
