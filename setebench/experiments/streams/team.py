"""Streams on one CPU or several at once: memory of their own, first touch, synchronised runs.

Long-running measurements, unlike most of setebench: a bandwidth is what many accesses share. All threads start together
(`Machine.run_together`), and the time counts until the last has ended; how long all ran at once is reported with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS, nodes_for, widths_of
from setebench.kernels import BLOCK_BYTES, MOST_ARRAY_BYTES, Kernel, array_spacing
from setebench.machine import BindsMemory, Region, Ticks, run_on
from setebench.probe import Base, Probe
from setebench.scenario import Context


@dataclass(frozen=True)
class Stream:
    """What every thread runs: a pass of a kernel over arrays of so many bytes each, with accesses of `width` bytes, in
    one form of its loop."""

    kernel: Kernel
    width: int
    array_bytes: int
    rolled: bool = False

    @property
    def program_bytes(self) -> int:
        """Bytes that the program moves in a pass of one thread."""
        return self.array_bytes // BLOCK_BYTES * self.kernel.program_bytes

    def probe(self, base: Base, several: bool) -> Probe:
        """Interval 0 is the stream; of `several` threads interval 1 is how long one then waits for the last."""
        one = Probe().stream(base, self.kernel.name, self.array_bytes, self.width, rolled=self.rolled)
        # the fence: stores that are still on their way belong to the time
        timed = (Probe().start(0, dither=False) + one).fence().stop(0)
        return timed.start(1, dither=False).barrier().stop(1) if several else timed


@dataclass(frozen=True)
class Timing:
    """Ticks of every repetition and thread, shape (repetitions, threads), of `bytes_each` program bytes per thread.

    `waits` are the ticks, of the same shape, that each thread then waited for the last one. All were let go at once, so
    they say when threads began and ended beside each other, without comparing the clocks of different CPUs."""

    ticks: Ticks
    waits: Ticks
    bytes_each: int
    ticks_per_second: float

    def then(self, later: Timing) -> Timing:
        """These repetitions and later ones of the same stream."""
        ticks, waits = np.vstack([self.ticks, later.ticks]), np.vstack([self.waits, later.waits])
        return Timing(ticks, waits, self.bytes_each, self.ticks_per_second)

    def _spans(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """From the first start to the last end, from the last start to the first end, and between the first and the
        last start; ticks, shape (repetitions,)."""
        ends = -self.waits.astype(np.float64)
        starts = ends - self.ticks
        first, last = starts.min(axis=1), starts.max(axis=1)
        return ends.max(axis=1) - first, ends.min(axis=1) - last, last - first

    def seconds(self) -> NDArray[np.float64]:
        """From the start of the first thread to the end of the last, shape (repetitions,)."""
        return np.asarray(self._spans()[0] / self.ticks_per_second)

    def gigabytes_per_second(self) -> NDArray[np.float64]:
        """10^9 program bytes per second of all threads together, shape (repetitions,)."""
        return np.asarray(self.bytes_each * self.ticks.shape[1] / self.seconds() / 1e9)

    def overlap(self) -> NDArray[np.float64]:
        """Share of each repetition's time in which every thread ran, shape (repetitions,)."""
        whole, together, _ = self._spans()
        return np.asarray(np.maximum(together, 0.0) / whole)

    def start_microseconds(self) -> NDArray[np.float64]:
        """Between the starts of the first and the last thread, shape (repetitions,)."""
        return np.asarray(self._spans()[2] / self.ticks_per_second * 1e6)


