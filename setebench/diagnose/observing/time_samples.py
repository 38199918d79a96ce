"""Samples of a program's time, and of its loads where the CPU takes such: buffers emptied at every interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

import msgspec

from setebench.diagnose.observing.memory import Memory, mapped_now
from setebench.diagnose.observing.profile import Profile
from setebench.diagnose.observing.work import online_cpus, permitted
from setebench.diagnose.params import Params
from setebench.errors import UnsupportedError
from setebench.native.perf.attributes import Attributes, Sample, Software, Type
from setebench.native.perf.kernel import Kernel
from setebench.native.perf.program.opened import Counters
from setebench.native.perf.program.watch import threads_of
from setebench.native.perf.sampling import LoadEvent, LoadSampler, Record, Sampler, for_program, load_event
from setebench.native.perf.sysfs import Pmu

SAMPLE_TYPE = Sample.IP | Sample.TID | Sample.TIME


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

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, process: int, counters: Counters) -> None:
        """Of a program that waits for its exec: from there on, with all that it starts. Of one that runs: of the
        threads that it has now."""
        if self._attached:
            self.open_threads(process, threads_of(process))
        else:
            self._unless_refused(lambda: self._add(self._event(inherit=True, on_exec=True), process, online_cpus()))

    def open_threads(self, process: int, threads: Sequence[int], parents: Sequence[int] = ()) -> None:
        """Sample these threads of a process, and what those among `parents` start from now on."""
        self._unless_refused(lambda: self._open_threads(process, threads, parents))

    def _unless_refused(self, opening: Callable[[], None]) -> None:
        """Where the kernel refuses there are no samples."""
        if self._hz:
            try:
                opening()
            except UnsupportedError as error:
                self.reason = str(error)
                self.close()
        self.begin_ns = time.monotonic_ns()

    def _open_threads(self, process: int, threads: Sequence[int], parents: Sequence[int]) -> None:
        self._memories[process] = mapped_now(process)
        for thread in threads:
            inherit = thread in parents  # which a buffer for each CPU allows, and one for all of them does not
            self._add(self._event(inherit=inherit), thread, online_cpus() if inherit else (-1,))
        for sampler in self._samplers:
            sampler.enable()

    def _event(self, *, inherit: bool, on_exec: bool = False) -> Attributes:
        """Samples of time; records of mapped data as well where loads are sampled, whose addresses lie there."""
        event = time_event(self._hz, inherit=inherit, on_exec=on_exec)
        return msgspec.structs.replace(event, mmap_data=self._load_event is not None)

    def _add(self, attributes: Attributes, thread: int, cpus: tuple[int, ...]) -> None:
        self._samplers.append(permitted(attributes, lambda event: Sampler(event, thread, cpus, kernel=self._kernel)))
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
        return load_event(pmus, Params().loads_hz, Params().least_load_cycles)
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
        clockid=time.CLOCK_MONOTONIC,  # as `time.monotonic_ns` has it: records and intervals have one time
    )
