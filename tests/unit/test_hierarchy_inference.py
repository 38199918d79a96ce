"""What the hierarchy scenario infers from numbers alone: line size, way size, inclusion, second TLBs, what is told."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.hierarchy.capacities import level_within
from setebench.hierarchy.cores import further_cpu
from setebench.hierarchy.faults import Fault
from setebench.hierarchy.findings import fault_finding, transfer_finding, walked_finding
from setebench.hierarchy.first_level import line_from_means
from setebench.hierarchy.inclusion import Costs, told_inclusive
from setebench.hierarchy.outer_levels import way_bytes
from setebench.hierarchy.recency import Passed
from setebench.hierarchy.system import beside, system_says
from setebench.infer.ticks import Estimate
from setebench.machine import Facts
from setebench.measure.page_classes import Classes, agreed
from setebench.results import Finding, Outcome

DISTANCES = [0, 8, 16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize("line", [16, 32, 64, 128, 256])
def test_the_line_ends_where_loads_begin_to_hit(line: int) -> None:
    assert line_from_means(DISTANCES, [300.0 if each < line else 40.0 for each in DISTANCES]) == line


def test_a_line_is_not_told_where_hits_and_misses_are_not_clear() -> None:
    assert line_from_means(DISTANCES, [300, 300, 300, 180, 40, 40, 40, 40]) is None
    assert line_from_means(DISTANCES, [300, 300, 40, 300, 40, 40, 40, 40]) is None
    assert line_from_means(DISTANCES, [40.0] * 8) is None


# -- size of the second cache ---------------------------------------------------------------------------------------


def test_page_classes_near_a_power_of_two_give_the_size() -> None:
    assert way_bytes(Classes(14.9, 12.0, 18.9)) == 16 * 4096
    assert way_bytes(Classes(8.4, 7.0, 10.1)) == 8 * 4096


@pytest.mark.parametrize(
    "classes",
    [
        Classes(11.6, 10.0, 13.0),  # between 8 and 16
        Classes(27.5, 16.8, 71.2),  # 32 and 64 would both do
        Classes(18.5, 17.9, 19.5),  # surely more than 16
        None,  # not counted
    ],
)
def test_other_numbers_of_sets_are_not_told(classes: Classes | None) -> None:
    assert way_bytes(classes) is None


def around(value: float) -> Classes:
    return Classes(value, 0.8 * value, 1.2 * value)


@pytest.mark.parametrize(
    ("pages", "lines", "told"),
    [
        (15.0, 17.0, 17.0),  # plain
        (38.0, 16.0, 16.0),  # plain, and lines of pages that stay in the first cache
        (15.0, 1024.0, 16.0),  # hashed
        (16.0, 512.0, None),  # hashed, and a prefetcher that brings pairs
        (38.0, 1024.0, None),  # hashed, and lines of pages that stay in the first cache; or a prefetcher
        (16.0, 128.0, None),  # neither as it is nor hashed in full
    ],
)
def test_pages_and_lines_must_agree(pages: float, lines: float, told: float | None) -> None:
    found = agreed(around(pages), around(lines), 64)
    assert (found.value if found else None) == told
    assert agreed(None, around(lines), 64) is None


# -- inclusion --------------------------------------------------------------------------------------------------------


def costs(used: float, alone: float, kept: float, noise: float = 0.05) -> Costs:
    rng = np.random.default_rng(5)

    def batches(mean: float) -> NDArray[np.float64]:
        return mean + noise * rng.standard_normal(10)

    return Costs(batches(used), batches(alone), batches(kept))


FOREIGN = costs(160.0, 14.0, 4.0)


def test_a_line_evicted_although_used_is_inclusion() -> None:
    assert told_inclusive(costs(220.0, 46.0, 4.0), FOREIGN, 40)[0] is True


def test_a_line_that_stays_while_one_left_alone_goes_is_none() -> None:
    assert told_inclusive(costs(160.0, 46.0, 4.0), FOREIGN, 40)[0] is False


def test_no_pressure_no_answer() -> None:
    """Lines that evict nothing can't show that a line stays: with random replacement that was once told as absence."""
    assert told_inclusive(costs(160.0, 14.0, 4.0), FOREIGN, 40)[0] is None


