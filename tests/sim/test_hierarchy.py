"""The hierarchy's parts on simulated machines of known truth, and the whole scenario on a preset."""

from __future__ import annotations

import pytest
from small_presets import small_file

from setebench.judge import Verdict
from setebench.score import Task, judge_all, perform

pytestmark = pytest.mark.long(25)

MEMORY = 32 << 20


def test_the_whole_scenario() -> None:
    """On a preset with a second level of an eighth; its parts have tests of their own in tests/scenarios/hierarchy."""
    task = Task(machine=small_file("plain", 1, 8), scenarios=("hierarchy",), noise="quiet", seed=1, fast=True)
    answer = perform(task)
    assert answer.failures == []
    prefixes = ("cache.", "tlb.", "page_fault.", "latency.core_to_core.")
    found = {
        judgement.parameter: judgement for judgement in judge_all([answer], lambda name: name.startswith(prefixes))
    }
    assert [j for j in found.values() if j.verdict is Verdict.WRONG] == []
    wanted = ("cache.l1.size", "cache.l1.ways", "cache.l2.size", "cache.l2.ways")
    assert {name: found[name].verdict for name in wanted} == dict.fromkeys(wanted, Verdict.RIGHT)
    cores = [j.verdict for name, j in found.items() if name.startswith("latency.core_to_core.0-1")]
    assert cores[:2] == [Verdict.RIGHT] * 2  # modified and exclusive; shared needs a sure way out of private caches
