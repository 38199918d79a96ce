"""Roles of recorded processors on a kernel of the tests' own: what fits at once, what is offered, and why not."""

from __future__ import annotations

import pytest
from fake_kernel import FakeEvent, FakeKernel
from hypothesis import given
from hypothesis import strategies as st
from recorded_pmus import pmus, tree

from setebench.counters.roles import ROLES, Scope
from setebench.errors import UsageError
from setebench.native.perf.machine.native_counters import NativeCounters
from setebench.native.perf.messages import read_situation
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.program.native import NativeResolver
from setebench.native.perf.program.offered import Offer, offers
from setebench.native.perf.sysfs import Bits, core_pmus, parse_format


def machine(name: str, kernel: FakeKernel | None = None) -> NativeCounters:
    return NativeCounters(kernel or FakeKernel(), tree(name))


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
    found = pmus("zen5")
    assert [pmu.name for pmu in core_pmus(found)] == ["cpu"]
    assert found["cpu"].formats["event"] == (Bits("config", 0, 7), Bits("config", 32, 35))
    assert found["cpu"].cpus is None and found["amd_umc_0"].cpus
    assert core_pmus(pmus("guest")) == []
    assert pmus("nowhere") == {}


@given(st.text())
def test_no_text_of_a_format_does_worse(text: str) -> None:
    try:
        assert all(0 <= low <= high < 64 for _, low, high in parse_format(text))
    except ValueError as error:
        assert "not a" in str(error)


# -- what recorded machines offer ------------------------------------------------------------------------------------


SYSTEM = {"task_clock", "page_fault", "context_switch", "cpu_migration"}


def _offers(machine: str, kernel: FakeKernel | None = None, *, everything: bool = False) -> dict[str, Offer]:
    recorded = tree(machine)
    situation = read_situation(recorded)
    resolver = NativeResolver(recorded, situation)
    return {each.wanted.name: each for each in offers(resolver, kernel or FakeKernel(), situation, everything)}


@pytest.mark.parametrize("machine", ["haswell_ep", "zen5", "guest"])
def test_every_role_is_listed_with_an_event_or_a_reason(machine: str) -> None:
    found = _offers(machine)
    assert list(found) == list(ROLES)
    assert {name for name, each in found.items() if not (each.reason or each.wanted.event)} == set()
    assert {name for name in SYSTEM if found[name].reason} == set()


def test_roles_of_a_machine_with_a_table_have_its_events() -> None:
    found = _offers("haswell_ep")
    alpha, read = found["l1d_inflight_sum"], found["mem_read"]
    assert alpha.wanted.event == "cpu/event=0x48,umask=0x1/" and not alpha.reason
    assert alpha.wanted.plan.terms[0].attributes.config == 0x148
    assert read.wanted.scope is Scope.SOCKET and len(read.wanted.plan.terms) > 1
    assert all(term.cpus for term in read.wanted.plan.terms)


def test_a_guest_without_a_pmu_says_so_for_every_role_that_needs_one() -> None:
    found = _offers("guest")
    reasons = {each.reason for name, each in found.items() if name not in SYSTEM}
    assert len(reasons) == 1 and "PMU" in reasons.pop()


@pytest.mark.parametrize(
    ("text", "config", "scope"),
    [
        ("r0148", 0x148, Scope.THREAD),
        ("cpu/event=0x48,umask=0x1,cmask=1/", 0x1000148, Scope.THREAD),
        ("page-faults", 2, Scope.THREAD),
    ],
)
def test_events_in_the_kernels_words(text: str, config: int, scope: Scope) -> None:
    recorded = tree("haswell_ep")
    wanted = NativeResolver(recorded, read_situation(recorded)).of_text(text)
    assert wanted.plan.terms[0].attributes.config == config
    assert (wanted.name, wanted.scope, wanted.of_threads) == (text, scope, True)