def test_a_first_cache_that_gives_up_used_lines_answers_nothing() -> None:
    answer, reason = told_inclusive(costs(260.0, 46.0, 4.0), costs(240.0, 14.0, 4.0), 40)
    assert answer is None
    assert "random" in reason


# -- other cores ------------------------------------------------------------------------------------------------------


def test_a_line_with_two_pasts_is_not_told() -> None:
    steady = Estimate(100.0, 99.5, 100.5)
    assert transfer_finding("x", steady, 1.0, 0.0).outcome is Outcome.MEASURED
    assert transfer_finding("x", steady, 1.0, -200.0).outcome is Outcome.UNRESOLVED
    assert transfer_finding("x", steady, 0.4, 0.0).outcome is Outcome.UNRESOLVED
    assert transfer_finding("x", Estimate(100.0, 60.0, 140.0), 1.0, 0.0).outcome is Outcome.UNRESOLVED


def test_a_walk_that_lost_too_little_or_too_much_tells_nothing_of_other_cores() -> None:
    cycles = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
    for answer in (15.0, 290.0):
        finding = walked_finding("x", Estimate(answer, answer - 1, answer + 1), cycles)
        assert finding is not None
        assert finding.outcome is Outcome.UNRESOLVED
    assert walked_finding("x", Estimate(46.0, 45.0, 47.0), cycles) is None
    assert walked_finding("x", Estimate(290.0, 289.0, 291.0), {"l1": 4.0, "l2": 14.0, "memory": 300.0}) is None


def test_the_cpu_that_shares_a_line_is_never_nearer_than_its_owner() -> None:
    """The nearest holder delivers, so a nearer one would be measured in the owner's place."""
    cycles = {(0, 1): 100.0, (0, 2): 120.0, (0, 3): 140.0}
    assert [further_cpu(cycles, 0, owner) for owner in (1, 2, 3)] == [3, 3, None]
    assert further_cpu({(0, 1): 100.0}, 0, 1) is None


def test_first_touches_that_differ_much_are_no_measurement() -> None:
    assert fault_finding("2m", Fault(Estimate(8e5, -3e6, 7e6))).outcome is Outcome.UNRESOLVED
    assert fault_finding("4k", Fault(Estimate(2000.0, 1950.0, 2050.0))).outcome is Outcome.MEASURED


# -- what the system says ---------------------------------------------------------------------------------------------


def test_what_the_system_says_is_shown_where_it_differs() -> None:
    ways = Finding(parameter="cache.l1.ways", value=12, unit="ways")
    assert beside(ways, {"cache.l1.ways": 12}).reason is None
    assert beside(ways, {"cache.l1.ways": 8}).reason == "the operating system says 8"
    assert beside(ways, {"cache.l1.ways": 8}).value == 12


def test_the_system_says_nothing_of_other_machines() -> None:
    facts = Facts(name="x", kind="sim", cpus=(0,), siblings=((0,),), ticks_per_second=1e9)
    assert system_says(facts) == {}


@pytest.mark.parametrize(("answers_cycles", "seen"), [(50.0, True), (16.0, False)])
def test_a_second_level_that_answers_too_slowly_is_a_third_one(answers_cycles: float, seen: bool) -> None:
    """Where the search for levels lost the third cache to a noisy neighbour, 3.4 MiB were told as the second one's."""
    rng = np.random.default_rng(1)
    distance = rng.uniform(0.0, 120_000.0, 4000)
    cycles = np.where(distance < 60_000, answers_cycles, 520.0) + rng.normal(0.0, 15.0, 4000)
    found = level_within(Passed(distance, cycles), 60_000.0, 15.0, 520.0)
    assert (found is not None) is seen
    assert found is None or found == pytest.approx(answers_cycles, rel=0.1)
