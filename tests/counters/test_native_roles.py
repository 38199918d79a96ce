"""Roles of recorded processors on a kernel of the tests' own: what fits at once, what is offered, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from fake_kernel import FakeEvent, FakeKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_pmus import pmus, tree

from setebench.counters.roles import ROLES, Scope
from setebench.errors import UsageError
from setebench.native.perf.constraints import FIRST_FIXED, Registers, fits, grouped
from setebench.native.perf.machine.native_counters import NativeCounters
from setebench.native.perf.messages import read_situation
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.program.native import NativeResolver
from setebench.native.perf.program.offered import Offer, offers
from setebench.native.perf.sysfs import Bits, core_pmus, parse_format
from setebench.native.perf.tables import EventSpec, Status, load_tables


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


# -- sets of events that fit at once ---------------------------------------------------------------------------------


HASWELL = load_tables()["haswell-ep"].roles


def spec(counters: tuple[int, ...], **more: object) -> EventSpec:
    return EventSpec(event=1, counters=counters, sources={}, status=Status.DOCUMENTED, **more)  # type: ignore[arg-type]


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


def test_the_three_of_haswell_that_only_counter_2_holds_are_pairwise_apart() -> None:
    three = ["l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss"]
    assert all(HASWELL[role].counters == (2,) for role in three)
    assert not any(fits([HASWELL[one], HASWELL[two]]) for one in three for two in three if one != two)
    assert len(grouped({role: HASWELL[role] for role in three}).groups) == 3


def test_a_counter_that_another_program_has_is_not_used() -> None:
    four = [spec((0, 1, 2, 3)) for _ in range(4)]
    assert not fits([*four, HASWELL["cycles"]], Registers(taken={"cpu": frozenset({FIRST_FIXED + 1})}))
    assert not fits(four, Registers(taken={"cpu": frozenset({3})}))
    assert fits(four, Registers(taken={"uncore_imc": frozenset({3})}))
    alone = grouped({"cycles": spec((0,))}, Registers(taken={"cpu": frozenset({0})}))
    assert alone.groups == () and "more than are free" in alone.unfit["cycles"]


def test_roles_that_every_set_is_to_have() -> None:
    found = grouped(HASWELL, always=("cycles",))
    assert found.unfit == {}
    assert all("cycles" in group for group in found.groups)
    assert sorted({role for group in found.groups for role in group}) == sorted(HASWELL)
    assert grouped({"cycles": HASWELL["cycles"]}, always=("cycles",)).groups == (("cycles",),)
    assert grouped({}).groups == ()


def test_every_table_fits_in_few_sets() -> None:
    for table in load_tables().values():
        found = grouped(table.roles)
        placed = [role for group in found.groups for role in group]
        assert sorted([*placed, *found.unfit]) == sorted(table.roles)
        assert all(fits([table.roles[role] for role in group]) for group in found.groups)


# -- against trying everything ---------------------------------------------------------------------------------------

SLOTS = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]
SPECS = st.builds(
    lambda counters, fixed, offcore, pmu: spec(counters, fixed=fixed, offcore_rsp=offcore, pmu=pmu),
    st.sampled_from(SLOTS),
    st.sampled_from([None, None, 0, 1]),
    st.sampled_from([0, 0, 1, 2, 3]),
    st.sampled_from(["cpu", "cpu", "uncore_imc"]),
)
WIDE = st.builds(lambda counters: spec(counters, width=2), st.sampled_from([(0,), (0, 2), (2,)]))


def tried(specs: list[EventSpec]) -> bool:
    """Whether they fit, by all assignments."""
    offcore = {one.offcore_rsp for one in specs if one.offcore_rsp}
    ways = [
        [*((first, one.width) for first in one.counters), *([] if one.fixed is None else [(100 + one.fixed, 1)])]
        for one in specs
    ]
    for choice in product(*ways):
        used = [
            (one.pmu, first + step) for one, (first, width) in zip(specs, choice, strict=True) for step in range(width)
        ]
        if len(set(used)) == len(used):
            return len(offcore) <= 2
    return False


def partitions(items: list[str]) -> Iterator[list[list[str]]]:
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for at, group in enumerate(rest):
            yield [*rest[:at], [items[0], *group], *rest[at + 1 :]]


@given(st.lists(st.one_of(SPECS, WIDE), max_size=5))
def test_what_fits_is_what_some_assignment_allows(specs: list[EventSpec]) -> None:
    assert fits(specs) == tried(specs)


@settings(max_examples=40)
@given(st.lists(st.one_of(SPECS, WIDE), max_size=5))
def test_no_partition_into_fewer_sets_fits(specs: list[EventSpec]) -> None:
    roles = {f"r{number}": one for number, one in enumerate(specs)}
    found = grouped(roles)
    assert found.unfit == {}
    fewest = min(
        len(groups)
        for groups in partitions(list(roles))
        if all(tried([roles[role] for role in group]) for group in groups)
    )
    assert len(found.groups) == fewest
    assert sorted(role for group in found.groups for role in group) == sorted(roles)
    assert all(tried([roles[role] for role in group]) for group in found.groups)
