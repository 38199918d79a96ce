"""Lines brought to a second level that no working set of a sweep shows alone, on quiet machines of known latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import L1, L2, L3, MEMORY, OVERHEAD, quiet

from setebench.calibration import Walk
from setebench.machine import Region
from setebench.measure.candidates import Candidate, last_level, steadiest
from setebench.measure.placing import Place
from setebench.measure.timed import Timed
from setebench.measure.walks import FIRST_RATIO, LevelSearch, MemoryLoads, turns
from setebench.scenario import Context
from setebench.sim import spec

KIB = 1024
COARSE = spec.Clock(step_ticks=24.0, brackets={"lfence": OVERHEAD, "mfence": OVERHEAD, "cpuid": OVERHEAD})
TIGHT = {"l1": {"ways": 10}, "l2": {"sets": 512, "ways": 4}}
"""40 KiB before 128 KiB of four ways: a working set that overflows the first already overflows sets of the second."""


def opened(**changes: Any) -> tuple[Context, Region]:
    machine = quiet(**changes)
    return Context(machine=machine, seed=1, fast=True), machine.allocate(64 << 20, 4096)


def level_search(first_end: float, **changes: Any) -> LevelSearch:
    context, region = opened(**changes)
    return LevelSearch(context, region, first_end, MemoryLoads(MEMORY, MEMORY))


@pytest.mark.parametrize("replacement", ["lru", "random"])
def test_a_second_level_hardly_larger_than_the_first_is_seen(replacement: str) -> None:
    """Also where the clock's step is longer than the way from one level to the next."""
    tight = {name: {**fields, "replacement": replacement} for name, fields in TIGHT.items()}
    candidate = level_search(40 * KIB, clock=COARSE, **tight).first(4.0)
    assert candidate.fastest_cycles == pytest.approx(L2, abs=2.5)
    assert candidate.share > 0.9


def test_the_second_level_is_reported_without_lines_that_a_random_first_level_kept() -> None:
    """Its end samples nearer to a sweep's sparse lines, and the tenth of lines that a short walk over whole pages
    leaves in it hides in the clock's step. Lines take far longer than in the first level all the same."""
    slow = {"latency_cycles": 24.0, "sets": 1024, "ways": 16}
    found = level_search(19 * KIB, clock=COARSE, l1={"replacement": "random"}, l2=slow)
    assert found._candidate(found._walk(0)).fastest_cycles < 23.0
    assert found.first(L1).fastest_cycles == pytest.approx(24.0, abs=1.0)


def survivors(walk: Walk) -> float:
    """Share of lines that a first level of 32 KiB, replacing at random, still holds behind a walk."""
    context, region = opened(l1={"replacement": "random"}, l3=None)
    timed = Place(context, region, "walk", walk).time_singles(context, 32)
    return float(np.mean(timed.loads - OVERHEAD <= L1))


def test_a_walk_goes_round_until_random_replacement_keeps_next_to_nothing() -> None:
    assert survivors(Walk(FIRST_RATIO * 32 * KIB, 1, repeated=True)) > 0.2
    assert survivors(Walk(FIRST_RATIO * 32 * KIB, turns(FIRST_RATIO), repeated=True)) < 0.04


def test_chains_are_made_of_lines_that_a_level_of_few_ways_holds() -> None:
    """Of 128 KiB in four ways a walk of 64 KiB fills some sets, and the lines of the pages that fall there are lost."""
    context, region = opened(**TIGHT, l3=None)
    place = Place(context, region, "l2", Walk(64 * KIB, 2, repeated=True))
    first = place.time_singles(context, 32)
    pages, chained = len(place.targets), sum(place.chain_lengths)
    lost = first.loads > OVERHEAD + L2
    assert 0.05 < lost.mean() < 0.4
    place.prefer(context, first)
    again = place.time_singles(context, 32)
    in_chains = again.line % pages < chained
    assert (again.loads[in_chains] > OVERHEAD + L2).mean() < 0.2 * lost.mean()


def test_a_third_level_is_seen_behind_a_second() -> None:
    climbed = level_search(32 * KIB, clock=COARSE).rise()
    third, unclear = last_level(climbed, L2)
    assert third is not None and not unclear
    assert third.cycles == pytest.approx(L3, rel=0.1)


def test_no_third_level_is_made_up_where_there_is_none() -> None:
    climbed = level_search(32 * KIB, clock=COARSE, l3=None).rise()
    assert climbed[-1].share < 0.2
    assert last_level(climbed, L2) == (None, False)


def candidates(*cycles_and_share: tuple[float, float]) -> list[Candidate]:
    return [Candidate(Walk(2.0**n), cycles, share, cycles, []) for n, (cycles, share) in enumerate(cycles_and_share)]


