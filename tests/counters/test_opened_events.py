"""Events opened for programs on a fake kernel: rights, threads that end, CPUs, counters that aren't free."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest
from fake_kernel import FakeEvent, FakeKernel

from setebench.counters.counted import difference
from setebench.counters.protocol import Count
from setebench.errors import UnsupportedError, UsageError
from setebench.native.perf.attributes import Attributes, Software, Type
from setebench.native.perf.messages import Situation
from setebench.native.perf.plans import Plan, Term
from setebench.native.perf.program.opened import Counters, Target, open_counters
from setebench.native.perf.program.region_file import RegionFile, region_events
from setebench.native.perf.program.run import Job, Programs
from setebench.native.perf.program.wanted import MOST_EVENTS, Wanted, split_names, system_event, wanted

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


def test_a_counter_that_took_turns_is_said_to_and_never_scaled() -> None:
    kernel = FakeKernel(fraction=0.25)
    counters = _open(kernel, [_raw("some", Term(attributes=CORE, pmu="cpu"))])
    counters.start()
    kernel.happen(0x48, 100)
    count = counters.read()["some"]
    assert count.value == 25 and count.shared and (count.enabled, count.running) == (1000, 250)


def test_a_counter_that_never_ran_has_no_value() -> None:
    kernel = FakeKernel(fraction=0.0)
    counters = _open(kernel, [_raw("none", Term(attributes=CORE, pmu="cpu"))])
    counters.start()
    kernel.happen(0x48, 100)
    count = counters.read()["none"]
    assert count.value is None and "no counter is free" in count.reason


def test_threads_that_ended_since_they_were_listed_are_left_out() -> None:
    kernel = FakeKernel(refuse=lambda event: errno.ESRCH if event.pid == 12 else 0)
    counters = _open(kernel, [system_event("page_fault")], Target(threads=(11, 12, 13), inherit=True))
    assert sorted(event.pid for event in kernel.events.values()) == [11, 13]
    assert all(event.attributes.inherit and event.attributes.disabled for event in kernel.events.values())
    assert counters.opened[0].counts


def test_events_of_a_socket_are_opened_on_its_cpus() -> None:
    kernel = FakeKernel()
    term = Term(attributes=Attributes(type=30, config=4), pmu="uncore_imc_0", cpus=(0, 8))
    _open(kernel, [_raw("mem_read", term)], Target(threads=(77,), inherit=True, on_exec=True))
    assert [(event.pid, event.cpu) for event in kernel.events.values()] == [(-1, 0), (-1, 8)]
    flags = {(event.attributes.inherit, event.attributes.enable_on_exec) for event in kernel.events.values()}
    assert flags == {(False, False)}


def test_of_a_sum_all_is_open_or_nothing() -> None:
    kernel = FakeKernel(refuse=lambda event: errno.EBUSY if event.attributes.config == 0x49 else 0)
    terms = [Term(attributes=Attributes(type=Type.RAW, config=config), pmu="cpu") for config in (0x48, 0x49)]
    counters = _open(kernel, [_raw("sum", *terms), system_event("page_fault")])
    assert [each.counts for each in counters.opened] == [False, True]
    assert [event.attributes.config for event in kernel.events.values()] == [Software.PAGE_FAULTS]


def test_events_of_a_cpu_are_not_tried_without_the_kernels_part() -> None:
    kernel = FakeKernel(refuse=lambda event: errno.EACCES)
    counters = _open(kernel, [system_event("page_fault")], Target(cpu=3))
    assert "a whole CPU or socket" in counters.opened[0].reason


def test_the_first_refusal_is_the_reason_where_leaving_the_kernel_out_is_none_of_the_events_forms() -> None:
    kernel = FakeKernel(refuse=lambda event: errno.EINVAL if event.attributes.exclude_kernel else errno.EACCES)
    counters = _open(kernel, [system_event("page_fault")])
    assert "perf_event_paranoid forbids counting in the kernel" in counters.opened[0].reason


def test_nothing_to_count_is_an_error_before_a_program_begins(tmp_path: object) -> None:
    programs = Programs(FakeKernel(refuse=lambda event: errno.ENOENT), Situation())
    job = Job(wanted=(_raw("r48", Term(attributes=CORE, pmu="cpu")),))
    with pytest.raises(UnsupportedError, match="r48 can't be counted here"):
        programs.run(job, ["/no/such/program"])


def test_regions_get_the_events_of_threads_in_the_form_that_opened() -> None:
    kernel = FakeKernel(refuse=lambda event: 0 if event.cpu >= 0 else _only_without_kernel(event))
    uncore = Term(attributes=Attributes(type=30, config=4), pmu="uncore_imc_0", cpus=(0,))
    events = [_raw("mem_read", uncore), system_event("page_fault"), system_event("context_switch")]
    opened = _open(kernel, events, Target(threads=(7,), inherit=True, on_exec=True)).opened
    (event,) = region_events(opened)
    assert (event.name, event.attributes.config) == (1, Software.PAGE_FAULTS)
    flags = event.attributes
    assert flags.exclude_kernel and flags.disabled and not (flags.inherit or flags.enable_on_exec)
    with RegionFile(ORDINARY) as file:
        file.offer(opened)
        assert file.regions() == [] and file.notes() == []


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


@pytest.mark.parametrize("names", [[], [" "], [f"r{number:x}" for number in range(MOST_EVENTS + 1)]])
def test_none_and_too_many_are_refused(names: list[str]) -> None:
    with pytest.raises(UsageError):
        wanted(names, _Resolver())


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


@pytest.mark.parametrize("text", ["cpu/event=1", "a,,b", "cpu/a/b/"])
def test_lists_with_a_slash_or_comma_too_many_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no list of events"):
        split_names(text)


# -- differences ------------------------------------------------------------------------------------------------------


def test_what_was_counted_between_two_reads() -> None:
    earlier = Count(role="x", value=3, enabled=10, running=5)
    later = Count(role="x", value=7, enabled=30, running=25)
    assert difference(later, earlier) == Count(role="x", value=4, enabled=20, running=20)
    assert difference(later, None) == later
    assert difference(later, Count(role="x", reason="why")).reason == "why"
    assert difference(Count(role="x", reason="why"), earlier).reason == "why"
