"""The true bandwidths of simulated machines, worked out by hand for machines with one narrow place each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from setebench.kernels import KERNELS
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.truth.parameters import left_open, truth
from setebench.sim.truth.streams import QuietMachine

FIRST = spec.Level(sets=64, ways=8, latency_cycles=4.0, fill_interval_cycles=0.0, mshr_entries=10)
SECOND = spec.Level(sets=512, ways=8, latency_cycles=14.0, fill_interval_cycles=0.0, mshr_entries=16)
QUICK_PAGES = spec.TlbTable(miss_penalty_cycles=0.0)
TLB = spec.Tlb(l1_4k=QUICK_PAGES, l2_4k=QUICK_PAGES, l1_2m=QUICK_PAGES, l2_2m=QUICK_PAGES)


def rates(
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    memory: dict[str, Any] | None = None,
    **core: Any,
) -> dict[str, Finding]:
    """Bandwidths of a machine of one cycle per nanosecond, so that they are bytes per cycle."""
    machine = spec.Machine(
        name="by hand",
        clock=spec.Clock(ticks_per_second=1e9),
        core=spec.Core(**core),
        levels=(_changed(FIRST, first), _changed(SECOND, second)),
        memory=_changed(spec.Memory(latency_cycles=200.0), memory),
        tlb=TLB,
    )
    return {finding.parameter: finding for finding in truth(machine) if finding.parameter.startswith("bandwidth.")}


def highest(finding: Finding) -> float:
    """The end of a range that stands for the narrowest place alone."""
    return float(finding.high if finding.high is not None else finding.value)


def _changed(table: Any, fields: dict[str, Any] | None) -> Any:
    return msgspec.structs.replace(table, **(fields or {}))


BLOCKING = {"out_of_order": False, "blocking_load": True, "issue_width": 1}
WAITING = {**BLOCKING, "blocking_store": True, "threads_per_core": 2, "smt_extra_cycles": 4.0}
CASES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "the first level gives what its ports take": (
        {"first": {"ports": 2}, "issue_width": 8},
        {"l1.load.64.threads_1": 128.0},
    ),
    "misses in flight over latency": (
        {},
        {"l2.load.64.threads_1": 10 * 64 / 14, "memory.load.64.threads_1": 10 * 64 / 200},
    ),
    "a blocking core has one, and its own issue waits with it": (
        BLOCKING,
        {"memory.load.64.threads_1": 64 / 200.5, "memory.store.64.threads_1": 640 / 200},
    ),
    "wide loads and siblings hold a blocking core up, and stores don't wait for them": (
        {**WAITING, "vector_load_extra": spec.VectorExtra(bytes64=3.0)},
        {
            "l2.load.64.threads_1": 64 / 17.5,
            "l2.load.64.threads_2": 2 * 64 / 21.5,
            "l2.store.64.threads_1": 64 / 14.5,
            "l2.store.64.threads_2": 2 * 64 / 14.5,
        },
    ),
    "all cores share memory, and stores move every line twice": (
        {"memory": {"interval_cycles": 32.0}, "cores": 4},
        {
            "memory.load.64.threads_1": 2.0,
            "memory.load.64.threads_4": 2.0,
            "memory.store.64.threads_4": 1.0,
            "memory.store.64.threads_4.traffic": 2.0,
        },
    ),
    "siblings share a queue": (
        {"first": {"mshr_shared_by_smt": True}, "second": {"mshr_shared_by_smt": True}, "threads_per_core": 2},
        {"memory.load.64.threads_2": 10 * 64 / 200},
    ),
    "siblings have a queue each": (
        {"first": {"mshr_shared_by_smt": False}, "second": {"mshr_shared_by_smt": False}, "threads_per_core": 2},
        {"memory.load.64.threads_2": 20 * 64 / 200, "memory.store.64.threads_2": 20 * 64 / 200},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_narrowest_place_is_the_limit(case: str) -> None:
    machine, expected = CASES[case]
    found = rates(**machine)
    assert {name: highest(found[f"bandwidth.{name}"]) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(("entries", "most"), [(128, 32.0), (32, 32 * 64 / 200), (20 * 4, None)])
def test_the_peak_of_memory_is_that_of_all_that_cores_share_on_the_way(entries: int, most: float | None) -> None:
    """Nobody outside can tell the queue of a last level from memory behind it; ten entries of each core are their own
    limit."""
    third = spec.Level(sets=4096, ways=16, latency_cycles=40.0, fill_interval_cycles=0.0, mshr_entries=entries)
    cores = 4 if most is None else 16
    machine = spec.Machine(
        name="by hand",
        clock=spec.Clock(ticks_per_second=1e9),
        core=spec.Core(cores=cores),
        levels=(FIRST, SECOND, third),
        memory=spec.Memory(latency_cycles=200.0, interval_cycles=2.0 if entries == 128 else 0.0),
        tlb=TLB,
    )
    found = [each for each in truth(machine) if each.parameter == "loaded_latency.peak_bandwidth"]
    assert [highest(each) for each in found] == ([] if most is None else [pytest.approx(most)])


def test_prefetchers_make_it_a_range() -> None:
    machine = spec.Machine(
        name="helped",
        clock=spec.Clock(ticks_per_second=1e9),
        levels=(FIRST, SECOND),
        memory=spec.Memory(latency_cycles=200.0),
        tlb=TLB,
        prefetchers=(spec.LinePair(level=2, fills="l2"),),
    )
    found = {finding.parameter: finding for finding in truth(machine)}
    reported = found["bandwidth.memory.load.64.threads_1"]
    assert reported.low == pytest.approx(10 * 64 / 200, rel=0.02)
    assert reported.high == pytest.approx(16 * 64 / 200)  # no more than the second level's queue holds
    assert highest(found["bandwidth.l2.load.64.threads_1"]) == pytest.approx(10 * 64 / 14, rel=0.03)


HINDERING = spec.Streamer(level=1, fills="l2", trigger=1, degree=8, max_distance=16, when_full="stalls")
"""Asks for lines that the second level has, and takes entries of the first one for that."""


def third_of(**fields: Any) -> spec.Machine:
    third = spec.Level(sets=4096, ways=16, latency_cycles=40.0, fill_interval_cycles=0.0, mshr_entries=48)
    return spec.Machine(name="three", levels=(FIRST, SECOND, third), tlb=TLB, **fields)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_quiet_machine_without_prefetchers_reaches_what_is_worked_out(level: int, threads: int) -> None:
    machine = third_of(core=spec.Core(cores=4))
    name = f"bandwidth.l{level}.load.64.threads_{threads}"
    known = next(finding for finding in truth(machine) if finding.parameter == name)
    low, high = (float(known.value if end is None else end) for end in (known.low, known.high))
    reached = QuietMachine(machine).rates(KERNELS["load"], 64, threads, level)
    assert reached and 0.97 * low < max(reached) < 1.03 * high


def test_prefetchers_that_hinder_lower_the_truth() -> None:
    name = "bandwidth.l2.load.64.threads_1"
    alone, hindered = (
        next(finding for finding in truth(third_of(prefetchers=own)) if finding.parameter == name)
        for own in ((spec.NextLine(level=2, fills="l2"),), (HINDERING,))
    )
    assert highest(hindered) < 0.95 * highest(alone)


def test_the_truth_leaves_open_what_a_machine_has_but_nothing_else() -> None:
    """So that a score doesn't call a rate made up where only the truth is unknown."""
    plain = load("plain")
    two = msgspec.structs.replace(plain, levels=plain.levels[:2])
    name = "bandwidth.{}.load.{}.threads_{}"
    width, cpus = max(plain.core.access_sizes), plain.core.cores * plain.core.threads_per_core
    assert name.format("l3", width, 1) in left_open(plain)
    assert not {name.format(*made_up) for made_up in (("l3", width, 1), ("l2", 128, 1), ("l2", width, cpus + 1))} & (
        left_open(two)
    )
    reported = {finding.parameter for finding in truth(plain) if finding.parameter.startswith("bandwidth.")}
    assert reported <= left_open(plain)
