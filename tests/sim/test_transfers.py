"""Reads of other cores' lines on simulated machines, against the cycles in their files."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import L1, L3, MEMORY, quiet
from setebench.scenarios.hierarchy.cores import other_cores, sibling_threads, transfer_finding
from setebench.scenarios.hierarchy.cores.transfers import Question, Read, cpu_pairs, further_cpu

from setebench.experiments.levels import find_levels, working_memory
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec

SMALL = {"l1": {"sets": 32}, "l2": {"sets": 256}}
NAN = float("nan")


def reads(**shape: Any) -> dict[str, Finding]:
    """By the end of the parameter."""
    context = Context(machine=quiet(**{**SMALL, **shape}))
    region = working_memory(context)
    find_levels(context, region)
    context.machine.release(region)
    found = {each.parameter.removeprefix("latency.core_to_core."): each for each in other_cores(context)}
    assert set(found) == {
        f"{a}-{b}.{state}" for a, b in cpu_pairs(context) for state in ("modified", "exclusive", "shared")
    }
    return found


def test_lines_cost_what_the_file_says_by_state() -> None:
    coherence = spec.Coherence(modified_cycles=95.0, exclusive_cycles=80.0, shared_cycles=85.0)
    for parameter, finding in reads(core=spec.Core(cores=3), coherence=coherence).items():
        wanted = {"modified": 95.0, "exclusive": 80.0, "shared": 85.0}[parameter.partition(".")[2]]
        assert finding.value == pytest.approx(wanted, abs=0.5), finding
        assert (
            finding.low is not None and finding.high is not None and finding.low <= wanted + 0.1 <= finding.high + 0.2
        )


def test_of_two_cores_the_reader_loses_its_copy_and_the_third_cache_answers() -> None:
    """Beside a prefetcher that brings the line that is to come, if a load beside it began a visit that it knows."""
    region = spec.Region(level=1, fills="l1", region_size_bytes=4096, trigger=1, indexed_by="offset")
    found = reads(l3={"sets": 4096}, core=spec.Core(cores=2), prefetchers=(region,))
    assert found["0-1.shared"].value == pytest.approx(L3, abs=1.0)


def test_without_a_third_cache_memory_answers() -> None:
    found = reads(l3=None, core=spec.Core(cores=2))
    assert found["0-1.shared"].value == pytest.approx(MEMORY, rel=0.03)


CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
LOST = Question(0, 1, "shared")


def test_a_copy_that_was_lost_too_far_says_nothing_of_other_cores() -> None:
    assert transfer_finding(LOST, [Read(290.0, 90.0, 0.0)] * 6, CYCLES).outcome is Outcome.UNRESOLVED
    assert transfer_finding(LOST, [Read(46.0, 15.0, 0.0)] * 6, CYCLES).value == pytest.approx(46.0)
    assert transfer_finding(LOST._replace(third=2), [Read(290.0, 90.0, 0.0)] * 6, CYCLES).value == pytest.approx(290.0)


def test_a_copy_that_was_lost_now_to_one_level_now_to_another_is_no_latency() -> None:
    rounds = [Read(each, each / 3, 0.0) for each in (50.0, 290.0, 60.0, 150.0, 280.0, 55.0)]
    found = transfer_finding(LOST, rounds, CYCLES)
    assert found.outcome is Outcome.UNRESOLVED and "50 to 290 cycles" in str(found.reason)


def test_two_cpus_on_one_core_are_counted_and_left_out() -> None:
    rounds = [Read(250.0, 80.0, 0.25), Read(NAN, NAN, 1.0), Read(255.0, 82.0, 0.0), Read(252.0, 81.0, 0.0)]
    found = transfer_finding(Question(0, 1, "modified"), rounds, CYCLES)
    assert isinstance(found.value, float) and 250.0 <= found.value <= 252.0
    assert "3 rounds" in found.method and "shared one core in 31% of the time" in found.method
    always = transfer_finding(Question(0, 1, "modified"), [Read(NAN, NAN, 1.0)] * 6, CYCLES)
    assert always.outcome is Outcome.UNRESOLVED and "on two cores" in str(always.reason)


def test_the_cpu_that_shares_a_line_is_never_nearer_than_its_owner() -> None:
    """The nearest holder delivers, so a nearer one would be measured in the owner's place."""
    cycles = {(0, 1): 100.0, (0, 2): 120.0, (0, 3): 140.0}
    assert [further_cpu(cycles, 0, owner) for owner in (1, 2, 3)] == [3, 3, None]
    assert further_cpu({(0, 1): 100.0}, 0, 1) is None


def test_the_first_pairs_are_spread_over_the_cores() -> None:
    machine = quiet(core=spec.Core(cores=16))
    pairs = cpu_pairs(Context(machine=machine, cpu=5))
    assert len(set(pairs)) == 16 * 15 and {reader for reader, _ in pairs[:15]} == {5}
    assert {owner // 4 for _, owner in pairs[:4]} == {0, 1, 2, 3}


def test_a_core_s_threads_are_no_pair() -> None:
    machine = quiet(core=spec.Core(cores=2, threads_per_core=2))
    groups = machine.facts.siblings
    assert len(cpu_pairs(Context(machine=machine))) == 2
    assert all(not any({a, b} <= set(group) for group in groups) for a, b in cpu_pairs(Context(machine=machine)))


def test_both_threads_of_a_core_are_slower_by_what_the_file_says() -> None:
    core = spec.Core(cores=1, threads_per_core=2, smt_extra_cycles=3.0)
    (found,) = sibling_threads(Context(machine=quiet(core=core, **SMALL)))
    assert found.parameter == "latency.smt.l1" and found.value == pytest.approx(L1 + 3.0, abs=0.3)
