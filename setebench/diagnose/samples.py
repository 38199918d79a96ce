"""Samples of a program's time: buffers that are emptied at every interval, and the places that samples name."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from pathlib import Path

from setebench.diagnose.records import UNKNOWN, Hit, Place
from setebench.diagnose.symbols import At, source_lines, symbols, written_code
from setebench.errors import UnsupportedError
from setebench.host.tree import Tree, parse_cpu_list
from setebench.native.perf.attributes import Attributes, Flag, Software, Type
from setebench.native.perf.opened import Counters
from setebench.native.perf.program.run import threads_of
from setebench.native.perf.sampling import ANY_CPU, Mapped, Record, Renamed, Sampler, SampleRecord, Started

KERNEL = "[kernel]"
ANONYMOUS = "//anon"
"""What the kernel's records call memory that is of no file; /proc has no name for it."""
MOST_LINES = 400
"""Hottest addresses whose source lines are looked up."""
RECORDS = Flag.MMAP | Flag.MMAP2 | Flag.COMM | Flag.COMM_EXEC | Flag.TASK
"""What a program maps, what its threads are called, and which it starts."""


class TimeSampling(AbstractContextManager["TimeSampling"]):
    """Samples of a program's time by the CPU clock, one buffer a CPU or thread. A context manager; `reason` says why
    there are none, where there are none."""

    def __init__(self, samples_hz: int, attached: bool = False) -> None:
        self._hz, self._attached = samples_hz, attached
        self._samplers: list[Sampler] = []
        self._records: list[Record] = []
        self._mapped: list[Mapped] = []
        self._begin_ns = 0
        self.reason = "" if samples_hz else "no samples were wanted"

    def __exit__(self, *_: object) -> None:
        for sampler in self._samplers:
            sampler.close()

    def open(self, process: int, counters: Counters) -> None:
        """Of a program that waits for its exec: from there on, with all that it starts. Of one that runs: of the
        threads that it has now."""
        if self._attached:
            self.open_threads(process, threads_of(process))
        else:
            flags = Flag.INHERIT | Flag.ENABLE_ON_EXEC
            self._unless_refused(lambda: self._samplers.append(Sampler(self._event(flags), process, online())))

    def open_threads(self, process: int, threads: Sequence[int], parents: Sequence[int] = ()) -> None:
        """Sample these threads of a process, and what those among `parents` start from now on."""

        def opening() -> None:
            self._mapped = mapped_now(process)
            for thread in threads:
                inherit = thread in parents  # which a buffer for each CPU allows, and one for all of them does not
                event, cpus = self._event(Flag.INHERIT * inherit), online() if inherit else ANY_CPU
                self._samplers.append(Sampler(event, thread, cpus))
            for sampler in self._samplers:
                sampler.switch(True)

        self._unless_refused(opening)

    def _event(self, flags: int) -> Attributes:
        """A sample of where a thread is, so many times in a second on a CPU, at rest."""
        period = round(1e9 / self._hz)
        flags |= RECORDS | Flag.DISABLED
        return Attributes(type=Type.SOFTWARE, config=Software.CPU_CLOCK, sample_period=period, flags=flags)

    def _unless_refused(self, opening: Callable[[], None]) -> None:
        """Where the kernel refuses there are no samples."""
        if self._hz:
            try:
                opening()
            except UnsupportedError as error:
                self.reason = str(error)
                self.__exit__()
        self._begin_ns = time.monotonic_ns()

    def tick(self, now: float) -> None:
        """Empty the buffers."""
        for sampler in self._samplers:
            self._records += sampler.drain()

    @property
    def lost(self) -> int:
        """Samples that found no room."""
        return sum(sampler.lost for sampler in self._samplers)

    def profile(self) -> Profile:
        """All samples so far."""
        self.tick(0.0)
        found = Profile(self._begin_ns, 1 / self._hz if self._hz else 0.0, self._mapped)
        found.add_all(self._records)
        return found


def online() -> tuple[int, ...]:
    """CPUs that are online: a thread may move to any of them."""
    return Tree(Path("/")).value("sys/devices/system/cpu/online", parse_cpu_list) or (0,)