def test_a_walk_that_pushes_lines_out_gives_way_to_a_shorter_one() -> None:
    one = level_search(32 * KIB, clock=COARSE)
    too_long = Walk(7 * 1024 * KIB, 2)
    found = one.least_evicting(too_long, 1024 * KIB, L3)
    assert found is not None
    assert found[0].bytes < too_long.bytes
    assert found[1] == pytest.approx(L3, rel=0.1)


@pytest.mark.parametrize(("lost", "chosen"), [(15.0, 119), (45.0, 79)])
def test_a_longer_walk_counts_only_where_it_costs_the_second_level_no_more_lines(lost: float, chosen: int) -> None:
    """Behind both the fastest lines answer alike; but where most are gone already, other layouts lose those too."""
    found = [Candidate(Walk(size * KIB), mean, 1.0, 15.5, [], 0.4, 0.4) for size, mean in ((79, 15.2), (119, lost))]
    found.append(Candidate(Walk(178 * KIB), 64.0, 1.0, 64.0, [], 0.3))
    assert steadiest(found, 4.0).walk.bytes == chosen * KIB


def test_a_dear_bracket_hides_no_way_from_one_level_to_the_next() -> None:
    """Loads of one level differ by a share of what they take themselves, not of what the bracket takes too."""
    brackets = {"lfence": 70.0, "mfence": 90.0, "cpuid": 200.0}
    clock = spec.Clock(step_ticks=1.0, jitter_cycles=3.6, brackets=brackets)
    outer = {"l2": {"sets": 1024, "ways": 4, "replacement": "random"}, "l3": {"latency_cycles": L2 + 14.0}}
    candidate = level_search(32 * KIB, clock=clock, **outer)._candidate(Walk(200 * KIB, 2, repeated=True))
    assert [group.cycles for group in candidate.groups if group.share > 0.1] == pytest.approx([L2, L2 + 14.0], abs=1.0)


class BesideAnother:
    """A machine on which another guest uses the outer level too: of the lines that a new walk has just brought there,
    most are gone again at first, fewer from time to time, and none once it has been gone round `UNSETTLED` times."""

    UNSETTLED = 9

    def __init__(self, machine: Any) -> None:
        self._machine, self._gone_round = machine, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def link(self, region: Region, addresses: Any) -> None:
        self._gone_round = 0
        self._machine.link(region, addresses)

    def run(self, probe: Any, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        ticks = self._machine.run(probe, placements, cpu=cpu, warmup=warmup)
        number = self._gone_round + warmup + np.arange(len(ticks))
        self._gone_round += warmup + len(ticks)
        lost = np.random.default_rng(number[0]).random(ticks.shape) < 0.8 - 0.8 * (number / self.UNSETTLED)[:, None]
        lost[:, 1::2] = False  # additions
        return ticks + lost * int(MEMORY)


def test_lines_count_once_a_walk_has_been_gone_so_often_that_they_stay() -> None:
    """The first walks bring lines that a shared level never held, and lose most of them."""
    machine: Any = BesideAnother(quiet(clock=COARSE))
    context = Context(machine=machine, seed=1, fast=True)
    region = machine.allocate(64 << 20, 4096)
    candidate = LevelSearch(context, region, 32 * KIB, MemoryLoads(MEMORY, MEMORY))._candidate(
        Walk(1024 * KIB, 1), settle=True
    )
    assert candidate.share > 0.95 and candidate.cycles == pytest.approx(L3, rel=0.15)
    assert candidate.walk.settling >= BesideAnother.UNSETTLED - 1
    again = LevelSearch(context, region, 32 * KIB, MemoryLoads(MEMORY, MEMORY))._candidate(candidate.walk, settle=True)
    assert again.share > 0.95 and again.walk.settling == candidate.walk.settling
    place = Place(context, region, "l3", candidate.walk)
    assert float(np.mean(place.time_singles(context, 4).loads - OVERHEAD < MEMORY)) > 0.95


def test_loads_spread_further_than_additions_by_what_their_lines_differ_by() -> None:
    """Whatever the bracket and the clock add to both."""
    rng = np.random.default_rng(2)
    level = rng.choice([4.0, 11.0], 40_000, p=[0.2, 0.8])
    loads, additions = (
        np.rint(60.0 + own + rng.uniform(-4, 4, len(level))).astype(np.int64) for own in (level, np.full(len(level), 8))
    )
    nothing = np.zeros(len(level), dtype=np.int64)
    timed = Timed(loads, additions, nothing, nothing, 1)
    assert timed.excess_ticks2(loads > 0, 1.0) == pytest.approx(0.2 * 0.8 * 49.0, abs=0.5)
    assert timed.excess_ticks2(level > 4.0, 1.0) == pytest.approx(0.0, abs=0.3)