class Team:
    """Threads on some CPUs, each with memory of its own for streams of up to `bytes_each` bytes."""

    def __init__(
        self, context: Context, cpus: Sequence[int], bytes_each: int | Mapping[int, int], *, remote: bool = False
    ) -> None:
        """Every thread touches its own memory first, so that it lies on its CPU's memory node; with `remote` it is
        bound to the farthest one instead. `bytes_each` may differ by CPU.

        Raises `UnsupportedError` where there is less memory, or none further away."""
        self._context = context
        self.budget: Budget | None = None
        """What the runs cost is taken off it."""
        self.cpus = tuple(cpus)
        self.regions: list[Region] = []
        self._owner = True
        try:
            for cpu in self.cpus:
                size = bytes_each if isinstance(bytes_each, int) else bytes_each[cpu]
                self.regions.append(self._remote(cpu, size) if remote else self._local(size))
            for cpu, region in zip(self.cpus, self.regions, strict=True):
                touch(context, region, cpu)  # the data then comes by the `store` kernel (`fill`)
            if remote:
                self._check_remote()
        except BaseException:
            self.close()
            raise
        self.bases = [Base(f"arrays{number}") for number in range(len(self.cpus))]

    def part(self, cpus: Sequence[int]) -> Team:
        """Threads on some of the CPUs as a team of their own, which uses the same memory for as long as this one has
        it."""
        part = copy(self)
        part._owner = False
        part.cpus = tuple(cpus)
        part.regions = [self.regions[self.cpus.index(cpu)] for cpu in cpus]
        part.bases = [self.bases[self.cpus.index(cpu)] for cpu in cpus]
        return part

    def close(self) -> None:
        """Give the memory back."""
        for region in self.regions if self._owner else ():
            self._context.machine.release(region)
        self.regions = []

    def _local(self, size: int) -> Region:
        machine = self._context.machine
        return machine.allocate(size, max(machine.facts.page_sizes), populate=False)

    def _remote(self, cpu: int, size: int) -> Region:
        machine, nodes = self._context.machine, nodes_for(self._context.machine.facts, cpu)
        if nodes is None or not isinstance(machine, BindsMemory):
            raise UnsupportedError(f"{machine.facts.name} has no memory further from CPU {cpu} than its own")
        return machine.allocate_on(size, max(machine.facts.page_sizes), nodes[1])

    def _check_remote(self) -> None:
        """Raise `UnsupportedError` if the system put pages elsewhere all the same."""
        machine = self._context.machine
        assert isinstance(machine, BindsMemory)
        for cpu, region in zip(self.cpus, self.regions, strict=True):
            nodes = nodes_for(machine.facts, cpu)
            places = {machine.node_of(region, offset) for offset in (0, region.size // 2, region.size - 1)}
            if nodes is None or places - {nodes[1], None}:
                raise UnsupportedError(f"memory bound to node {nodes and nodes[1]} lies on {sorted(map(str, places))}")

    def fill(self, kernel: Kernel, width: int, array_bytes: int) -> None:
        """Numbers other than zero into every array that a stream will use."""
        probes = {}
        for cpu, base in zip(self.cpus, self.bases, strict=True):
            probe = Probe()
            for array in range(kernel.arrays):
                probe = probe.stream(base + array * array_spacing(array_bytes), "store", array_bytes, width)
            probes[cpu] = probe.fence()
        self._run(probes, 1)
        self._spend(kernel.arrays * array_bytes)

    def fill_all(self) -> None:
        """Numbers other than zero into all memory of every thread, whatever arrays will lie there."""
        facts = self._context.machine.facts
        width = WIDTHS[widths_of(facts)[0]]
        sizes = sorted({region.size // BLOCK_BYTES * BLOCK_BYTES for region in self.regions})
        for first, end in pairwise([0, *sizes]):
            cpus = [cpu for cpu, region in zip(self.cpus, self.regions, strict=True) if region.size >= end]
            self.part(cpus)._fill_between(first, end, width)

    def _fill_between(self, first: int, end: int, width: int) -> None:
        """Numbers into the bytes from `first` to `end` of every thread's memory."""
        for at in range(first, end, MOST_ARRAY_BYTES):
            size = min(MOST_ARRAY_BYTES, end - at)
            pairs = zip(self.cpus, self.bases, strict=True)
            self._run({cpu: Probe().stream(base + at, "store", size, width).fence() for cpu, base in pairs}, 1)
            self._spend(size)

    def time(self, stream: Stream, repetitions: int, untimed: int = 1) -> Timing:
        """A pass on every CPU at once, timed `repetitions` times after so many `untimed` ones."""
        probes = {cpu: stream.probe(base, len(self.cpus) > 1) for cpu, base in zip(self.cpus, self.bases, strict=True)}
        found = self._run(probes, repetitions + untimed)
        ticks = np.column_stack([found[cpu][untimed:, 0] for cpu in self.cpus])
        several = len(self.cpus) > 1
        waits = np.column_stack([found[cpu][untimed:, 1] for cpu in self.cpus]) if several else np.zeros_like(ticks)
        done = stream.program_bytes
        self._spend(done * (repetitions + untimed), ticks)
        return Timing(ticks, waits, done, self._context.machine.facts.ticks_per_second)

    def _spend(self, bytes_each: int, ticks: Ticks | None = None) -> None:
        if self.budget is not None:
            self.budget.spend(bytes_each * len(self.cpus), ticks)

    def _run(self, probes: dict[int, Probe], repetitions: int) -> dict[int, Ticks]:
        pairs = zip(self.bases, self.regions, strict=True)
        placements = {base: np.full(repetitions, region.address) for base, region in pairs}
        return run_on(self._context.machine, probes, placements)


def touch(context: Context, region: Region, cpu: int | None) -> None:
    """A store to every page: those that were only read may all be one page of zeros."""
    base, page = Base("page"), min(context.machine.facts.page_sizes)
    stores = Probe().repeat(region.size // page, Probe().store(base), advance=page)
    context.machine.run(stores, {base: [region.address]}, cpu=cpu)


def array_bytes_for(kernel: Kernel, total: float) -> int:
    """Bytes of each array, so that all together have about `total`: whole blocks, a power of two in random order."""
    blocks = max(1, round(total / kernel.arrays / BLOCK_BYTES))
    if kernel.random:
        blocks = 1 << (blocks.bit_length() - 1)
    return blocks * BLOCK_BYTES
