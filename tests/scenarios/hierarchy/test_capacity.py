"""What a cache held in each round of a sweep, and what its finding says of that."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from setebench.scenarios.hierarchy.capacity import capacities
from setebench.scenarios.hierarchy.eviction_sets import size_by_curve

from setebench.calibration import Levels
from setebench.results import Outcome
from setebench.stats.estimate import Interval

MIB = 1 << 20
SIZES = [MIB << octave for octave in range(6)]


def swept(*rounds: list[float]) -> Levels:
    return Levels(
        walks={},
        cycles={"l1": 5.0, "l2": 15.0, "l3": 60.0, "memory": 300.0},
        capacity={"l3": Interval(4.0 * MIB, 2.0 * MIB, 8.0 * MIB)},
        sweep={"size_bytes": SIZES, "rounds": list(rounds)},
    )


def test_a_round_ends_where_loads_cost_half_of_what_is_behind() -> None:
    quiet, busy = [15.0, 60.0, 60.0, 60.0, 300.0, 300.0], [15.0, 60.0, 300.0, 300.0, 300.0, math.nan]
    assert capacities(swept(quiet, busy), "l3") == pytest.approx([8 * MIB * 2**0.5, 2 * MIB * 2**0.5])


def test_a_round_in_which_a_cache_was_never_outgrown_or_never_there_has_none() -> None:
    assert capacities(swept([15.0] * 6, [300.0] * 6), "l3") == []


@pytest.mark.parametrize(("sizes_end", "low", "high"), [(4, 2, 4), (20, 4, 10)], ids=["below all rounds", "above all"])
def test_the_size_is_a_bound_within_the_range_of_the_rounds(sizes_end: float, low: float, high: float) -> None:
    """Rounds saw 4 MiB; half of where the level's curve ends may be less than all of them, or more."""
    levels = swept([15.0, 60.0, 180.0, 300.0, 300.0, 300.0])
    ends = Interval(sizes_end * MIB, sizes_end * MIB, sizes_end * MIB)
    found = size_by_curve("l3", replace(levels, capacity={"l3": ends}), "its sets are not counted")
    assert (found.outcome, found.value) == (Outcome.AT_LEAST, sizes_end * MIB / 2)
    assert (found.low, found.high) == pytest.approx((low * MIB, high * MIB))
    assert str(found.reason).endswith("rounds saw 4 to 4 MiB")


def test_no_size_of_a_cache_that_was_never_outgrown() -> None:
    assert size_by_curve("l2", swept(), "its sets are not counted").outcome is Outcome.UNRESOLVED
