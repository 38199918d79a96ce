"""The true bandwidths of simulated machines, worked out by hand for machines with one narrow place each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.loader import load
from setebench.sim.truth import left_open, truth

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


def test_the_first_level_gives_what_its_ports_take() -> None:
    found = rates(first={"ports": 2}, issue_width=8)
    assert highest(found["bandwidth.l1.load.64.threads_1"]) == 128.0


def test_misses_in_flight_over_latency() -> None:
    found = rates()
    assert highest(found["bandwidth.l2.load.64.threads_1"]) == pytest.approx(10 * 64 / 14)
    assert highest(found["bandwidth.memory.load.64.threads_1"]) == pytest.approx(10 * 64 / 200)


def test_a_blocking_core_has_one() -> None:
    found = rates(out_of_order=False, blocking_load=True, issue_width=1)
    assert highest(found["bandwidth.memory.load.64.threads_1"]) == pytest.approx(
        64 / (200 + 0.5)
    )  # its own issue waits with it
    assert highest(found["bandwidth.memory.store.64.threads_1"]) == pytest.approx(640 / 200)


def test_wide_loads_and_siblings_hold_a_blocking_core_up_and_stores_don_t_wait_for_them() -> None:
    core = {"out_of_order": False, "blocking_load": True, "blocking_store": True, "issue_width": 1}
    found = rates(**core, threads_per_core=2, smt_extra_cycles=4.0, vector_load_extra=spec.VectorExtra(bytes64=3.0))
    for threads, extra in ((1, 3.0), (2, 7.0)):
        each = threads * 64 / (14 + 0.5 + extra)
        assert highest(found[f"bandwidth.l2.load.64.threads_{threads}"]) == pytest.approx(each)
        assert highest(found[f"bandwidth.l2.store.64.threads_{threads}"]) == pytest.approx(threads * 64 / (14 + 0.5))


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


def test_all_cores_share_memory_and_stores_move_every_line_twice() -> None:
    found = rates(memory={"interval_cycles": 32.0}, cores=4)
    assert highest(found["bandwidth.memory.load.64.threads_1"]) == pytest.approx(2.0)
    assert highest(found["bandwidth.memory.load.64.threads_4"]) == pytest.approx(2.0)
    assert highest(found["bandwidth.memory.store.64.threads_4"]) == pytest.approx(1.0)
    assert highest(found["bandwidth.memory.store.64.threads_4.traffic"]) == pytest.approx(2.0)


def test_siblings_share_a_queue_or_have_one_each() -> None:
    shared, own = (
        rates({"mshr_shared_by_smt": each}, {"mshr_shared_by_smt": each}, threads_per_core=2) for each in (True, False)
    )
    assert highest(shared["bandwidth.memory.load.64.threads_2"]) == pytest.approx(10 * 64 / 200)
    assert highest(own["bandwidth.memory.load.64.threads_2"]) == pytest.approx(20 * 64 / 200)
    assert highest(own["bandwidth.memory.store.64.threads_2"]) == pytest.approx(20 * 64 / 200)


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
    assert highest(found["bandwidth.l2.load.64.threads_1"]) == pytest.approx(10 * 64 / 14)  # it brings nothing to there


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
