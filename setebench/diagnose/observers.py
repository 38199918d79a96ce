"""What observes a program beside its counters: roles that take turns, and the useful work of each thread.

Not all roles fit into the counters of a core at once. The kernel would let events take turns by itself, but for a few
milliseconds each and at unknown times. Turns of whole intervals are known, so each figure is made of intervals in which
all of its roles were counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from setebench.counters.protocol import Count
from setebench.diagnose.records import Thread
from setebench.diagnose.samples import online
from setebench.errors import UnsupportedError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree, parse_number
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Flag, Type
from setebench.native.perf.encode import Wanted
from setebench.native.perf.opened import Counters
from setebench.native.perf.sampling import Sampler, Started, ThreadCount
from setebench.native.perf.tables import CYCLES_COUNTER, events_for, grouped

RESTING = "counted in other intervals: not all roles fit at once"
RECORD_PAGES = 4
"""Of a buffer for ending threads: some 400 per interval and CPU."""

Sets = tuple[tuple[str, ...], ...]


def sets_of(roles: Sequence[str], always: Sequence[str]) -> Sets:
    """The roles that this processor's table has, in few sets that can each be counted at once, beside those that are
    `always` counted; none where one set holds them all, or where there is no table."""
    system = Tree(Path("/"))
    known = events_for(read_processor(system))
    wanted = {role: known[role] for role in roles if role in known}
    watched = system.value("proc/sys/kernel/nmi_watchdog", parse_number) == 1
    found = grouped(wanted, {CYCLES_COUNTER} if watched else set(), always)
    return found if len(found) > 1 else ()


class Turns:
    """Switches open counters from set to set at the end of every interval (a `native.perf.program.run.Observer`)."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._counters: Counters | None = None
        self._number = 0

    def open(self, process: int, counters: Counters) -> None:
        """Nothing rests in the first interval, which may begin with the program's exec; what then shares a counter says
        so itself."""
        self._counters = counters

    def tick(self, now: float) -> None:
        """The next set's turn."""
        self._number += 1
        rests = resting(self._sets, self._number)
        if self._counters is not None:
            self._counters.switch(False, rests)
            self._counters.switch(True, {role for each in self._sets for role in each} - rests)


def resting(sets: Sets, number: int) -> set[str]:
    """Roles whose turn it is not in interval `number`."""
    if not sets or not number:
        return set()
    return {role for each in sets for role in each} - set(sets[(number - 1) % len(sets)])


def without_resting(counts: Mapping[str, Count], sets: Sets, number: int) -> dict[str, Count]:
    """The counts of interval `number`, without those of roles whose turn it was not."""
    rests = [role for role in resting(sets, number) if role in counts and counts[role].value is not None]
    return {**counts, **{role: Count(role=role, reason=RESTING) for role in rests}}


def work_event(wanted: Sequence[Wanted], roles: Sequence[str]) -> Wanted | None:
    """The first of these roles that one event of threads counts; None where there is none. A role that is the sum of
    several events would take several counters for all of the time."""
    known = {each.name: each for each in wanted if len(each.terms) == 1 and each.of_threads}
    return next((known[role] for role in roles if role in known), None)


class WorkByThread(AbstractContextManager["WorkByThread"]):
    """Counts one role for each thread of a program that is started, by one event that threads inherit and whose count
    the kernel reports as each ends (`inherit_stat`), but for one of them: what that one counted is left of the sum. A
    context manager; without a role it does nothing."""

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
        flags = Flag.DISABLED | Flag.INHERIT | Flag.INHERIT_STAT | Flag.ENABLE_ON_EXEC | Flag.TASK
        try:
            event = self._wanted.terms[0].attributes.with_flags(flags)
            self._sampler = Sampler(event, process, online(), RECORD_PAGES)
        except UnsupportedError:
            self._sampler = None

    def tick(self, now: float) -> None:
        """Empty the buffers."""
        for record in self._sampler.drain() if self._sampler is not None else ():
            if isinstance(record, ThreadCount):
                self._ended.append(record)
            elif isinstance(record, Started):
                self._threads.add(record.tid)

    def added_to(self, threads: Sequence[Thread]) -> tuple[Thread, ...]:
        """The threads of the program, which has ended, with their work; those that no sample named are threads too."""
        known = {thread.number: thread for thread in threads}
        for number, count in self._counts().items():
            thread = known.get(number, Thread(number=number, name="", cpu_seconds=0.0))
            known[number] = msgspec.structs.replace(thread, counts={**thread.counts, count.role: count})
        return tuple(known[number] for number in sorted(known))

    def _counts(self) -> dict[int, Count]:
        """The count of each thread by its number; none where any record was lost. Of the events of all CPUs each is
        enabled while its thread runs anywhere, and counts while it runs on its CPU."""
        self.tick(0.0)
        if self._sampler is None or self._wanted is None or self._sampler.lost:
            return {}
        sums: dict[int, tuple[int, int, int]] = {}
        for _, tid, value, enabled, running in self._ended:
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
        term = self._wanted.terms[0]
        # a software event needs no counter; where a thread moves, the times of its CPUs add up only about
        always = term.attributes.type == Type.SOFTWARE
        return {
            tid: Count(
                role=self._wanted.name,
                value=round(value * term.factor),
                enabled=enabled,
                running=enabled if always else running,
            )
            for tid, (value, enabled, running) in sums.items()
        }
