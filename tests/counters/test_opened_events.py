"""Events opened for programs on a fake kernel: rights, threads that end, CPUs, counters that aren't free."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest
from fake_kernel import FakeEvent, FakeKernel

from setebench.counters.protocol import Count
from setebench.native.perf.attributes import Attributes, Type
from setebench.native.perf.messages import Situation
from setebench.native.perf.plans import Plan, Term
from setebench.native.perf.program.opened import Counters, Target, open_counters
from setebench.native.perf.program.wanted import Wanted, split_names, system_event, wanted

ORDINARY = Situation(paranoid=2, privileged=False)
CORE = Attributes(type=Type.RAW, config=0x48)


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
        Term(attributes=CORE, pmu="cpu", factor=2.0),
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
    counters = _open(kernel, [_raw("some", Term(attributes=CORE, pmu="cpu"))])
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


# -- differences ------------------------------------------------------------------------------------------------------
