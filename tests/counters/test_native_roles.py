"""Roles of recorded processors on a kernel of the tests' own: what fits at once, by the table and by what is free."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_kernel import FakeEvent, FakeKernel
from hypothesis import given
from hypothesis import strategies as st

from setebench.counters.roles import ROLES
from setebench.errors import UsageError
from setebench.host.tree import Tree
from setebench.native.perf.machine.native_counters import NativeCounters
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.sysfs import Bits, core_pmus, parse_format, read_pmus

MACHINES = Path(__file__).parents[1] / "fixtures" / "pmus"


def machine(name: str, kernel: FakeKernel | None = None) -> NativeCounters:
    return NativeCounters(kernel or FakeKernel(), Tree(MACHINES / name))


def countable(counters: NativeCounters) -> list[str]:
    return [role for role, reason in counters.event_roles().items() if not reason]


@pytest.mark.parametrize("name", ["haswell_ep", "zen5"])
def test_groups_hold_every_role_once_and_fit(name: str) -> None:
    kernel = FakeKernel()
    counters = machine(name, kernel)
    roles = countable(counters)
    assert set(SYSTEM_PLANS) < set(roles) and len(roles) > 10
    groups = counters.event_groups(roles)
    assert sorted(role for group in groups for role in group) == sorted(roles)
    assert len(groups) > 1 and not kernel.events


def test_the_cores_events_leave_the_kernel_out_and_memory_counts_everybody() -> None:
    kernel = FakeKernel()
    counting = machine("haswell_ep", kernel).count(["cycles", "mem_read"])
    counting.leaders()
    own = [event for event in kernel.events.values() if event.pid == 0]
    shared = [event for event in kernel.events.values() if event.pid == -1]
    assert own and all(event.attributes.exclude_kernel for event in own)
    assert shared and not any(event.attributes.exclude_kernel or event.attributes.exclude_user for event in shared)
    assert len({(event.attributes.type, event.cpu) for event in shared}) == len(shared)  # each box on each socket
    counting.close()


def test_an_ordinary_user_has_the_cores_roles_and_a_reason_for_memory() -> None:
    def ordinary(event: FakeEvent) -> int:
        return 0 if event.attributes.exclude_kernel and event.pid == 0 else 13  # EACCES

    roles = machine("haswell_ep", FakeKernel(refuse=ordinary)).event_roles()
    assert not roles["cycles"] and not roles["page_fault"]
    assert roles["mem_read"] and roles["context_switch"]


def test_a_guest_without_a_pmu_has_the_systems_roles() -> None:
    counters = machine("guest")
    assert countable(counters) == list(SYSTEM_PLANS)
    with pytest.raises(UsageError, match="there is no role 'nonsense'"):
        counters.event_groups(["nonsense"])
    missing = next(role for role in ROLES if role not in counters.event_roles())
    with pytest.raises(UsageError, match=f"knows no event for '{missing}'"):
        counters.count([missing])


# -- what the kernel lists --------------------------------------------------------------------------------------------


def test_pmus_as_listed() -> None:
    found = read_pmus(Tree(MACHINES / "zen5"))
    assert [pmu.name for pmu in core_pmus(found)] == ["cpu"]
    assert found["cpu"].formats["event"] == (Bits("config", 0, 7), Bits("config", 32, 35))
    assert found["cpu"].cpus is None and found["amd_umc_0"].cpus
    assert core_pmus(read_pmus(Tree(MACHINES / "guest"))) == []
    assert read_pmus(Tree(MACHINES / "nowhere")) == {}


@given(st.text())
def test_no_text_of_a_format_does_worse(text: str) -> None:
    try:
        assert all(0 <= low <= high < 64 for _, low, high in parse_format(text))
    except ValueError as error:
        assert "not a" in str(error)
