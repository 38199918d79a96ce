"""A co-runner on the other thread of a core, which no list of CPUs shows, takes miss entries: what is reported of them
then."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from asked import findings
from quiet_machines import quiet
from small_presets import small

from setebench.experiments.alone import Alone
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, open_machine_file

pytestmark = pytest.mark.long(7)

ENTRIES, HELD = 10, 2
COMES_AND_GOES: dict[str, Any] = {"co_runner_interval_cycles": 2e7, "co_runner_cycles": 6e7, "co_runner_entries": HELD}
STAYS: dict[str, Any] = COMES_AND_GOES | {"co_runner_interval_cycles": 1e6, "co_runner_cycles": 1e13}
NOPS = 2000


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


@pytest.mark.parametrize("line_interval", [0.0, 2000.0])
def test_one_who_brings_lines_leaves_as_one_who_brings_none(line_interval: float) -> None:
    """Also while the core waits, which is how one who measures gets rid of it."""
    noise = {"co_runner_interval_cycles": 4e7, "co_runner_cycles": 4e7, "co_runner_line_interval_cycles": line_interval}
    machine = quiet(noise=spec.Noise(**noise))
    probe = Probe().wait(5_000_000).start().nop(NOPS).stop()
    paces = machine.run(probe, 600)[:, 0]
    beside = (paces > (paces.min() + paces.max()) / 2).mean()
    assert 0.3 < beside < 0.7


def test_work_is_done_again_where_other_came_meanwhile() -> None:
    """Work that sees it, as it takes issue slots, seldom does so when it is run this way."""
    opened = quiet(noise=spec.Noise(co_runner_interval_cycles=1e7, co_runner_cycles=2e7))
    nops = Probe().start(dither=False).nop(NOPS).stop()
    free_ticks = int(opened.run(nops, 1).item())  # nobody has come yet

    def meets_it() -> bool:
        opened.run(Probe().wait(1_000_000), 1)
        return int(opened.run(nops, 1).item()) > 1.2 * free_ticks

    alone = Alone(Context(machine=opened, fast=True))
    plain, chosen = ([how() for _ in range(400)] for how in (meets_it, lambda: alone.run(meets_it)))
    opened.close()
    assert np.mean(plain) > 0.4 and np.mean(chosen) < 0.02
    assert alone.co_runner_fraction < 0.02
