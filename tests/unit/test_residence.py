"""Capacities from how long lines of a stream stay, on synthetic loads of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.outer import Outer, by_pages, with_capacity
from setebench.hierarchy.whole_pages import WholePages
from setebench.infer.page_room import Packed
from setebench.infer.residence import (
    Curve,
    Fit,
    Held,
    Known,
    Step,
    agreed,
    curve,
    fit,
    held,
    improved,
    plain_sizes,
    sizes_with_ways,
    survival,
)
from setebench.infer.ticks import Estimate

FIRST, SECOND, THIRD, MEMORY = 4.0, 14.0, 50.0, 400.0
FIRST_LINES = 512


def gone(distance: NDArray[np.float64], lines: int, ways: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whether as many later lines at random sets push a line out: of a set of so many ways that replaces the oldest, or
    (no ways) of a cache that replaces at random."""
    if not ways:
        return rng.random(len(distance)) > np.exp(-distance / lines)
    return rng.poisson(distance * ways / lines) >= ways


def loads(
    second: tuple[int, int], third: tuple[int, int] | None, step: float, samples: int = 12000
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distances and cycles as a clock of steps of so many cycles tells them, dithered; levels as (lines, ways)."""
    rng = np.random.default_rng(5)
    distance = np.exp(rng.uniform(np.log(64), np.log(2e5), samples))
    cycles = np.where(gone(distance, FIRST_LINES, 8, rng), SECOND, FIRST)
    beyond = gone(distance, *second, rng)
    cycles[beyond] = THIRD if third is not None else MEMORY
    if third is not None:
        cycles[beyond & gone(distance, *third, rng)] = MEMORY
    return distance, np.floor(cycles / step + rng.random(samples)) * step


KNOWN = Known(FIRST_LINES, (SECOND - FIRST, THIRD - SECOND))
STARTS = ([float(FIRST_LINES)], [FIRST_LINES * 2.0**n for n in range(1, 8)])


@pytest.mark.parametrize("ways", [4, 8, 20, 0])
@pytest.mark.parametrize("step", [1.0, 37.0])
def test_the_second_capacity_whatever_is_replaced(ways: int, step: float) -> None:
    """Though a third level, of which memory takes more and more, lies behind; on fine and coarse clocks."""
    distance, cycles = loads((16384, ways), (49152, 16), step)
    found = fit(curve(distance, cycles, beyond=200.0), KNOWN, STARTS)
    assert found.steps[1].lines == pytest.approx(16384, rel=0.06)
    assert found.steps[1].height == pytest.approx(THIRD - SECOND, rel=0.15)


@pytest.mark.parametrize("ways", [16, 0])
def test_the_third_capacity(ways: int) -> None:
    distance, cycles = loads((4096, 8), (40000, ways), 20.0)
    known = Known(FIRST_LINES, (*KNOWN.heights, MEMORY - THIRD))
    starts = ([float(FIRST_LINES)], [4096.0], [8192.0 * 2.0**n for n in range(5)])
    assert fit(curve(distance, cycles), known, starts).steps[2].lines == pytest.approx(40000, rel=0.06)


def test_lines_stay_as_long_as_the_capacity_on_average() -> None:
    """Little's law, for every shape of the model."""
    distance = np.arange(0.5, 40000.0)
    for share in survival(distance, np.full(4, 1000.0), np.array([1, 3, 24, 40])):
        assert share.sum() == pytest.approx(1000.0, rel=1e-3)


def test_a_level_beyond_does_not_count() -> None:
    found: Curve = curve(np.full(100, 10.0), np.tile([10.0, 500.0], 50), beyond=200.0)
    assert found.share.tolist() == [0.5]
    assert found.cycles.tolist() == [5.0]


def estimate(value: float, share: float = 0.04) -> Estimate:
    return Estimate(value, value * (1 - share), value * (1 + share))


def test_walks_that_disagree_tell_a_bound_only() -> None:
    quick, slow = Held(estimate(10000), True, 8), Held(estimate(7000), True, 8)
    found = agreed([slow, quick], 2)
    assert found is not None
    assert not found.steady
    assert found.lines == quick.lines
    assert agreed([], 2) is None
    missing = agreed([quick], 2)
    assert missing is not None
    assert not missing.steady
    assert not missing.blunt


def test_blunt_walks_leave_all_that_any_of_them_leaves() -> None:
    walks = [Held(estimate(lines), True, 1) for lines in (6400, 7000, 6600)]
    found = agreed(walks, 3)
    assert found is not None and found.blunt and not found.steady
    assert found.lines.low < 6200 < 7300 < found.lines.high
    apart = agreed([Held(estimate(lines), True, 1) for lines in (5000, 7000, 6600)], 3)
    assert apart is not None and not apart.blunt


def test_no_size_that_is_less_than_pages_that_stay() -> None:
    """Where a stream lost lines to somebody else, its size of known ways may be half of what there is."""
    stream = Held(estimate(264 << 4, 0.05), False, 1)
    pages = WholePages((Packed(105, 0.0, 1.0, 5.0),), 8.0, all_levels=True, ways=8)
    told = by_pages(UNKNOWN, pages, stream, [0.0], 64).geometry
    assert told.size is None and told.least_bytes == (105 - 8) * 4096
    fewer = WholePages((Packed(60, 0.0, 1.0, 5.0),), 8.0, all_levels=True, ways=8)
    assert by_pages(UNKNOWN, fewer, stream, [0.0], 64).geometry.size == 262144


@pytest.mark.parametrize("ways", [None, 8])
def test_beside_a_tenant_of_the_core_there_is_no_size(ways: int | None) -> None:
    """He took half of 1 MiB while a stream was looked at, and while pages were."""
    half = Held(estimate(8192), True, 8, tenant=True)
    outer = Outer(Geometry(ways, None, "no classes"), "eviction sets")
    pages = WholePages((Packed(128, 0.0, 1.0, 5.0),), 8.0, all_levels=True, ways=8)
    for found in (with_capacity(outer, half, [0.0], 64), by_pages(outer, pages, half, [0.0], 64)):
        assert found.geometry.size is None and found.geometry.most_bytes is None
        assert found.geometry.least_bytes == int(8192 * 0.96 * 64)


def test_walks_that_agree_tell_a_size_unless_the_step_is_blunt() -> None:
    sharp, blunt = ([held(10000.0, shape, [9800.0, 10200.0])] * 3 for shape in (8, 1))
    for walks, steady in ((sharp, True), (blunt, False)):
        found = agreed(walks, 3)
        assert found is not None
        assert found.steady == steady
        assert found.blunt != steady
        assert found.lines.low < 9500 < 10500 < found.lines.high


def test_sizes_that_caches_have() -> None:
    assert plain_sizes(0.95 * 2**20, 1.1 * 2**20) == {2**20}
    assert plain_sizes(1.02 * 2**20, 1.2 * 2**20) == set()
    assert plain_sizes(1.2 * 2**20, 1.6 * 2**20) == {5 << 18, 6 << 18}
    assert sizes_with_ways(0.9 * 2**20, 1.4 * 2**20, 20, 64) == {20 * 1024 * 64}


UNKNOWN = Outer(Geometry(None, None, "no sets"), "eviction sets")


def told(lines: Estimate, steady: bool, before: list[float], ways: int | None = None) -> Geometry:
    outer = Outer(Geometry(ways, None, "no classes"), "eviction sets")
    return with_capacity(outer, Held(lines, steady, 8), before, 64).geometry


def test_a_size_is_told_where_one_only_is_possible() -> None:
    assert told(estimate(16384), True, [0, 32768]).size == 2**20
    ambiguous = told(estimate(4096, 0.1), True, [0, 32768])
    assert ambiguous.size is None
    assert ambiguous.least_bytes == int(4096 * 0.9 * 64 - 32768)


def test_lost_room_is_a_bound_unless_the_ways_are_known() -> None:
    """Here a quarter of a cache of 16 ways and 1 MiB."""
    unknown = told(estimate(12500), False, [0, 32768])
    assert unknown.size is None
    assert unknown.least_bytes is not None
    assert unknown.most_bytes is not None
    assert unknown.least_bytes < 2**20 < unknown.most_bytes
    assert told(estimate(12500), False, [0, 32768], ways=16).size == 2**20


def test_what_is_no_number_ends_the_search() -> None:
    """It went on for ever."""
    distance, cycles = loads((16384, 8), (49152, 16), 1.0)
    measured = curve(distance, cycles, beyond=200.0)
    measured.cycles[3] = np.nan
    begin = Fit((Step(256.0, 2, 10.0), Step(10000.0, 2, 30.0)), 60.0, 1.0)
    assert np.isnan(improved(measured, KNOWN, begin).misfit)
