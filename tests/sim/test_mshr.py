"""The mshr scenario on machines whose queues are known, one of them without any queue but slow memory."""

from __future__ import annotations

import msgspec
import pytest
from asked import findings, judged
from small_presets import small, small_file

from setebench.judge import Verdict
from setebench.results import Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import open_machine_file

pytestmark = pytest.mark.long(17)


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
    ],
)
def test_published_machines_are_reported_right(machine: str, parameter: str, value: int | bool) -> None:
    found = judged("mshr", small_file(machine), "mshr.")[parameter]
    assert (found.value, found.outcome) == (value, "measured")


@pytest.mark.parametrize("parameter", ["mshr.l2.demand", "mshr.l2.prefetch"])
def test_what_level_one_lets_through_is_a_bound_of_level_two(parameter: str) -> None:
    """Ten, as published: level 1 has as many."""
    found = judged("mshr", small_file("sandybridge"), "mshr.")[parameter]
    assert (found.value, found.outcome, found.verdict) == (10, "at_least", Verdict.RIGHT)


@pytest.mark.parametrize("machine", ["knc", "sandybridge"])
def test_nothing_is_reported_wrong(machine: str) -> None:
    found = judged("mshr", small_file(machine), "mshr.")
    assert [j for j in found.values() if j.verdict is Verdict.WRONG] == []


def test_slow_memory_without_miss_entries_is_no_knee() -> None:
    """One line every 20 cycles: 15 of them fill the latency, as 15 entries would."""
    plain = small("plain")
    kept = ("sets", "ways", "latency_cycles", "replacement", "inclusion")
    levels = tuple(
        spec.Level(**{name: getattr(level, name) for name in kept}, mshr_entries=0) for level in plain.levels
    )
    memory = spec.Memory(bytes=1 << 31, latency_cycles=300.0, interval_cycles=20.0)
    core = spec.Core(cores=1, load_queue=512, reorder_window=512)
    machine = spec.Machine(name="slow", clock=plain.clock, core=core, levels=levels, memory=memory)
    reported = findings("mshr", Context(machine=open_machine_file(machine, 1), options={"level": "L2"}))
    assert reported["mshr.l2.demand"].outcome in (Outcome.AT_LEAST, Outcome.UNRESOLVED)


def test_a_short_load_queue_hides_both_levels() -> None:
    plain = small("plain")
    core = msgspec.structs.replace(plain.core, load_queue=plain.levels[0].mshr_entries - 2)
    reported = findings("mshr", Context(machine=open_machine_file(msgspec.structs.replace(plain, core=core), 1)))
    for name in ("mshr.l1.demand", "mshr.l2.demand"):
        assert (reported[name].value, reported[name].outcome) == (core.load_queue, Outcome.AT_LEAST)
        assert "hidden by what lies before level 1" in (reported[name].reason or "")
    assert (reported["mshr.l1.prefetch"].value, reported["mshr.l1.prefetch"].outcome) == (10, Outcome.MEASURED)
