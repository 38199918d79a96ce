"""What is asked of the kernel for roles and programs, and what becomes of its answers: groups, rights, missing
counters. The kernel itself is asked by the tests of `tests/hardware`."""

from __future__ import annotations

import pytest

from setebench.errors import UsageError
from setebench.native.perf._perf import Reading
from setebench.native.perf.attributes import EVERYBODY, Attributes, Type
from setebench.native.perf.machine.groups import placed, tallied
from setebench.native.perf.messages import Situation
from setebench.native.perf.plans import SYSTEM_PLANS, Plan, Term
from setebench.native.perf.program.opened import Target, summed
from setebench.native.perf.program.wanted import Resolver, split_names

SITUATION = Situation(paranoid=2, privileged=False, nmi_watchdog=True)
LOADS = Plan(role="load", terms=(Term(attributes=Attributes(type=4, config=0xD0), pmu="cpu"),))
MEMORY = Plan(
    role="mem_read",
    terms=tuple(
        Term(attributes=Attributes(type=12 + box, config=4), pmu=f"imc_{box}", cpus=(0, 8), factor=0.5)
        for box in range(2)
    ),
)


def test_the_first_of_a_group_is_pinned_and_waits_and_the_others_follow_it() -> None:
    (event,) = placed([LOADS])
    first, other = (event.request(first=first).attributes for first in (True, False))
    assert (first.pinned, first.disabled) == (True, True) and (other.pinned, other.disabled) == (False, False)


def test_events_of_one_pmu_and_cpu_share_a_group_and_the_kernels_clock_is_alone() -> None:
    places = [event.place for event in placed([MEMORY, LOADS, *SYSTEM_PLANS.values()])]
    assert len(set(places[:4])) == 4  # two boxes on two CPUs
    system = dict(zip(SYSTEM_PLANS, places[5:], strict=True))
    assert system["page_fault"] == system["context_switch"] != system["task_clock"]


def test_terms_are_scaled_and_added_over_boxes_and_cpus() -> None:
    found = tallied(placed([MEMORY]), Reading(100, 90, (10, 20, 30, 40)), SITUATION)
    count = found["mem_read"].of("mem_read")
    assert (count.value, count.enabled, count.running, count.shared) == (50, 400, 360, True)


def test_a_group_without_a_free_counter_says_so_and_is_never_zero() -> None:
    count = tallied(placed([LOADS]), None, SITUATION)["load"].of("load")
    assert count.value is None and "watchdog" in count.reason
    never = summed("load", [(0.0, 100, 0)], SITUATION)
    assert never.value is None and "no counter is free" in never.reason


def test_a_counter_that_took_turns_is_said_to_and_never_scaled() -> None:
    count = summed("load", [(40.0, 1000, 400), (2.0, 1000, 1000)], SITUATION)
    assert (count.value, count.enabled, count.running, count.shared) == (42, 2000, 1400, True)


def test_events_of_a_program_begin_at_its_exec_and_those_of_a_socket_on_its_cpus() -> None:
    target = Target(threads=(7,), inherit=True, on_exec=True)
    (own,) = target.requests(LOADS.terms[0], True)
    assert own.pid == 7 and own.attributes.disabled and own.attributes.inherit and own.attributes.enable_on_exec
    assert own.attributes.exclude_kernel
    shared = list(target.requests(MEMORY.terms[0], True))
    assert [(each.pid, each.cpu) for each in shared] == [(EVERYBODY, 0), (EVERYBODY, 8)]
    assert not any(each.attributes.inherit or each.attributes.enable_on_exec for each in shared)


def test_names_are_roles_and_texts_each_once() -> None:
    names = Resolver().named(["page_fault", " task_clock", "page_fault", "faults"])
    assert [each.name for each in names] == ["page_fault", "task_clock", "faults"]
    assert {each.plan.terms[0].attributes.type for each in names} == {Type.SOFTWARE}
    for wrong, said in (([], "no event is named"), ([f"r{n:x}" for n in range(17)], "at most 16"), (["?"], "no event")):
        with pytest.raises(UsageError, match=said):
            Resolver().named(wrong)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        ("cycles,cpu/event=1,umask=2/u,r3", ["cycles", "cpu/event=1,umask=2/u", "r3"]),
        ("mem:0x7f00/8:w,x", ["mem:0x7f00/8:w", "x"]),
    ],
)
def test_commas_within_slashes_belong_to_the_event(text: str, names: list[str]) -> None:
    assert split_names(text) == names
    with pytest.raises(UsageError, match="no list of events"):
        split_names(text + ",cpu/event=1")
