"""What the doctor says of counted events: on recorded machines, by rights, and of counters that are free."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_kernel import FakeKernel

from setebench.doctor import Check, CounterReport, checks
from setebench.host.access import Access
from setebench.host.environment import Environment, read_environment
from setebench.host.event_sources import EventSources
from setebench.host.tree import Tree
from setebench.native.perf.machine.free_counters import MOST, counter_report

MACHINES = Path(__file__).parents[1] / "fixtures" / "machines"
RECORDED = CounterReport(reason="a recorded machine can't be measured")
NAMES = ["PMU", "counting rights", "free counters", "NMI watchdog", "rdpmc", "precise samples"]


def found(environment: Environment, counters: CounterReport = RECORDED) -> dict[str, Check]:
    every = {check.name: check for check in checks(environment, None, None, counters=counters)}
    return {name: every[name] for name in NAMES}


def of(level: int | None = None, counters: CounterReport = RECORDED, **events: object) -> dict[str, Check]:
    empty = read_environment(MACHINES / "nowhere")
    known = msgspec.structs.replace(
        empty, access=Access(perf_event_paranoid=level), events=msgspec.convert(events, EventSources)
    )
    return found(known, counters)


def test_a_desktop_with_a_pmu() -> None:
    desktop = found(read_environment(MACHINES / "intel_desktop"))
    assert [check.status.value for check in desktop.values()] == ["good", "note", "unknown", "note", "good", "good"]
    assert desktop["PMU"].found == "cpu, msr, software, uncore_imc (2)"
    assert "perf_event_paranoid 4" in desktop["counting rights"].found
    assert "sysctl" in desktop["counting rights"].advice and "nothing at all" in desktop["counting rights"].meaning
    assert "nmi_watchdog=0" in desktop["NMI watchdog"].advice
    assert desktop["precise samples"].found == "PEBS, level 3"
    assert "recorded" in desktop["free counters"].found


def test_a_guest_without_one() -> None:
    guest = found(read_environment(MACHINES / "epyc_guest"), CounterReport(free=0, reason="no PMU"))
    assert [check.status.value for check in guest.values()] == ["note", "good", "note", "good", "note", "note"]
    assert guest["free counters"].found == "none, no PMU"
    assert guest["counting rights"].found == "perf_event_paranoid 2, CAP_PERFMON"


@pytest.mark.parametrize(
    ("level", "privileged", "status", "said"),
    [
        (-1, False, "good", "Everything"),
        (0, False, "good", "Everything"),
        (1, False, "note", "memory traffic"),
        (2, None, "note", "user part"),
        (3, False, "note", "nothing at all"),
        (4, False, "note", "nothing at all"),
        (4, True, "good", "Everything"),
        (None, True, "unknown", "asked"),
    ],
)
def test_rights(level: int | None, privileged: bool | None, status: str, said: str) -> None:
    check = of(level, privileged=privileged)["counting rights"]
    assert check.status.value == status and said in check.meaning
    assert bool(check.advice) == (status == "note")


@pytest.mark.parametrize(
    ("free", "status", "text"),
    [
        (8, "good", "8"),
        (4, "good", "4"),
        (3, "note", "3: taken"),
        (0, "note", "none: taken"),
        (None, "unknown", "taken"),
    ],
)
def test_free_counters(free: int | None, status: str, text: str) -> None:
    check = of(2, CounterReport(free=free, reason="taken"), pmus=["cpu"])["free counters"]
    assert check.status.value == status and text in check.found


# -- counting what is free --------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize("free", [1, 6, MOST - 1])
def test_as_many_as_the_kernel_gives(tree: Tree, free: int) -> None:
    kernel = FakeKernel(free=free, pace=100)
    report = counter_report(kernel, tree)
    assert report.free == free and "no counter is free" in report.reason and not kernel.events


def test_counters_that_open_and_stand_still_are_not_counters(tree: Tree) -> None:
    report = counter_report(FakeKernel(free=4), tree)
    assert report.free == 0 and "does not count" in report.reason
