"""The second cache's ways by minimal eviction sets, and its size by how many pages are congruent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.eviction_sets import (
    EvictionRound,
    further_findings,
    measure_eviction,
    second_cache_findings,
    size_by_curve,
)

from setebench.calibration import Calibration, Levels
from setebench.experiments.chases import Pool
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.stats.estimate import Interval

LEVELS = Levels(
    cycles={"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0},
    capacity={"l1": Interval(32e3, 32e3, 32e3), "l2": Interval(1e6, 1e6, 1e6)},
)
"""Of the quiet machine, about."""

COARSE = spec.Clock(ticks_per_cycle=0.703, step_ticks=26.0, jitter_cycles=2.0)
BUSY = spec.Noise(interrupt_interval_cycles=3e5)
PREFETCHERS = (spec.LinePair(level=2), spec.NextLine(level=1))


def findings(rounds: list[EvictionRound], end: float = 1e6) -> dict[str, Finding]:
    """What follows where the curve of the second level ends at so many bytes, 0 where it was not outgrown."""
    levels = replace(LEVELS, capacity={"l2": Interval(end, end, end)} if end else {})
    return {each.parameter.removeprefix("cache.l2."): each for each in second_cache_findings(rounds, levels, 64)}


def measured(rounds: int, end: float, **changes: Any) -> dict[str, Finding]:
    cycles = {name: each for name, each in LEVELS.cycles.items() if changes.get(name, True) is not None}
    calibration = Calibration(levels=replace(LEVELS, cycles=cycles), line_bytes=64)
    context = Context(machine=quiet(**changes), calibration=calibration)
    pool = Pool(context, 8192)
    found = findings([measure_eviction(context, pool)[0] for _ in range(rounds)], end)
    pool.close()
    return found


@pytest.mark.parametrize(
    ("sets", "ways", "changes"),
    [
        (256, 8, {"prefetchers": PREFETCHERS, "noise": BUSY}),
        (256, 16, {"l2": {"replacement": "random"}}),
        (512, 8, {"l2": {"inclusion": "exclusive"}, "l1": {"ways": 12, "replacement": "tree_plru"}}),
        (512, 4, {"clock": COARSE}),
    ],
    ids=["prefetchers", "random", "exclusive", "coarse clock"],
)
def test_ways_and_size(sets: int, ways: int, changes: dict[str, Any]) -> None:
    """Of two rounds, which may find one set only: the ways, and a size that is true or a bound."""
    found = measured(
        2, 1.1 * sets * ways * 64, **{**changes, "l2": {**changes.get("l2", {}), "sets": sets, "ways": ways}}
    )
    assert found["ways"].value == ways
    size = found["size"]
    assert size.outcome is Outcome.AT_LEAST or size.value == sets * ways * 64
    assert found["index"].value in ("linear", None)


def test_a_hash_is_reported_as_one_or_nothing_is() -> None:
    found = measured(2, 7e4, l2={"sets": 256, "ways": 4, "hashed_index": True})
    assert found["ways"].value in (4, None)
    assert found["index"].value in ("hashed", None)
    assert (found["size"].value is not None and found["size"].value <= 256 * 4 * 64) or found["size"].value == 3.5e4


def test_lines_that_a_small_pool_lacks_do_not_count_as_tested() -> None:
    """Of 90 pages five or so are congruent: at other offsets more lines are wanted than there are."""
    calibration = Calibration(levels=LEVELS, line_bytes=64)
    context = Context(machine=quiet(l2={"sets": 1024, "ways": 4}), calibration=calibration)
    pool = Pool(context, 90)
    rounds = [measure_eviction(context, pool)[0] for _ in range(6)]
    pool.close()
    assert any(each.elsewhere for each in rounds)
    assert all(each.elsewhere <= each.tested - each.congruent - each.ways for each in rounds if each.ways)


def counted(ways: int, congruent: int, tested: int = 8171, mixed: tuple[int, ...] = (0,) * 6) -> EvictionRound:
    return EvictionRound(ways=ways, pages=8171, tested=tested, congruent=congruent, elsewhere=1600, mixed=mixed)


def test_pages_that_are_congruent_give_the_sets() -> None:
    """Counts of a guest whose second cache has 2 MiB in 16 ways; 240 of 8,171 and the set itself are one in 32."""
    found = findings([counted(16, each) for each in (239, 228, 230, 238, 228, 231)], 1.7e6)
    assert (found["size"].value, found["size"].outcome) == (2 << 20, Outcome.MEASURED)
    few = findings([counted(16, 18, 607)], 0.0)
    assert few["size"].outcome is Outcome.AT_LEAST and few["size"].value <= 2 << 20


def test_bits_of_the_offset_that_a_hash_mixes_leave_more_sets_open() -> None:
    """Counts of a Zen 4 guest, whose second cache has 1 MiB in 8 ways and mixes three of six bits; some tests err."""
    some = [(0, 0, 0, 7, 5, 8), (1, 0, 0, 4, 9, 6), (0, 0, 1, 6, 0, 5)]
    found = findings([counted(8, each, mixed=bits) for each, bits in zip((24, 19, 22), some, strict=True)], 0.0)
    assert (found["size"].value, found["index"].value) == (1 << 20, "hashed")
    unseen = [EvictionRound(ways=8, pages=8171, tested=8171, congruent=24)] * 4
    assert findings(unseen, 0.0)["size"].outcome is Outcome.AT_LEAST


def test_ways_are_what_most_rounds_found_and_of_ties_the_larger() -> None:
    """Others take ways in some rounds and give none in any."""
    found = findings([counted(16, 240), EvictionRound(), counted(14, 230), counted(16, 240)])
    assert (found["ways"].value, found["ways"].outcome) == (16, Outcome.MEASURED)
    found = findings([counted(15, 240), counted(14, 230)])
    assert (found["ways"].value, found["ways"].outcome) == (15, Outcome.AT_LEAST)


def test_what_is_not_measured_of_a_third_cache_says_so() -> None:
    found = {each.parameter: each.outcome for each in further_findings(LEVELS)}
    assert found["cache.l3.ways"] is found["cache.l3.replacement"] is Outcome.UNAVAILABLE


MIB = 1 << 20
SIZES = [MIB << octave for octave in range(6)]


def swept(*rounds: list[float]) -> Levels:
    return Levels(
        cycles={"l1": 5.0, "l2": 15.0, "l3": 60.0, "memory": 300.0},
        capacity={"l3": Interval(4.0 * MIB, 2.0 * MIB, 8.0 * MIB)},
        sweep={"size_bytes": SIZES, "rounds": list(rounds)},
    )


@pytest.mark.parametrize(("sizes_end", "low", "high"), [(4, 2, 4), (20, 4, 10)], ids=["below all rounds", "above all"])
def test_the_size_is_a_bound_within_the_range_of_the_rounds(sizes_end: float, low: float, high: float) -> None:
    """Rounds saw 4 MiB; half of where the level's curve ends may be less than all of them, or more."""
    levels = swept([15.0, 60.0, 180.0, 300.0, 300.0, 300.0])
    ends = Interval(sizes_end * MIB, sizes_end * MIB, sizes_end * MIB)
    found = size_by_curve("l3", replace(levels, capacity={"l3": ends}))
    assert (found.outcome, found.value) == (Outcome.AT_LEAST, sizes_end * MIB / 2)
    assert (found.low, found.high) == pytest.approx((low * MIB, high * MIB))
    assert str(found.reason).endswith("rounds saw 4 to 4 MiB")
    assert size_by_curve("l2", swept()).outcome is Outcome.UNRESOLVED
