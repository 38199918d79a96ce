"""Which events are opened for roles and programs, and what becomes of the kernel's answers: groups, missing counters.
The kernel itself is tested in `tests/hardware`."""

from __future__ import annotations

import pytest

from setebench.errors import UsageError
from setebench.native.perf.attributes import EVERYBODY, Attributes, Flag, Type
from setebench.native.perf.encode import SYSTEM_ROLES, Resolver, Term, Wanted, split_names
from setebench.native.perf.messages import Situation
from setebench.native.perf.native_counters import placed
from setebench.native.perf.opened import Target, summed

SITUATION = Situation(paranoid=2, privileged=False, nmi_watchdog=True)
LOADS = Wanted(name="load", terms=(Term(attributes=Attributes(type=4, config=0xD0), pmu="cpu"),))
MEMORY = Wanted(
    name="mem_read",
    terms=tuple(
        Term(attributes=Attributes(type=12 + box, config=4), pmu=f"imc_{box}", cpus=(0, 8), factor=0.5)
        for box in range(2)
    ),
)


def test_events_of_one_pmu_and_cpu_share_a_group_and_the_kernels_clock_is_alone() -> None:
    places = [event.place for event in placed([MEMORY, LOADS, *SYSTEM_ROLES.values()])]
    assert len(set(places[:4])) == 4  # two boxes on two CPUs
    system = dict(zip(SYSTEM_ROLES, places[5:], strict=True))
    assert system["page_fault"] == system["context_switch"] != system["task_clock"]


def test_a_counter_that_took_turns_is_said_to_and_one_that_never_had_its_turn_is_no_zero() -> None:
    count = summed("load", [(40.0, 1000, 400), (2.0, 1000, 1000)], SITUATION)
    assert (count.value, count.enabled, count.running, count.shared) == (42, 2000, 1400, True)
    never = summed("load", [(0.0, 100, 0)], SITUATION)
    assert never.value is None and "watchdog" in never.reason


def test_events_of_a_program_begin_at_its_exec_and_those_of_a_socket_on_its_cpus() -> None:
    target = Target(threads=(7,), inherit=True, on_exec=True)
    (own,) = target.requests(LOADS.terms[0])
    assert own.pid == 7 and own.attributes.flags == Flag.DISABLED | Flag.INHERIT | Flag.ENABLE_ON_EXEC
    shared = list(target.requests(MEMORY.terms[0]))
    assert [(each.pid, each.cpu) for each in shared] == [(EVERYBODY, 0), (EVERYBODY, 8)]
    assert {each.attributes.flags for each in shared} == {Flag.DISABLED}


def test_names_are_roles_and_texts_each_once() -> None:
    names = Resolver().named(["page_fault", " task_clock", "page_fault", "faults"])
    assert [each.name for each in names] == ["page_fault", "task_clock", "faults"]
    assert {each.terms[0].attributes.type for each in names} == {Type.SOFTWARE}
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
