"""Which events are opened for roles and programs, and what becomes of the kernel's answers: groups, missing counters.
The kernel itself is tested in `tests/hardware`."""

from __future__ import annotations

import pytest

from setebench.errors import UsageError
from setebench.native.perf.attributes import Type
from setebench.native.perf.encode import Resolver, split_names
from setebench.native.perf.messages import Situation
from setebench.native.perf.opened import summed

SITUATION = Situation(paranoid=2, privileged=False, nmi_watchdog=True)


def test_a_counter_that_took_turns_is_said_to_and_one_that_never_had_its_turn_is_no_zero() -> None:
    count = summed("load", [(40.0, 1000, 400), (2.0, 1000, 1000)], SITUATION)
    assert (count.value, count.enabled, count.running, count.shared) == (42, 2000, 1400, True)
    never = summed("load", [(0.0, 100, 0)], SITUATION)
    assert never.value is None and "watchdog" in never.reason


def test_names_are_roles_and_texts_each_once() -> None:
    names = Resolver().named(["page_fault", " task_clock", "page_fault", "cpu_migration"])
    assert [each.name for each in names] == ["page_fault", "task_clock", "cpu_migration"]
    assert {each.terms[0].attributes.type for each in names} == {Type.SOFTWARE}
    for wrong, said in (([], "no event is named"), ([f"r{n:x}" for n in range(17)], "at most 16"), (["?"], "no event")):
        with pytest.raises(UsageError, match=said):
            Resolver().named(wrong)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        ("cycles,cpu/event=1,umask=2/,r3", ["cycles", "cpu/event=1,umask=2/", "r3"]),
    ],
)
def test_commas_within_slashes_belong_to_the_event(text: str, names: list[str]) -> None:
    assert split_names(text) == names
    with pytest.raises(UsageError, match="no event 'cpu'"):
        Resolver().named(split_names("page_fault,cpu/event=1"))
