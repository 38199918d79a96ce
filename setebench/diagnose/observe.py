"""Observing a program, a process or a function of Python: counts by interval, samples of time, how it ended.

Counting is `core.perf.program`'s; beside it each CPU has a buffer for samples of the program's time, which is emptied
at the end of every interval and only understood when the program has ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from resource import RUSAGE_CHILDREN, getrusage

import msgspec

from setebench.core.perf.attributes import Attributes, Sample, Software, Type
from setebench.core.perf.kernel import Kernel
from setebench.core.perf.messages import Situation
from setebench.core.perf.program.opened import Counters
from setebench.core.perf.program.run import Job, Programs
from setebench.core.perf.program.wanted import Wanted
from setebench.core.perf.program.watch import threads_of
from setebench.core.perf.sampling import LoadEvent, LoadSampler, Record, Sampler, for_program, load_event
from setebench.core.perf.sysfs import Pmu
from setebench.counters import counted
from setebench.counters.counted import Run, regions
from setebench.diagnose.profile import Memory, Profile, mapped_now
from setebench.diagnose.records import Hit, Interval, Region, Thread, Timeline, summed
from setebench.diagnose.turns import Sets, Turns, resting
from setebench.errors import UnsupportedError

SAMPLE_TYPE = Sample.IP | Sample.TID | Sample.TIME
LOADS_HZ = 997
"""Sampled loads a second and CPU, where the CPU samples any: about a microsecond each (PEBS, IBS)."""
LEAST_LOAD_CYCLES = 30
"""Loads that L1 and L2 serve at once are not asked for: what is looked for are those that memory served."""
MONOTONIC = 1
"""CLOCK_MONOTONIC of clock_gettime(2), the clock of `time.monotonic_ns`: records and intervals have one time."""

MOST_INTERVALS = 600
"""In a timeline; of a longer run neighbours are added up. More than a plot shows, and a file of some 100 KiB."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How closely to observe. `interval`: seconds between two reads of the counters, about 0.2 ms each. `samples_hz`:
    samples of time a second and CPU, 0 for none; about 20 us each, so 199 take 0.4 %, and a prime number keeps step
    with nothing that the program does regularly. `limit`: seconds after which to end, None for none."""

    interval: float = 0.1
    samples_hz: int = 199
    limit: float | None = None


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What observing needs: the kernel's calls, what the system allows, what is to be counted, and in which sets by
    turns, where not all fits at once."""

    kernel: Kernel
    situation: Situation
    wanted: tuple[Wanted, ...]
    sets: Sets = ()


def observe_program(kit: Kit, wish: Wish, command: Sequence[str]) -> tuple[Timeline, Run]:
    """Start a program and observe it and all that it starts to its end.

    Raises as `core.perf.program.run.Programs.run` does."""
    with TimeSampling(kit.kernel, wish, pmus=kit.situation.pmus) as sampling:
        before = _children_seconds()
        job = Job(wanted=kit.wanted, interval=wish.interval, limit=wish.limit)
        run, _events = Programs(kit.kernel, kit.situation, _Both(sampling, kit)).run(job, command)
        user, system = (after - past for after, past in zip(_children_seconds(), before, strict=True))
        timeline = timeline_of(kit, run, sampling, tuple(command))
    return msgspec.structs.replace(timeline, user_seconds=user, system_seconds=system), run


def observe_process(kit: Kit, wish: Wish, process: int) -> tuple[Timeline, Run]:
    """Observe a process that runs already, and what it starts, until it ends, the time is over, or a signal comes.

    Raises as `core.perf.program.run.Programs.attach` does."""
    name = _command_of(process)
    with TimeSampling(kit.kernel, wish, attached=True, pmus=kit.situation.pmus) as sampling:
        job = Job(wanted=kit.wanted, interval=wish.interval, limit=wish.limit)
        run, _events = Programs(kit.kernel, kit.situation, _Both(sampling, kit)).attach(job, process)
        return timeline_of(kit, run, sampling, name), run


class _Both:
    """Samples and turns, beside counting."""

    def __init__(self, sampling: TimeSampling, kit: Kit) -> None:
        self._all = (sampling, Turns(kit.kernel, kit.sets))

    def open(self, process: int, counters: Counters) -> None:
        for each in self._all:
            each.open(process, counters)

    def tick(self, now: float) -> None:
        for each in self._all:
            each.tick(now)


def _children_seconds() -> tuple[float, float]:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def _command_of(process: int) -> tuple[str, ...]:
    with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        return tuple(word.decode(errors="replace") for word in file.read().split(b"\0") if word)
    return (f"process {process}",)


# -- samples of time ----------------------------------------------------------------------------------------------


