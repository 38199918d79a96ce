"""Counting and sampling on this kernel for real, by events whose exact number is known; with a PMU or without, root
or not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from native_fixture import LINE, two_cpus

from setebench.counters.protocol import CountsEvents
from setebench.errors import UsageError
from setebench.host.tree import Tree
from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Flag, Software, Type
from setebench.native.perf.messages import core_pmus, explain, read_pmus, read_situation
from setebench.probe import Base, Probe

pytestmark = pytest.mark.usefixtures("counting_permitted")
PAGES, PAGE = 200, 4096
LOAD = Probe().start().load(LINE).stop()


def fresh_pages(native: NativeMachine, pages: int) -> Region:
    return native.allocate(pages * PAGE, PAGE, populate=False)


# -- the machine's own counts -----------------------------------------------------------------------------------------


def test_200_fresh_pages_are_200_faults(native: NativeMachine) -> None:
    region = fresh_pages(native, PAGES)
    lines = region.address + PAGE * np.arange(PAGES)
    with native.count_events(["page_fault", "task_clock"]) as counting:
        assert counting.read()["page_fault"].value == 0
        native.run(LOAD, {LINE: lines})
        first = counting.read()
        native.run(LOAD, {LINE: lines})
        again = counting.read()
    native.release(region)
    assert first["page_fault"].value == again["page_fault"].value == PAGES
    assert not first["page_fault"].shared and first["page_fault"].running == first["page_fault"].enabled > 0
    assert (again["task_clock"].value or 0) > (first["task_clock"].value or 0) > 0


def test_threads_of_a_joint_run_are_counted_each_and_added(native: NativeMachine) -> None:
    cpus = two_cpus(native)
    regions = [fresh_pages(native, PAGES) for _ in cpus]
    other = Base("other")
    probes = {cpus[0]: LOAD, cpus[1]: Probe().start().load(other).stop()}
    places = {
        base: region.address + PAGE * np.arange(PAGES) for base, region in zip((LINE, other), regions, strict=True)
    }
    with native.count_events(["page_fault"]) as counting:
        native.run_together(probes, places)
        assert counting.read()["page_fault"].value == 2 * PAGES
    for region in regions:
        native.release(region)


def test_clocks_go_on_however_often_they_are_switched(native: NativeMachine) -> None:
    """As members of a group they stand still from the second time on, on some kernels."""
    probe = Probe().start().add(20_000).stop()
    with native.count_events(["page_fault", "task_clock"]) as counting:
        seen = [0]
        for _ in range(4):
            native.run(probe, 20)
            seen.append(counting.read()["task_clock"].value or 0)
    assert min(np.diff(seen)) > 20_000  # ns; 400,000 additions in a row, one a cycle, at 20 GHz


def test_nothing_is_counted_outside_and_nothing_stays_open(native: NativeMachine) -> None:
    before = len(os.listdir("/proc/self/fd"))
    region = fresh_pages(native, PAGES)
    native.run(LOAD, {LINE: region.address + PAGE * np.arange(50)})
    with native.count_events(["page_fault"]) as counting:
        native.run(LOAD, {LINE: region.address + PAGE * np.arange(100)})
    native.run(LOAD, {LINE: region.address + PAGE * np.arange(PAGES)})
    native.release(region)
    assert counting.read()["page_fault"].value == 50
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_machine_counts_by_the_protocol(native: NativeMachine) -> None:
    assert isinstance(native, CountsEvents)
    roles = native.event_roles()
    assert {"task_clock", "page_fault", "context_switch", "cpu_migration"} <= set(roles)
    assert all("\n" not in reason for reason in roles.values())
    with pytest.raises(UsageError, match="no event for 'nonsense'"):
        native.event_groups(["nonsense"])
    with native.count_events(["page_fault"]), pytest.raises(UsageError, match="already"):
        native.count_events(["page_fault"]).__enter__()
    with native.count_events(["page_fault"]):
        pass  # the end of one lets the next begin


# -- what this kernel refuses to count, to root, to ordinary users and in containers ---------------------------------


def refusal(event: Attributes) -> str:
    with pytest.raises(OSError) as caught:
        _perf.open_event(event)
    line = explain(caught.value.errno or 0, event, read_situation())
    assert "\n" not in line and line
    return f"{errno.errorcode[caught.value.errno or 0]}: {line}"


def test_refusals_are_one_line_each() -> None:
    assert refusal(Attributes(type=0x7FFF_0000, flags=Flag.EXCLUDE_KERNEL)).startswith(
        "ENOENT: this kernel has no PMU of type"
    )
    flags, pid = Flag.EXCLUDE_KERNEL, 0x3FFF_FFFF
    faults = Attributes(type=Type.SOFTWARE, config=Software.PAGE_FAULTS, flags=flags, pid=pid)
    assert "No such process" in refusal(faults)
    if not core_pmus(read_pmus(Tree(Path("/")))):
        assert "PMU" in refusal(Attributes(type=Type.RAW, config=0x1D0, flags=Flag.EXCLUDE_KERNEL))
