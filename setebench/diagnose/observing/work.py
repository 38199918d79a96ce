"""Useful work of each thread, by one event that threads inherit and whose count the kernel reports as each ends.

An inherited event adds up over all threads. With `inherit_stat` the kernel keeps it apart for each and writes a record
as a thread ends (perf_event_open(2)), but for one of them: the one that had the event which the others inherited from,
as it ended. That need not be the first thread, as the kernel exchanges events of threads that are alike when it
switches between them. It has what is left of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec

from setebench.counters.protocol import Count
from setebench.diagnose.params import Params
from setebench.diagnose.records import Thread, Timeline
from setebench.errors import UnsupportedError
from setebench.host.tree import Tree, parse_cpu_list
from setebench.native.perf.attributes import Attributes, Type
from setebench.native.perf.kernel import Kernel
from setebench.native.perf.program.opened import Counters
from setebench.native.perf.program.wanted import Wanted
from setebench.native.perf.sampling import Sampler, Started, ThreadCount


def choice(wanted: Sequence[Wanted], roles: Sequence[str]) -> Wanted | None:
    """The first of these roles that one event of threads counts; None where there is none. A role that is the sum of
    several events would take several counters for all of the time."""
    by_name = {each.name: each for each in wanted}
    for role in roles:
        each = by_name.get(role)
        if each is not None and not each.plan.reason and each.of_threads and len(each.plan.terms) == 1:
            return each
    return None


class WorkByThread(AbstractContextManager["WorkByThread"]):
    """Counts one role for each thread of a program that is started (a `native.perf.program.run.Beside`). A context
    manager; without a role it does nothing."""

    def __init__(self, kernel: Kernel, wanted: Wanted | None) -> None:
        self._kernel, self._wanted = kernel, wanted
        self._sampler: Sampler | None = None
        self._ended: list[ThreadCount] = []
        self._threads: set[int] = set()

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def open(self, process: int, counters: Counters) -> None:
        """From the program's exec on. Where the kernel refuses, no thread has a count of its own."""
        if self._wanted is None:
            return
        self._threads.add(process)
        event = msgspec.structs.replace(
            self._wanted.plan.terms[0].attributes,
            disabled=True,
            inherit=True,
            inherit_stat=True,
            enable_on_exec=True,
            task=True,
        )
        try:
            self._sampler = permitted(
                event, lambda each: Sampler(each, process, online_cpus(), Params().record_pages, self._kernel)
            )
        except UnsupportedError:
            self._sampler = None

    def tick(self, now: float) -> None:
        """Empty the buffers."""
        for record in self._sampler.drain() if self._sampler is not None else ():
            if isinstance(record, ThreadCount):
                self._ended.append(record)
            elif type(record) is Started:
                self._threads.add(record.tid)

    def counts(self) -> dict[int, Count]:
        """The count of each thread by its number, once the program has ended; none where any record was lost."""
        self.tick(0.0)
        if self._sampler is None or self._wanted is None or self._sampler.lost:
            return {}
        found: dict[int, Sums] = {}
        for record in self._ended:
            known = found.get(record.tid, NOTHING)
            found[record.tid] = added(known, Sums(record.value, record.enabled, record.running))
        left = self._threads - set(found)
        if len(left) > 1:
            return {}
        found |= dict.fromkeys(left, self._rest(found.values()))
        return {tid: self._count(self._wanted, own) for tid, own in found.items()}

    @staticmethod
    def _count(wanted: Wanted, own: Sums) -> Count:
        """What a software event counts needs no counter, so it had one all the time: where a thread moves between CPUs,
        the times of these add up to that only about."""
        term = wanted.plan.terms[0]
        running = own.enabled if term.attributes.type == Type.SOFTWARE else own.running
        return Count(role=wanted.name, value=round(own.value * term.factor), enabled=own.enabled, running=running)

    def _rest(self, others: Iterable[Sums]) -> Sums:
        """What is left of the sum over all threads."""
        assert self._sampler is not None
        total = NOTHING
        for fd in self._sampler.fds:
            reading = self._kernel.read_values(fd, 1)
            if reading is not None:
                total = added(total, Sums(reading.values[0], reading.enabled, reading.running))
        rest = [whole - sum(parts) for whole, *parts in zip(total, *others, strict=True)]
        # the sum of times enabled is that of both CPUs' events, so it says nothing of one thread
        return Sums(rest[0], rest[2], rest[2])


def permitted(event: Attributes, opened: Callable[[Attributes], Sampler]) -> Sampler:
    """A sampler of the event, without the kernel's part where this user may not see it. Raises `UnsupportedError`."""
    try:
        return opened(event)
    except UnsupportedError:
        return opened(msgspec.structs.replace(event, exclude_kernel=True, exclude_hv=True))


class Sums(NamedTuple):
    """A count and its times, over several CPUs."""

    value: int
    enabled: int
    running: int


NOTHING = Sums(0, 0, 0)


def added(one: Sums, other: Sums) -> Sums:
    """Of two CPUs: each event is enabled while its thread runs anywhere, and counts while it runs on its CPU."""
    return Sums(one.value + other.value, max(one.enabled, other.enabled), one.running + other.running)


def online_cpus() -> tuple[int, ...]:
    """All CPUs that are on: a program may choose others than this process has."""
    return Tree(Path("/")).value("sys/devices/system/cpu/online", parse_cpu_list) or (0,)


def with_work(timeline: Timeline, counts: Mapping[int, Count]) -> Timeline:
    """The timeline with the work of its threads; those that no sample named are threads as well."""
    known = {thread.number: thread for thread in timeline.threads}
    for number, count in counts.items():
        thread = known.get(number, Thread(number=number, name="", cpu_seconds=0.0))
        known[number] = msgspec.structs.replace(thread, counts={**thread.counts, count.role: count})
    return msgspec.structs.replace(timeline, threads=tuple(known[number] for number in sorted(known)))
