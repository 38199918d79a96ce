"""Samples of a program's time, and of its loads where the CPU takes such: buffers emptied at every interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from setebench.diagnose.observing.profile import Profile, mapped_now
from setebench.diagnose.params import Params
from setebench.errors import UnsupportedError
from setebench.host.tree import Tree, parse_cpu_list
from setebench.native.perf.attributes import Attributes, Sample, Software, Type
from setebench.native.perf.program.opened import Counters
from setebench.native.perf.program.watch import threads_of
from setebench.native.perf.sampling import ANY_CPU, Mapped, Record, Sampler, load_event, permitted
from setebench.native.perf.sysfs import Pmu


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How closely to observe. `interval`: seconds between two reads of the counters, about 0.2 ms each. `samples_hz`:
    samples of time a second and CPU, 0 for none; about 20 us each, so 199 take 0.4 %, and a prime number keeps step
    with nothing that the program does regularly. `limit`: seconds after which to end, None for none."""

    interval: float = 0.1
    samples_hz: int = 199
    limit: float | None = None


class TimeSampling(AbstractContextManager["TimeSampling"]):
    """Samples of a program's time by the CPU clock, and of its loads where the CPU takes such; one buffer a CPU. A
    context manager; `reason` says why there are none of time, where there are none."""

    def __init__(self, wish: Wish, attached: bool = False, pmus: Mapping[str, Pmu] | None = None) -> None:
        self._hz, self._attached = wish.samples_hz, attached
        self._loads = load_event(pmus or {}, Params().loads_hz, Params().least_load_cycles)
        self._samplers: list[Sampler] = []
        self._records: list[Record] = []
        self._mapped: list[Mapped] = []
        self._begin_ns = 0
        self.reason = "" if wish.samples_hz else "no samples were asked for"

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, process: int, counters: Counters) -> None:
        """Of a program that waits for its exec: from there on, with all that it starts. Of one that runs: of the
        threads that it has now."""
        if self._attached:
            self.open_threads(process, threads_of(process))
        else:
            self._unless_refused(lambda: self._add(time_event(self._hz, inherit=True, on_exec=True), process, online()))

    def open_threads(self, process: int, threads: Sequence[int], parents: Sequence[int] = ()) -> None:
        """Sample these threads of a process, and what those among `parents` start from now on."""

        def opening() -> None:
            self._mapped = mapped_now(process)
            for thread in threads:
                inherit = thread in parents  # which a buffer for each CPU allows, and one for all of them does not
                self._add(time_event(self._hz, inherit=inherit), thread, online() if inherit else ANY_CPU)
            for sampler in self._samplers:
                sampler.enable()

        self._unless_refused(opening)

    def _unless_refused(self, opening: Callable[[], None]) -> None:
        """Where the kernel refuses there are no samples."""
        if self._hz:
            try:
                opening()
            except UnsupportedError as error:
                self.reason = str(error)
                self.close()
        self._begin_ns = time.monotonic_ns()

    def _add(self, attributes: Attributes, thread: int, cpus: tuple[int, ...]) -> None:
        self._samplers.append(permitted(attributes, lambda event: Sampler(event, thread, cpus)))
        if self._loads is not None:
            loads = self._loads.like(attributes)
            with suppress(UnsupportedError):  # without a right to them there are none, and findings say so
                self._samplers.append(Sampler(loads.sampled, thread, cpus, leader=loads.leader))

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

    def close(self) -> None:
        """Close all buffers. May be called twice."""
        for sampler in self._samplers:
            sampler.close()


def time_event(samples_hz: int, *, inherit: bool, on_exec: bool = False) -> Attributes:
    """A sample of where a thread is, so many times in a second on a CPU, with records of what it maps and starts."""
    return Attributes(
        type=Type.SOFTWARE,
        config=Software.CPU_CLOCK,
        sample_period=round(1e9 / samples_hz),
        sample_type=Sample.IP | Sample.TID | Sample.TIME,
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
        clockid=time.CLOCK_MONOTONIC,  # as `time.monotonic_ns` has it: records and intervals have one time
    )


def online() -> tuple[int, ...]:
    """All CPUs that are on: a program may choose others than this process has."""
    return Tree(Path("/")).value("sys/devices/system/cpu/online", parse_cpu_list) or (0,)