def mapped_now(process: int) -> list[Mapped]:
    """What a running process has mapped, as /proc says; nothing where it has ended."""
    found = []
    with suppress(OSError, ValueError), open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            span, _, offset, _, inode, *path = line.rstrip("\n").split(maxsplit=5)
            start, end = (int(part, 16) for part in span.split("-"))
            found.append(Mapped(0, process, start, end, int(offset, 16), "".join(path), int(inode)))
    return found


class Profile:
    """Samples of a program and of what it started, put together from records in the order of time."""

    def __init__(self, begin_ns: int, seconds_each: float, mapped: Iterable[Mapped] = ()) -> None:
        """`begin_ns`: when the program began, on the clock of the records; `seconds_each`: what a sample stands for;
        `mapped`: what processes had mapped by then."""
        self._begin_ns, self._seconds_each = begin_ns, seconds_each
        self._memories: dict[int, list[Mapped]] = defaultdict(list)
        for each in mapped:
            self._memories[each.pid].append(each)
        self.names: dict[int, str] = {}
        """Names of threads by number, as far as records said."""
        self._samples: list[tuple[SampleRecord, Mapped | None]] = []

    def add_all(self, records: Iterable[Record]) -> None:
        """Records of all buffers, in any order. A later mapping hides what it overlaps of earlier ones."""
        for record in sorted(records, key=lambda each: each.time):
            if isinstance(record, SampleRecord):
                memory = () if record.in_kernel else reversed(self._memories[record.pid])
                place = next((each for each in memory if each.start <= record.ip < each.end), None)
                self._samples.append((record, place))
            elif isinstance(record, Mapped):
                self._memories[record.pid].append(record)
            elif isinstance(record, Renamed):
                self.names[record.tid] = record.name
                if record.of_exec:
                    self._memories[record.pid] = []
            elif isinstance(record, Started):
                self.names.setdefault(record.tid, self.names.get(record.parent_tid, ""))
                if record.pid != record.parent_pid:
                    self._memories[record.pid] = list(self._memories[record.parent_pid])

    def hits(self, ends: Sequence[float]) -> tuple[Hit, ...]:
        """Samples of time by interval, thread and place; `ends` are the ends of the intervals, seconds."""
        if not ends:
            return ()
        written = {process: written_code(process) for process in {sample.pid for sample, _ in self._samples}}
        begun = time.time() - (time.monotonic_ns() - self._begin_ns) / 1e9
        at = [_in_file(sample, mapping, begun) for sample, mapping in self._samples]
        lines = source_lines(each for each, _ in Counter(filter(None, at)).most_common(MOST_LINES))
        counts: Counter[tuple[int, int, Place]] = Counter()
        for (sample, mapping), where in zip(self._samples, at, strict=True):
            interval = min(bisect_right(ends, (sample.time - self._begin_ns) / 1e9), len(ends) - 1)
            place = Place(function=KERNEL, object=KERNEL)
            if not sample.in_kernel:
                # generated code may lie in a file (memfd) too
                name = (where and _function_at(where)) or written[sample.pid].at(sample.ip) or UNKNOWN
                file = UNKNOWN if mapping is None else mapping.path or ANONYMOUS
                place = Place(function=name, object=file, line=lines.get(where, "") if where else "")
            counts[interval, sample.tid, place] += 1
        return tuple(
            Hit(interval=interval, thread=thread, place=place, samples=number, seconds=number * self._seconds_each)
            for (interval, thread, place), number in sorted(counts.items(), key=lambda each: each[0][:2])
        )


@lru_cache(maxsize=256)
def _replaced(path: str, inode: int, begun: float) -> bool:
    """Whether another file has the path than the program mapped. One that has not changed since then was not replaced,
    whatever its inode is: file systems that lie over others have two numbers for a file."""
    try:
        found = os.stat(path)
    except OSError:  # a file that is gone has no symbols
        return False
    return inode not in (0, found.st_ino) and found.st_ctime > begun


def _in_file(sample: SampleRecord, mapping: Mapped | None, begun: float) -> At | None:
    """Where in a file the code of a sample lies; None of code in no file, or in one that was replaced meanwhile."""
    if sample.in_kernel or mapping is None or not mapping.path.startswith("/") or mapping.path.startswith("//"):
        return None
    if _replaced(mapping.path, mapping.inode, begun):
        return None
    return mapping.path, sample.ip - mapping.start + mapping.offset


def _function_at(at: At) -> str | None:
    path, offset = at
    table = symbols(path)
    return None if table is None else table.name(offset)