class TimeSampling:
    """Samples of a program's time by the CPU clock, and of its loads where the CPU takes such; one buffer a CPU. A
    context manager; `reason` says why there are none of time, where there are none."""

    def __init__(
        self, kernel: Kernel, wish: Wish, attached: bool = False, pmus: Mapping[str, Pmu] | None = None
    ) -> None:
        self._kernel, self._hz, self._attached = kernel, wish.samples_hz, attached
        self._load_event = _load_event(pmus or {})
        self._samplers: list[Sampler] = []
        self._records: list[Record] = []
        self._memories: dict[int, Memory] = {}
        self.begin_ns = time.monotonic_ns()
        self.reason = "" if wish.samples_hz else "no samples were asked for"

    def __enter__(self) -> TimeSampling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, process: int, counters: Counters) -> None:
        """Of a program that waits for its exec: from there on, with all that it starts. Of one that runs: of the
        threads that it has now."""
        if self._hz:
            try:
                self._open(process)
            except UnsupportedError as error:
                self.reason = str(error)
                self.close()
        self.begin_ns = time.monotonic_ns()

    def _open(self, process: int) -> None:
        if not self._attached:
            self._add(time_event(self._hz, inherit=True, on_exec=True), process, usable_cpus())
            return
        self.open_threads(process, threads_of(process))

    def open_threads(self, process: int, threads: Sequence[int], parents: Sequence[int] = ()) -> None:
        """Sample these threads of a process, and what those among `parents` start from now on.

        Raises `UnsupportedError` where the kernel refuses."""
        self._memories[process] = mapped_now(process)
        for thread in threads:
            inherit = thread in parents  # which a buffer for each CPU allows, and one for all of them does not
            self._add(time_event(self._hz, inherit=inherit), thread, usable_cpus() if inherit else (-1,))
        for sampler in self._samplers:
            sampler.enable()

    def _add(self, attributes: Attributes, thread: int, cpus: tuple[int, ...]) -> None:
        """Open the event, without the kernel's part where this user may not see it."""
        try:
            self._samplers.append(Sampler(attributes, thread, cpus, kernel=self._kernel))
        except UnsupportedError:
            user = msgspec.structs.replace(attributes, exclude_kernel=True, exclude_hv=True)
            self._samplers.append(Sampler(user, thread, cpus, kernel=self._kernel))
        if self._load_event is not None:
            loads = for_program(self._load_event, attributes)
            with suppress(UnsupportedError):  # without a right to them there are none, and findings say so
                self._samplers.append(LoadSampler(loads, thread, cpus, kernel=self._kernel))

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
        found = Profile(self.begin_ns, 1 / self._hz if self._hz else 0.0, self._memories)
        found.add_all(self._records)
        return found

    def close(self) -> None:
        """Close all buffers. May be called twice."""
        for sampler in self._samplers:
            sampler.close()


def _load_event(pmus: Mapping[str, Pmu]) -> LoadEvent | None:
    try:
        return load_event(pmus, LOADS_HZ, LEAST_LOAD_CYCLES)
    except UnsupportedError:
        return None


def time_event(samples_hz: int, *, inherit: bool, on_exec: bool = False) -> Attributes:
    """A sample of where a thread is, so many times in a second on a CPU, with records of what it maps and starts."""
    return Attributes(
        type=Type.SOFTWARE,
        config=Software.CPU_CLOCK,
        sample_period=round(1e9 / samples_hz),
        sample_type=SAMPLE_TYPE,
        disabled=True,
        inherit=inherit,
        enable_on_exec=on_exec,
        mmap=True,
        mmap2=True,
        comm=True,
        comm_exec=True,
        task=True,
        sample_id_all=True,
        use_clockid=True,
        clockid=MONOTONIC,
    )


def usable_cpus() -> tuple[int, ...]:
    """CPUs on which a program may run: those of this process, which it inherits; it may only choose fewer."""
    return tuple(sorted(os.sched_getaffinity(0)))


# -- the timeline -------------------------------------------------------------------------------------------------


def timeline_of(kit: Kit, run: Run, sampling: TimeSampling, program: tuple[str, ...]) -> Timeline:
    """What was counted and sampled, put together."""
    profile = sampling.profile()
    rows = [_interval(each, kit.sets) for each in run.intervals]
    intervals = rows if kit.sets else joined(rows, MOST_INTERVALS)  # sums over turns would lack all of them
    hits = profile.hits([each.end for each in intervals])
    return Timeline(
        program=program,
        intervals=tuple(intervals),
        roles={each.name: run.counts[each.name].reason for each in kit.wanted},
        hits=hits,
        loads=profile.loads(),
        threads=threads_seen(hits, profile.names),
        regions=tuple(
            Region(name=each.name, calls=each.calls, seconds=each.seconds, counts=each.counts)
            for each in regions(run.regions)
        ),
        unsampled=sampling.reason or ("" if hits else "the program took too little CPU time for a sample"),
        lost_samples=sampling.lost,
        ending=ending_text(run),
    )


def _interval(row: counted.Interval, sets: Sets) -> Interval:
    return Interval(start=row.begin, end=row.end, counts=resting(row.counts, sets))


def joined(intervals: Sequence[Interval], most: int) -> list[Interval]:
    """At most so many intervals: neighbours added up where there are more."""
    size = -(-len(intervals) // most)
    if size <= 1:
        return list(intervals)
    groups = [intervals[first : first + size] for first in range(0, len(intervals), size)]
    return [_added(group) for group in groups]


def _added(group: Sequence[Interval]) -> Interval:
    roles = tuple(dict.fromkeys(role for each in group for role in each.counts))
    return Interval(start=group[0].start, end=group[-1].end, counts=summed([each.counts for each in group], roles))


def threads_seen(hits: Sequence[Hit], names: dict[int, str]) -> tuple[Thread, ...]:
    """Threads by the samples that named them, in the order of their numbers."""
    seconds: dict[int, float] = {}
    for hit in hits:
        seconds[hit.thread] = seconds.get(hit.thread, 0.0) + hit.seconds
    return tuple(
        Thread(number=number, name=names.get(number, ""), cpu_seconds=seconds[number]) for number in sorted(seconds)
    )


def ending_text(run: Run) -> str:
    """How the program ended, in words."""
    if run.signal is not None:
        return f"killed by signal {run.signal}"
    return "" if run.status is None else f"exit status {run.status}"
