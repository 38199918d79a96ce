"""Useful work of each thread, by one event that threads inherit and whose count the kernel reports as each ends.

An inherited event adds up over all threads. With `inherit_stat` the kernel keeps it apart for each and writes a record
as a thread ends (perf_event_open(2)), but for one of them: the one that had the event which the others inherited from,
as it ended. That need not be the first thread, as the kernel exchanges events of threads that are alike when it
switches between them. It has what is left of the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import msgspec

from setebench.counters.protocol import Count
from setebench.diagnose.observing.time_samples import online
from setebench.diagnose.params import Params
from setebench.diagnose.records import Thread, Timeline
from setebench.errors import UnsupportedError
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Type
from setebench.native.perf.program.opened import Counters
from setebench.native.perf.program.wanted import Wanted
from setebench.native.perf.sampling import Sampler, Started, ThreadCount, permitted


def choice(wanted: Sequence[Wanted], roles: Sequence[str]) -> Wanted | None:
    """The first of these roles that one event of threads counts; None where there is none. A role that is the sum of
    several events would take several counters for all of the time."""
    known = {each.name: each for each in wanted if not each.plan.reason and each.of_threads}
    return next((known[role] for role in roles if role in known and len(known[role].plan.terms) == 1), None)


class WorkByThread(AbstractContextManager["WorkByThread"]):
    """Counts one role for each thread of a program that is started (a `native.perf.program.run.Beside`). A context
    manager; without a role it does nothing."""

    def __init__(self, wanted: Wanted | None) -> None:
        self._wanted = wanted
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
        flags = dict.fromkeys(("disabled", "inherit", "inherit_stat", "enable_on_exec", "task", "sample_id_all"), True)
        event = msgspec.structs.replace(self._wanted.plan.terms[0].attributes, **flags)
        try:
            pages = Params().record_pages
            self._sampler = permitted(event, lambda each: Sampler(each, process, online(), pages))
        except UnsupportedError:
            self._sampler = None

    def tick(self, now: float) -> None:
        """Empty the buffers."""
        for record in self._sampler.drain() if self._sampler is not None else ():
            if isinstance(record, ThreadCount):
                self._ended.append(record)
            elif isinstance(record, Started):
                self._threads.add(record.tid)

    def added_to(self, timeline: Timeline) -> Timeline:
        """The timeline of the program, which has ended, with the work of its threads; those that no sample named are
        threads as well."""
        known = {thread.number: thread for thread in timeline.threads}
        for number, count in self._counts().items():
            thread = known.get(number, Thread(number=number, name="", cpu_seconds=0.0))
            known[number] = msgspec.structs.replace(thread, counts={**thread.counts, count.role: count})
        return msgspec.structs.replace(timeline, threads=tuple(known[number] for number in sorted(known)))

    def _counts(self) -> Mapping[int, Count]:
        """The count of each thread by its number; none where any record was lost. Of two CPUs each event is enabled
        while its thread runs anywhere, and counts while it runs on its CPU."""
        self.tick(0.0)
        if self._sampler is None or self._wanted is None or self._sampler.lost:
            return {}
        sums: dict[int, tuple[int, int, int]] = {}
        for tid, value, enabled, running in self._ended:
            before = sums.get(tid, (0, 0, 0))
            sums[tid] = before[0] + value, max(before[1], enabled), before[2] + running
        left = self._threads - set(sums)
        if len(left) > 1:
            return {}
        for tid in left:
            readings = [reading for fd in self._sampler.fds if (reading := _perf.read_values(fd, 1)) is not None]
            value = sum(reading.values[0] for reading in readings) - sum(each[0] for each in sums.values())
            running = sum(reading.running for reading in readings) - sum(each[2] for each in sums.values())
            # times enabled are those of all CPUs' events, so their sum says nothing of one thread
            sums[tid] = value, running, running
        return {tid: self._count(self._wanted, each) for tid, each in sums.items()}

    @staticmethod
    def _count(wanted: Wanted, own: tuple[int, int, int]) -> Count:
        """What a software event counts needs no counter, so it had one all the time: where a thread moves between CPUs,
        the times of these add up to that only about."""
        (term,), (value, enabled, running) = wanted.plan.terms, own
        running = enabled if term.attributes.type == Type.SOFTWARE else running
        return Count(role=wanted.name, value=round(value * term.factor), enabled=enabled, running=running)
