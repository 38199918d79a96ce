"""What recorded machines offer: roles by their tables, events that the kernel names, and why not, on a fake kernel."""

from __future__ import annotations

import pytest
from fake_kernel import FakeKernel
from recorded_pmus import tree

from setebench.counters.roles import ROLES, Scope
from setebench.native.perf.messages import read_situation
from setebench.native.perf.program.native import NativeResolver
from setebench.native.perf.program.offered import Offer, offers

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
