"""Counting on a kernel that a test chooses, by roles and of programs: groups, rights, errors, missing counters,
threads."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_kernel import FakeEvent, FakeKernel

from setebench.counters.protocol import Count
from setebench.host.tree import Tree
from setebench.native.perf.attributes import Attributes, Type
from setebench.native.perf.kernel import EVERYBODY
from setebench.native.perf.machine.native_counters import NativeCounting
from setebench.native.perf.messages import Situation
from setebench.native.perf.plans import SYSTEM_PLANS, Plan, Term, countable
from setebench.native.perf.program.opened import Counters, Target, open_counters
from setebench.native.perf.program.wanted import Wanted, split_names, system_event, wanted

CORE, UNCORE = 4, 12
SITUATION = Situation(paranoid=2, privileged=False, nmi_watchdog=True)


def core(role: str, config: int, factor: float = 1.0) -> Plan:
    return Plan(role=role, terms=(Term(attributes=Attributes(type=CORE, config=config), pmu="cpu", factor=factor),))


LOADS, FILLS = core("load", 0xD0), core("l1d_fill", 0x51)
MEMORY = Plan(
    role="mem_read",
    terms=tuple(
        Term(attributes=Attributes(type=UNCORE + box, config=4), pmu=f"imc_{box}", cpus=(0, 8), factor=0.5)
        for box in range(2)
    ),
)


def counting(kernel: FakeKernel, *groups: list[Plan]) -> NativeCounting:
    return NativeCounting(kernel, SITUATION, groups)


def switched(kernel: FakeKernel, leaders: list[int], on: bool) -> None:
    for leader in leaders:
        (kernel.enable if on else kernel.disable)(leader, True)


def run(kernel: FakeKernel, counters: NativeCounting, *happenings: tuple[int, int]) -> None:
    """As the machine does: switched on, things happen, switched off."""
    leaders = [int(fd) for fd in counters.leaders()]
    switched(kernel, leaders, True)
    for config, times in happenings:
        kernel.happen(config, times)
    switched(kernel, leaders, False)


def test_a_group_has_one_pinned_leader_and_is_counted_only_while_it_is_on() -> None:
    kernel = FakeKernel()
    counters = counting(kernel, [LOADS, FILLS])
    kernel.happen(0xD0, 99)
    run(kernel, counters, (0xD0, 10), (0x51, 3), (0xD0, 1))
    kernel.happen(0xD0, 99)
    assert len(counters.leaders()) == 1
    leader, member = kernel.events.values()
    assert leader.attributes.pinned and leader.attributes.disabled and not member.attributes.pinned
    found = counters.read()
    assert {role: count.value for role, count in found.items()} == {"load": 11, "l1d_fill": 3}
    assert found["load"].enabled == found["load"].running == 3000 and not found["load"].shared


def test_terms_are_scaled_and_added_over_boxes_and_cpus() -> None:
    kernel = FakeKernel()
    counters = counting(kernel, [LOADS, MEMORY])
    leaders = [int(fd) for fd in counters.leaders()]
    assert len(leaders) == 5 and len(counters.leaders(joint=True)) == 1
    assert sorted({(event.pid, event.cpu) for event in kernel.events.values()}) == [
        (EVERYBODY, 0),
        (EVERYBODY, 8),
        (0, -1),
    ]
    with counters.around_joint_run():
        kernel.happen(4, 100, cpu=0)
        kernel.happen(4, 20, cpu=8, type=UNCORE)
    kernel.happen(4, 1000, cpu=0)
    assert counters.read()["mem_read"].value == 110


def test_a_group_without_a_free_counter_says_so_and_is_never_zero() -> None:
    kernel = FakeKernel(free=1)
    counters = counting(kernel, [LOADS, FILLS])
    run(kernel, counters, (0xD0, 5), (0x51, 5))
    for count in counters.read().values():
        assert count.value is None and "no counter is free" in count.reason and "watchdog" in count.reason


def test_a_shared_counter_is_flagged_and_never_scaled() -> None:
    kernel = FakeKernel(fraction=0.25)
    counters = counting(kernel, [LOADS])
    run(kernel, counters, (0xD0, 100))
    count = counters.read()["load"]
    assert (count.value, count.enabled, count.running, count.shared) == (25, 1000, 250, True)


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.EBUSY, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL, errno.EPERM]
)
def test_an_event_that_is_refused_has_a_reason_and_the_others_count(number: int) -> None:
    kernel = FakeKernel(refuse=lambda event: number if event.attributes.config == 0x51 else 0)
    for groups in ([LOADS, FILLS], [FILLS, LOADS]):
        counters = counting(kernel, groups)
        run(kernel, counters, (0xD0, 5))
        found = counters.read()
        assert found["load"].value == 5 and found["l1d_fill"].value is None and found["l1d_fill"].reason
        counters.close()
        assert not kernel.events


def test_a_member_that_does_not_fit_counts_in_a_group_of_its_own() -> None:
    def full(event: FakeEvent) -> int:
        return errno.EINVAL if event.leader != -1 else 0

    kernel = FakeKernel(refuse=full)
    counters = counting(kernel, [LOADS, FILLS])
    run(kernel, counters, (0xD0, 5), (0x51, 2))
    assert all(event.attributes.pinned for event in kernel.events.values())
    assert {role: count.value for role, count in counters.read().items()} == {"load": 5, "l1d_fill": 2}


def test_too_few_open_files_are_named_and_what_is_open_counts() -> None:
    kernel = FakeKernel(files=1)
    counters = counting(kernel, [LOADS], [FILLS])
    run(kernel, counters, (0xD0, 5), (0x51, 2))
    found = counters.read()
    assert found["load"].value == 5 and found["l1d_fill"].value is None and "ulimit -n" in found["l1d_fill"].reason


def test_every_thread_counts_with_its_own_events_and_its_counts_outlive_it() -> None:
    kernel = FakeKernel()
    counters = counting(kernel, [LOADS])

    def work() -> None:
        run(kernel, counters, (0xD0, 5))
        counters.leave()

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not kernel.events and counters.read()["load"].value == 15
    run(kernel, counters, (0xD0, 2))
    assert counters.read()["load"].value == 17
    counters.leave()
    counters.leave()
    assert counters.read()["load"].value == 17


# -- forms and rights -------------------------------------------------------------------------------------------------


def ordinary(event: FakeEvent) -> int:
    """What an ordinary user may at perf_event_paranoid 2."""
    return 0 if event.attributes.exclude_kernel and event.pid == 0 else errno.EACCES


def test_a_form_that_counts_nothing_is_never_used() -> None:
    kernel = FakeKernel(refuse=ordinary)
    for role in ("context_switch", "cpu_migration"):
        plan = countable(kernel, SYSTEM_PLANS[role], SITUATION)
        assert not plan.terms and "reads 0" in plan.reason and "perf_event_paranoid=1" in plan.reason
    for role in ("page_fault", "task_clock"):
        plan = countable(kernel, SYSTEM_PLANS[role], SITUATION)
        assert not plan.reason and plan.terms[0].attributes.exclude_kernel
    assert kernel.opened and not kernel.events


def tree(root: Path, paranoid: int) -> Tree:
    for name, text in {
        "proc/sys/kernel/perf_event_paranoid": str(paranoid),
        "proc/self/status": "CapEff:\t0000000000000000\nSeccomp:\t0\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return Tree(root)


# -- events opened for programs on a fake kernel ---------------------------------------------------------------------


ORDINARY = Situation(paranoid=2, privileged=False)
LOADS_48 = Attributes(type=Type.RAW, config=0x48)


def _raw(name: str, *terms: Term) -> Wanted:
    return Wanted(name=name, event=name, plan=Plan(role=name, terms=terms))


def _open(kernel: FakeKernel, events: Sequence[Wanted], target: Target | None = None) -> Counters:
    return open_counters(events, target or Target(), kernel, ORDINARY)


def _only_without_kernel(event: FakeEvent) -> int:
    return 0 if event.attributes.exclude_kernel else errno.EACCES


def test_without_the_right_to_count_in_the_kernel_its_part_is_left_out() -> None:
    counters = _open(FakeKernel(refuse=_only_without_kernel), [system_event("page_fault")])
    (opened,) = counters.opened
    assert opened.user_only and opened.counts


@pytest.mark.parametrize("role", ["context_switch", "cpu_migration"])
def test_what_would_read_zero_without_the_kernels_part_is_not_counted(role: str) -> None:
    kernel = FakeKernel(refuse=_only_without_kernel)
    counters = _open(kernel, [system_event(role)])
    count = counters.read()[role]
    assert count.value is None and "perf_event_paranoid" in count.reason and not kernel.events


def test_events_start_at_rest_and_are_added_by_their_factors() -> None:
    kernel = FakeKernel()
    terms = (
        Term(attributes=LOADS_48, pmu="cpu", factor=2.0),
        Term(attributes=Attributes(type=Type.RAW, config=0x49), pmu="cpu"),
    )
    counters = _open(kernel, [_raw("sum", *terms)])
    kernel.happen(0x48, 100)
    counters.start()
    kernel.happen(0x48, 10)
    kernel.happen(0x49, 5)
    counters.stop()
    kernel.happen(0x48, 100)
    assert counters.read()["sum"] == Count(role="sum", value=25, enabled=4000, running=4000)
    counters.close()
    counters.close()
    assert not kernel.events


def _counted(fraction: float) -> Count:
    """By a counter that ran for such a fraction of the time."""
    kernel = FakeKernel(fraction=fraction)
    counters = _open(kernel, [_raw("some", Term(attributes=LOADS_48, pmu="cpu"))])
    counters.start()
    kernel.happen(0x48, 100)
    return counters.read()["some"]


def test_a_counter_that_took_turns_is_said_to_and_never_scaled() -> None:
    count, never = _counted(0.25), _counted(0.0)
    assert count.value == 25 and count.shared and (count.enabled, count.running) == (1000, 250)
    assert never.value is None and "no counter is free" in never.reason


def test_events_of_a_socket_are_opened_on_its_cpus() -> None:
    kernel = FakeKernel()
    term = Term(attributes=Attributes(type=30, config=4), pmu="uncore_imc_0", cpus=(0, 8))
    _open(kernel, [_raw("mem_read", term)], Target(threads=(77,), inherit=True, on_exec=True))
    assert [(event.pid, event.cpu) for event in kernel.events.values()] == [(-1, 0), (-1, 8)]
    flags = {(event.attributes.inherit, event.attributes.enable_on_exec) for event in kernel.events.values()}
    assert flags == {(False, False)}


# -- names ------------------------------------------------------------------------------------------------------------


class _Resolver:
    """Knows one role and any text."""

    def of_role(self, name: str) -> Wanted:
        return Wanted(name=name, plan=Plan(role=name, reason="a role"))

    def of_text(self, text: str) -> Wanted:
        return Wanted(name=text, plan=Plan(role=text, reason="a text"))


def test_names_are_roles_of_the_kernel_roles_of_the_cpu_and_texts_each_once() -> None:
    found = wanted(["task_clock", " cycles", "r01c2", "task_clock"], _Resolver())
    assert [(each.name, each.plan.reason) for each in found] == [
        ("task_clock", ""),
        ("cycles", "a role"),
        ("r01c2", "a text"),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cycles,page_fault", ["cycles", "page_fault"]),
        ("cpu/event=0x48,umask=1/,r0148", ["cpu/event=0x48,umask=1/", "r0148"]),
        ("cpu/event=1,cmask=2/u , cycles", ["cpu/event=1,cmask=2/u", "cycles"]),
        ("mem:0x7f1200/8:w,cycles,cpu/a,b/", ["mem:0x7f1200/8:w", "cycles", "cpu/a,b/"]),
        ("", []),
    ],
)
def test_commas_within_slashes_belong_to_the_event(text: str, names: list[str]) -> None:
    assert split_names(text) == names
