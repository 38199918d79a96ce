"""A co-runner on the other thread of a core, which no list of CPUs shows, takes miss entries: what is reported of them
then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from asked import findings
from small_presets import small

from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim.machine import SimulatedMachine, open_machine_file

pytestmark = pytest.mark.long(7)

ENTRIES, HELD = 10, 2
COMES_AND_GOES: dict[str, Any] = {"co_runner_interval_cycles": 2e7, "co_runner_cycles": 6e7, "co_runner_entries": HELD}
STAYS: dict[str, Any] = COMES_AND_GOES | {"co_runner_interval_cycles": 1e6, "co_runner_cycles": 1e13}


def with_co_runner(**noise: Any) -> SimulatedMachine:
    machine = small("plain")
    assert machine.levels[0].mshr_entries == ENTRIES
    changed = msgspec.structs.replace(machine.noise, **noise)
    return open_machine_file(msgspec.structs.replace(machine, noise=changed), 1)


def reported(**noise: Any) -> dict[str, Finding]:
    """Findings of a machine on which it is there for three quarters of the time, or from some time on."""
    return findings("mshr", Context(machine=with_co_runner(**noise), fast=True, options={"level": "L1"}))


def test_entries_are_counted_while_nobody_holds_any() -> None:
    found = reported(**COMES_AND_GOES)
    for name in ("mshr.l1.demand", "mshr.l1.prefetch"):
        assert (found[name].value, found[name].outcome) == (ENTRIES, Outcome.MEASURED)


def test_one_who_stays_leaves_bounds() -> None:
    found = reported(**STAYS)
    assert found["mshr.l1.prefetch"].outcome is Outcome.AT_LEAST
    for name in ("mshr.l1.demand", "mshr.l1.prefetch"):
        value = found[name].value
        assert found[name].outcome is not Outcome.MEASURED
        assert value is None or (isinstance(value, int) and ENTRIES - HELD <= value <= ENTRIES)
