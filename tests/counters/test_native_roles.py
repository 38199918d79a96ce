"""Roles of recorded processors: which events play them, what fits at once, and why not."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_pmus import pmus, tree

from setebench.counters.roles import ROLES, Scope
from setebench.errors import UsageError
from setebench.native.perf.constraints import CYCLES_COUNTER, fits, grouped
from setebench.native.perf.machine.native_counters import NativeCounters
from setebench.native.perf.plans import SYSTEM_PLANS
from setebench.native.perf.program.wanted import Resolver
from setebench.native.perf.sysfs import Bits, core_pmus, parse_format
from setebench.native.perf.tables import EventSpec, Status, load_tables


def test_a_guest_without_a_pmu_has_the_systems_roles() -> None:
    counters = NativeCounters(tree("guest"))
    roles = counters.event_roles()
    assert all("PMU" in reason for role, reason in roles.items() if role not in SYSTEM_PLANS)
    with pytest.raises(UsageError, match="there is no role 'nonsense'"):
        counters.event_groups(["nonsense"])
    missing = next(role for role in ROLES if role not in roles)
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


@pytest.mark.parametrize("machine", ["haswell_ep", "zen5", "guest"])
def test_every_role_has_an_event_or_a_reason(machine: str) -> None:
    resolver = Resolver(tree(machine))
    found = {name: resolver.of_role(name) for name in ROLES}
    assert all(bool(each.plan.terms) != bool(each.plan.reason) for each in found.values())
    assert all(found[name].plan.terms and found[name].event for name in SYSTEM_PLANS)
    reasons = {each.plan.reason for name, each in found.items() if name not in SYSTEM_PLANS}
    if machine == "guest":
        assert len(reasons) == 1 and "PMU" in reasons.pop()


def test_roles_of_a_machine_with_a_table_have_its_events() -> None:
    resolver = Resolver(tree("haswell_ep"))
    alpha, read = resolver.of_role("l1d_inflight_sum"), resolver.of_role("mem_read")
    assert alpha.event == "cpu/event=0x48,umask=0x1/" and alpha.plan.terms[0].attributes.config == 0x148
    assert read.scope is Scope.SOCKET and len(read.plan.terms) > 1 and all(term.cpus for term in read.plan.terms)


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
    wanted = Resolver(tree("haswell_ep")).of_text(text)
    assert wanted.plan.terms[0].attributes.config == config
    assert (wanted.name, wanted.scope, wanted.of_threads) == (text, scope, True)


def test_the_three_of_haswell_that_only_counter_2_holds_are_pairwise_apart() -> None:
    three = ["l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss"]
    assert all(HASWELL[role].counters == (2,) for role in three)
    assert not any(fits([HASWELL[one], HASWELL[two]]) for one in three for two in three if one != two)
    assert len(grouped({role: HASWELL[role] for role in three})) == 3


def test_a_counter_that_another_program_has_is_not_used() -> None:
    four = [spec((0, 1, 2, 3)) for _ in range(4)]
    assert fits([*four, HASWELL["cycles"]]) and not fits([*four, HASWELL["cycles"]], {CYCLES_COUNTER})
    assert not fits(four, {3})
    assert fits([spec((0, 1, 2, 3), pmu="uncore_imc") for _ in range(4)], {3})


def test_roles_that_every_set_is_to_have() -> None:
    found = grouped(HASWELL, always=("cycles",))
    assert all("cycles" in group for group in found)
    assert sorted({role for group in found for role in group}) == sorted(HASWELL)
    assert grouped({"cycles": HASWELL["cycles"]}, always=("cycles",)) == (("cycles",),)
    assert grouped({}) == ()


def test_every_table_fits_in_few_sets() -> None:
    for table in load_tables().values():
        found = grouped(table.roles)
        assert sorted(role for group in found for role in group) == sorted(table.roles)
        assert all(fits([table.roles[role] for role in group]) for group in found if len(group) > 1)
        assert len(found) <= 9


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


@given(st.lists(st.one_of(SPECS, WIDE), max_size=5))
def test_what_fits_is_what_some_assignment_allows(specs: list[EventSpec]) -> None:
    assert fits(specs) == tried(specs)
