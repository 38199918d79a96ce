"""Verdicts on simulated events whose faults are known: each fault is named, and without it the event is trusted."""

from __future__ import annotations

from contextlib import closing
from functools import cache

import msgspec
import pytest
from click.testing import CliRunner

from setebench.cli.main import setebench
from setebench.errors import UnsupportedError
from setebench.machine import Machine
from setebench.results import Finding, Outcome
from setebench.session import run
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file
from setebench.sim.spec.pmu import Fault

FAULTS: dict[str, tuple[tuple[Fault, ...], tuple[str, ...]]] = {
    "load": ((Fault(kind="zero"),), ("zero",)),
    "store": ((Fault(kind="scaled", amount=16.0),), ("scaled",)),
    "instructions": ((Fault(kind="scaled", amount=1.06),), ("scaled",)),
    "l1d_inflight_sum": ((Fault(kind="floor_per_cycle"),), ("floor_per_cycle",)),
    "l2_fill": ((Fault(kind="other_level", role="l1d_fill"),), ("other_level",)),
    "mem_read": ((Fault(kind="scaled", amount=0.5),), ("scaled",)),
    "load_l1_miss": ((Fault(kind="multiplexed", amount=0.4),), ("multiplexed",)),
    "stall_l1d_miss": ((Fault(kind="includes_other_stalls"),), ("includes_other_stalls",)),
    "mem_write": ((Fault(kind="background", amount=0.05),), ("untrusted",)),
    "fp_op": ((Fault(kind="no_counter"),), ("unavailable",)),
}
"""For each role the faults of its event, and the verdict that they deserve. None of the others has one."""

SOUND = ("cycles", "load_fb_hit", "l1d_fill", "l2_rfo", "no_execute", "l1d_inflight_cycles", "l2_rfo_miss")
SOUND += ("l1d_writeback", "l2_writeback", "home_read")


def _validated(machine: Machine) -> dict[str, Finding]:
    """Findings by their name without `counter.`."""
    found = run("counters", machine, fast=True, seed=3).findings
    return {each.parameter.removeprefix("counter."): each for each in found}


@cache
def _found(faulty: bool) -> dict[str, Finding]:
    """Verdicts on all events of a machine, with the faults above or without any."""
    events = {**dict.fromkeys(SOUND, ()), **{role: faults if faulty else () for role, (faults, _) in FAULTS.items()}}
    described = msgspec.structs.replace(load("plain"), pmu=spec.Pmu(events=events))
    machine = open_machine_file(described, 3)
    try:
        return _validated(machine)
    finally:
        machine.close()


@pytest.mark.parametrize("role", FAULTS)
def test_a_faulty_event_is_known_by_its_fault(role: str) -> None:
    assert _found(True)[f"{role}.verdict"].value == list(FAULTS[role][1])


@pytest.mark.parametrize("role", [*FAULTS, *SOUND])
def test_without_its_fault_an_event_is_trusted(role: str) -> None:
    assert _found(False)[f"{role}.verdict"].value == ["trusted"]


def test_an_event_that_loses_some_beside_a_busy_sibling_undercounts() -> None:
    core = msgspec.structs.replace(load("plain").core, threads_per_core=2)
    faults = {"load_l1_miss": (Fault(kind="undercounts_smt", amount=0.2),), "load_fb_hit": (), "load": ()}
    machine = open_machine_file(msgspec.structs.replace(load("plain"), core=core, pmu=spec.Pmu(events=faults)), 3)
    with closing(machine):
        found = _validated(machine)
    kinds = {role: found[f"{role}.verdict"].value for role in faults}
    assert kinds == {"load_l1_miss": ["undercounts_smt"], "load_fb_hit": ["trusted"], "load": ["trusted"]}


def test_a_machine_without_a_pmu_says_so_in_one_line() -> None:
    machine = open_machine_file(load("plain"), 1)
    with pytest.raises(UnsupportedError, match="can count none of these events"):
        run("counters", machine)
    result = CliRunner().invoke(setebench, ["counters", "validate", "--machine", "sim:plain"])
    assert result.exit_code == 1 and len(result.stderr.strip().splitlines()) == 1


# -- peak rates of events on a simulated machine ---------------------------------------------------------------------


def test_no_peak_is_beyond_what_the_core_issues() -> None:
    pmu = spec.Pmu(events={"load": (), "store": ()})
    described = msgspec.structs.replace(load("plain"), pmu=pmu)
    machine = open_machine_file(described, 5)
    try:
        findings = run("counter-peaks", machine, fast=True, seed=5, role=["load", "store"]).findings
    finally:
        machine.close()
    clock = described.clock
    most = described.core.issue_width * clock.ticks_per_second / clock.ticks_per_cycle
    alone = {each.parameter: each for each in findings if each.parameter.endswith(".peak")}
    assert alone["counter.load.peak"].outcome is Outcome.MEASURED
    for each in alone.values():
        if each.outcome is Outcome.MEASURED:
            assert 0 < each.value < 1.01 * most, each
            assert each.low is not None and 0 <= each.low <= each.value, each
