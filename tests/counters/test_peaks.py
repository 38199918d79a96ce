"""Peak rates of events on a simulated machine: no more than the core can do, whatever single readings say."""

from __future__ import annotations

import msgspec

from setebench.results import Outcome
from setebench.session import run
from setebench.sim import spec
from setebench.sim.loader import load
from setebench.sim.machine import open_machine_file
from setebench.sim.spec_pmu import Fault


def test_no_peak_is_beyond_what_the_core_issues_though_readings_wrap() -> None:
    pmu = spec.Pmu(events={"load": (), "store": (Fault(kind="wraps", amount=0.5),)})
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
