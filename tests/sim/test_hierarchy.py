"""The hierarchy's parts on simulated machines of known truth, and the whole scenario on a preset."""

from __future__ import annotations

import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.faults import fault_finding, first_touches
from small_presets import small_file

from setebench.judge import Verdict
from setebench.scenario import Context
from setebench.score import Task, judge_all, perform
from setebench.sim import spec

pytestmark = pytest.mark.long(25)

MEMORY = 32 << 20


@pytest.mark.parametrize("line", [32, 64, 128])
def test_line_size(line: int) -> None:
    assert Context(machine=quiet(line_size_bytes=line)).line_size == line


def test_page_faults_beyond_the_reach_of_a_large_tlb() -> None:
    """Later touches must miss the TLB as the first ones do, or a fault seems dearer by a page walk."""
    tables = spec.Tlb(l2_4k=spec.TlbTable(entries=8192, ways=8, miss_penalty_cycles=100.0))
    machine = quiet(tlb=tables, memory=spec.Memory(bytes=1 << 30, page_fault_4k_cycles=2000.0))
    context = Context(machine=machine)
    found = fault_finding("4k", [first_touches(context, "4k") for _ in range(3)])
    assert found.low is not None and found.high is not None
    assert found.low <= 2000.0 <= found.high


def test_the_whole_scenario() -> None:
    """On a preset with a second level of an eighth; its parts have tests of their own in tests/scenarios/hierarchy."""
    task = Task(machine=small_file("plain", 1, 8), scenarios=("hierarchy",), noise="quiet", seed=1, fast=True)
    answer = perform(task)
    assert answer.failures == []
    prefixes = ("cache.", "tlb.", "page_fault.", "latency.core_to_core.", "latency.smt.")
    found = {judgement.parameter: judgement for judgement in judge_all([answer], prefixes)}
    assert [j for j in found.values() if j.verdict is Verdict.WRONG] == []
    wanted = ("cache.l1.size", "cache.l1.ways", "cache.l2.size", "cache.l2.ways", "cache.l1.inclusive_in_l2")
    assert {name: found[name].verdict for name in wanted} == dict.fromkeys(wanted, Verdict.RIGHT)
    cores = [j.verdict for name, j in found.items() if name.startswith("latency.core_to_core.0-1")]
    assert cores[:2] == [Verdict.RIGHT] * 2  # modified and exclusive; shared needs a sure way out of private caches
