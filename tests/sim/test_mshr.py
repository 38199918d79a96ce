"""The mshr scenario on machines whose queues are known, one of them without any queue but slow memory."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pytest
from setebench.scenarios.mshr.curves import Curves
from setebench.scenarios.mshr.prefetching import UNSTEADY, ask_prefetches
from small_presets import small, small_file
from swept_machines import swept

from setebench import registry
from setebench.experiments.bursts import Bursts
from setebench.experiments.bursts_of_threads import ThreadBursts
from setebench.judge import Judgement, Verdict
from setebench.measure.serving import levels_of
from setebench.measure.sweep import working_memory
from setebench.results import Outcome
from setebench.scenario import Context
from setebench.score import Task, judge_all, perform
from setebench.sim import spec
from setebench.sim.loader import load
from setebench.sim.machine import SimulatedMachine, open_machine_file
from setebench.stats.jump import calm_level

pytestmark = pytest.mark.long(32)


@cache
def judged(machine: str) -> dict[str, Judgement]:
    answer = perform(Task(machine=small_file(machine), scenarios=("mshr",), noise="drawn", seed=1, fast=True))
    assert answer.failures == []
    return {judgement.parameter: judgement for judgement in judge_all([answer], ("mshr.",))}


@pytest.mark.parametrize(
    ("machine", "parameter", "value"),
    [
        ("knc", "mshr.l1.prefetch", 8),
        ("knc", "mshr.l2.prefetch", 58),
        ("knc", "mshr.l2.demand", 1),
        ("knc", "mshr.l1.shared_by_smt", True),
        ("knc", "mshr.l2.shared_by_smt", True),
        ("sandybridge", "mshr.l1.demand", 10),
        ("sandybridge", "mshr.l1.prefetch", 10),
        ("sandybridge", "mshr.l2.demand", 10),
        ("sandybridge", "mshr.l2.prefetch", 10),
    ],
)
def test_published_machines_are_reported_right(machine: str, parameter: str, value: int | bool) -> None:
    found = judged(machine)[parameter]
    assert (found.value, found.outcome) == (value, "measured")


@pytest.mark.parametrize("machine", ["knc", "sandybridge"])
def test_nothing_is_reported_wrong(machine: str) -> None:
    assert [j for j in judged(machine).values() if j.verdict is Verdict.WRONG] == []


def curves_of(opened: SimulatedMachine, **cycles: float) -> Curves:
    """Curves as the scenario has it, with what a load from each level takes; `cycles` are put in place of it."""
    context = swept(opened)
    memory = working_memory(context)
    levels_of(context, memory)
    return Curves(context, ThreadBursts(context, memory, context.rng(3)), context.calibration.level_cycles | cycles)


def test_a_third_level_that_is_none_does_not_hide_a_hint_for_the_second() -> None:
    """The first level replaces at random, so lines in the second one read like two levels."""
    plain = small("plain")
    opened = open_machine_file(plain, 1)
    second = plain.levels[1].latency_cycles
    fills = {own.hint: own.fills for own in ask_prefetches(curves_of(opened, l2=0.7 * second, l3=second), ())}
    opened.close()
    assert plain.software_prefetch.hints["t1"].fills == "l2" and fills["t1"] in ("l2", UNSTEADY)
    assert "l1" in fills.values() and "l3" not in fills.values()


def test_entries_of_level_one_are_the_same_number_from_level_three_and_from_memory() -> None:
    opened = open_machine_file(small("plain"), 1)
    context = swept(opened, fast=True, options={"level": "L1"})
    reported = {f.parameter: f for f in registry.catalogue()["mshr"].load().answer(context)}
    opened.close()
    curves, kept = context.evidence["curves"], context.evidence["in_flight"]
    assert curves["loads"]["step"] == [10, 10, 10]
    assert all(2 < kept[level] <= 11 for level in ("l2", "l3", "memory"))
    assert reported["mshr.l1.demand"].value == 10 and "from l3" in reported["mshr.l1.demand"].method


def test_private_pools_of_siblings_are_reported_from_shared_ones() -> None:
    knc = load("knc")
    levels = tuple(msgspec.structs.replace(level, mshr_shared_by_smt=False) for level in knc.levels)
    opened = open_machine_file(msgspec.structs.replace(knc, name="private", levels=levels), 1)
    context = swept(opened, fast=True)
    reported = {f.parameter: f for f in registry.catalogue()["mshr"].load().answer(context)}
    opened.close()
    first, second = reported["mshr.l1.shared_by_smt"], reported["mshr.l2.shared_by_smt"]
    assert (first.value, first.outcome) == (False, Outcome.MEASURED)
    assert not second.value  # bandwidth smears the jump of four full queues, so it may be left open


def test_slow_memory_without_miss_entries_is_no_knee() -> None:
    """One line every 20 cycles: 15 of them fill the latency, as 15 entries would."""
    plain = small("plain")
    levels = tuple(
        spec.Level(
            sets=level.sets,
            ways=level.ways,
            latency_cycles=level.latency_cycles,
            replacement=level.replacement,
            inclusion=level.inclusion,
            mshr_entries=0,
        )
        for level in plain.levels
    )
    memory = spec.Memory(bytes=1 << 31, latency_cycles=300.0, interval_cycles=20.0)
    core = spec.Core(cores=1, load_queue=512, reorder_window=512)
    machine = spec.Machine(name="slow", clock=plain.clock, core=core, levels=levels, memory=memory)
    opened = open_machine_file(machine, 1)
    context = Context(machine=opened, options={"level": "L2"})
    reported = {f.parameter: f for f in registry.catalogue()["mshr"].load().answer(context)}
    opened.close()
    assert reported["mshr.l2.demand"].outcome in (Outcome.AT_LEAST, Outcome.UNRESOLVED)


def test_a_second_level_of_few_ways_keeps_the_line_behind_a_shorter_walk() -> None:
    """The walk that clears any first level took the line of the hit out of this second level as well."""
    plain = small("plain")
    levels = (plain.levels[0], msgspec.structs.replace(plain.levels[1], sets=512, ways=4), plain.levels[2])
    opened = open_machine_file(msgspec.structs.replace(plain, levels=levels), 1)
    context = swept(opened, fast=True, options={"level": "L1"})
    reported = {finding.parameter: finding for finding in registry.catalogue()["mshr"].load().answer(context)}
    opened.close()
    demand = reported["mshr.l1.demand"]
    assert (demand.value, demand.outcome) == (plain.levels[0].mshr_entries, Outcome.MEASURED)


def test_pages_that_a_small_tlb_lacks_are_paid_one_by_one() -> None:
    """Flushed in the order of use, 33 pages would all be gone from 32 entries that replace the oldest."""
    knc = load("knc")
    small = spec.TlbTable(entries=32, ways=0, miss_penalty_cycles=20.0)
    core = msgspec.structs.replace(knc.core, blocking_prefetch=False)
    machine = msgspec.structs.replace(knc, name="small", core=core, tlb=msgspec.structs.replace(knc.tlb, l1_4k=small))
    opened = open_machine_file(machine, 1)
    region = opened.allocate(1 << 24, 4096)
    bursts = Bursts(Context(machine=opened), region, np.random.default_rng(1))

    def cycles(count: int, interval: int) -> float:
        return calm_level(bursts.prefetches(count, "t2", delayed=True)[:, interval])

    for interval in (0, 1):
        assert cycles(36, interval) - cycles(31, interval) < 10 * small.miss_penalty_cycles
    opened.close()


def test_threads_whose_prefetches_may_not_leave_their_page_still_share_entries() -> None:
    """Such prefetches come behind a load of their page, or they hold no entry that a hit could wait for."""
    knc = load("knc")
    rules = msgspec.structs.replace(knc.software_prefetch, across_page=False)
    opened = open_machine_file(msgspec.structs.replace(knc, name="pages", software_prefetch=rules), 1)
    reported = {f.parameter: f for f in registry.catalogue()["mshr"].load().answer(swept(opened, fast=True))}
    opened.close()
    assert [reported[f"mshr.{level}.shared_by_smt"].value for level in ("l1", "l2")] == [True, True]
    assert [reported[f"mshr.{level}.prefetch"].value for level in ("l1", "l2")] == [8, 58]


def test_prefetches_that_a_full_queue_drops_are_not_asked_for_behind_loads_of_their_page() -> None:
    """Those loads would let a prefetcher of regions bring what was dropped, so more would seem to fit."""
    plain = small("plain")
    first = msgspec.structs.replace(plain.levels[0], mshr_entries=24)
    second = msgspec.structs.replace(plain.levels[1], mshr_entries=96)
    region = spec.Region(level=1, fills="l2", trained_by=("load", "prefetch"), region_size_bytes=2048, trigger=2)
    machine = msgspec.structs.replace(
        plain,
        name="drops",
        levels=(first, second, plain.levels[2]),
        software_prefetch=msgspec.structs.replace(plain.software_prefetch, when_full="drops"),
        prefetchers=(region,),
    )
    opened = open_machine_file(machine, 1)
    own = next(each for each in ask_prefetches(curves_of(opened), ("l1",)) if each.phase is not None)
    opened.close()
    assert own.kept is not None and own.kept.jumps
    assert (own.kept.last, own.warmed) == (24, False)
