"""Streams on one CPU or several at once: memory of their own, first touch, synchronised runs, and checked arithmetic.

Long-running measurements, unlike most of setebench: a bandwidth is what many accesses share. All threads start together
(`Machine.run_together`), and the time counts until the last has ended; how long all ran at once is told with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError, UsageError
from setebench.kernels import BLOCK_BYTES, KERNELS, Kernel, array_spacing, reduction, stream_bytes
from setebench.machine import Facts, HoldsNumbers, Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context

WIDTHS = {"scalar": 8, "16": 16, "32": 32, "64": 64}
"""Widths as parameters name them, and the bytes of an access."""

INTERVAL_SECONDS = 40e-6
"""Shortest timed interval: threads leave a barrier within a tenth of a microsecond, and a clock step is less still."""

PLACEMENTS = ("spread", "compact")

CHECKED_BYTES = 8192


@dataclass(frozen=True)
class Timing:
    """Ticks of every repetition and thread, shape (repetitions, threads), of `bytes_each` program bytes per thread."""

    ticks: Ticks
    bytes_each: int
    ticks_per_second: float

    def gigabytes_per_second(self) -> NDArray[np.float64]:
        """10^9 program bytes per second of all threads together, shape (repetitions,)."""
        seconds = self.ticks.max(axis=1) / self.ticks_per_second
        return np.asarray(self.bytes_each * self.ticks.shape[1] / seconds / 1e9)

    def overlap(self) -> NDArray[np.float64]:
        """Share of each repetition's time in which every thread ran, shape (repetitions,)."""
        return np.asarray(self.ticks.min(axis=1) / self.ticks.max(axis=1))


def choose_cpus(facts: Facts, first: int | None, threads: int, placement: str = "spread") -> tuple[int, ...]:
    """CPUs for so many threads, the one to measure on first: `compact` fills a core's siblings before the next core,
    `spread` takes one CPU of every core before a second of any.

    Raises `UsageError` for more threads than CPUs."""
    if not 1 <= threads <= len(facts.cpus):
        raise UsageError(f"{threads} threads don't fit: {facts.name} has {len(facts.cpus)} CPUs to use")
    start = facts.cpus[-1] if first is None else first
    cores = [[cpu for cpu in group if cpu in facts.cpus] for group in facts.siblings]
    cores.sort(key=lambda group: start not in group)
    cores = [sorted(group, key=lambda cpu: cpu != start) for group in cores if group]
    depth = max(len(group) for group in cores)
    spread = [group[level] for level in range(depth) for group in cores if level < len(group)]
    ordered = spread if placement == "spread" else [cpu for group in cores for cpu in group]
    return tuple(ordered[:threads])


def widths_of(facts: Facts, asked: Sequence[str] = ()) -> list[str]:
    """The widths to measure: those asked for, else the widest. Raises `UsageError` for one that the CPU lacks."""
    offered = [name for name, size in WIDTHS.items() if size in facts.access_sizes]
    lacking = [name for name in asked if name not in offered]
    if lacking:
        raise UsageError(
            f"{facts.name} has no accesses of width {', '.join(lacking)}; it has {', '.join(offered) or 'none'}"
        )
    return list(dict.fromkeys(asked)) or offered[-1:]


def kernels_of(facts: Facts, asked: Sequence[str]) -> list[Kernel]:
    """Kernels by name. Raises `UnsupportedError` where the machine runs none or lacks one."""
    lacking = [name for name in asked if name not in facts.kernels]
    if lacking:
        offered = ", ".join(facts.kernels) or "none"
        raise UnsupportedError(f"{facts.name} has no streaming kernel {', '.join(lacking)}; it has {offered}")
    return [KERNELS[name] for name in asked]


class Team:
    """Threads on some CPUs, each with memory of its own for streams of up to `bytes_each` bytes."""

    def __init__(self, context: Context, cpus: Sequence[int], bytes_each: int) -> None:
        """Every thread touches its own memory first, so that it lies on its CPU's memory node.

        Raises `UnsupportedError` where there is less memory."""
        self._context = context
        self.cpus = tuple(cpus)
        facts = context.machine.facts
        self.regions: list[Region] = []
        try:
            for _ in self.cpus:
                region = context.machine.allocate(bytes_each, max(facts.page_sizes), populate=False)
                self.regions.append(region)
            self._touch()
        except BaseException:
            self.close()
            raise
        self.bases = [Base(f"arrays{number}") for number in range(len(self.cpus))]

    def close(self) -> None:
        """Give the memory back."""
        for region in self.regions:
            self._context.machine.release(region)
        self.regions = []

    def _touch(self) -> None:
        """One store to every page. The data then comes by the `store` kernel (`fill`)."""
        base = Base("page")
        page = min(self._context.machine.facts.page_sizes)
        for cpu, region in zip(self.cpus, self.regions, strict=True):
            probe = Probe().repeat(region.size // page, Probe().store(base), advance=page)
            self._context.machine.run(probe, {base: [region.address]}, cpu=cpu)

    def fill(self, kernel: Kernel, width: int, array_bytes: int) -> None:
        """Numbers other than zero into every array that a stream will use."""
        probes = {}
        for cpu, base in zip(self.cpus, self.bases, strict=True):
            probe = Probe()
            for array in range(kernel.arrays):
                probe = probe.stream(base + array * array_spacing(array_bytes), "store", array_bytes, width)
            probes[cpu] = probe.fence()
        self._run(probes, 1)

    def time(self, kernel: Kernel, width: int, array_bytes: int, passes: int, repetitions: int) -> Timing:
        """`passes` passes on every CPU at once, timed `repetitions` times. One untimed round comes first."""
        probes = {}
        for cpu, base in zip(self.cpus, self.bases, strict=True):
            one = Probe().stream(base, kernel.name, array_bytes, width)
            loop = one if passes == 1 else Probe().repeat(passes, one)
            # the fence: stores that are still on their way belong to the time
            probes[cpu] = (Probe().start(dither=False) + loop).fence().stop()
        found = self._run(probes, repetitions + 1)
        ticks = np.column_stack([found[cpu][1:, 0] for cpu in self.cpus])
        done = passes * array_bytes // BLOCK_BYTES * kernel.program_bytes
        return Timing(ticks, done, self._context.machine.facts.ticks_per_second)

    def passes_for(self, kernel: Kernel, width: int, array_bytes: int) -> int:
        """How many passes fill `INTERVAL_SECONDS`, from one short run."""
        few = max(1, 16384 // (kernel.arrays * array_bytes))
        timing = self.time(kernel, width, array_bytes, few, 1)
        seconds = max(float(timing.ticks.min()), 1.0) / timing.ticks_per_second
        return max(1, round(few * INTERVAL_SECONDS / seconds))

    def _run(self, probes: dict[int, Probe], repetitions: int) -> dict[int, Ticks]:
        machine = self._context.machine
        pairs = zip(self.bases, self.regions, strict=True)
        placements = {base: np.full(repetitions, region.address) for base, region in pairs}
        if len(probes) == 1:
            ((cpu, probe),) = probes.items()
            return {cpu: machine.run(probe, placements, cpu=cpu)}
        return machine.run_together(probes, placements)


def array_bytes_for(kernel: Kernel, total: float) -> int:
    """Bytes of each array, so that all together have about `total`: whole blocks, a power of two in random order."""
    blocks = max(1, round(total / kernel.arrays / BLOCK_BYTES))
    if kernel.random:
        blocks = 1 << (blocks.bit_length() - 1)
    return blocks * BLOCK_BYTES


def team_bytes(total: float) -> int:
    """Memory that a thread needs for any kernel's streams of `total` bytes."""
    return max(stream_bytes(kernel, array_bytes_for(kernel, total)) for kernel in KERNELS.values())


def wrong_arithmetic(context: Context, kernel: Kernel, width: int, cpu: int | None = None) -> str | None:
    """Run a kernel once over random numbers and compare everything it could have written, bit by bit.

    Returns None if all is right, else what is wrong. Raises `UnsupportedError` where memory can't be looked at."""
    machine = context.machine
    if not isinstance(machine, HoldsNumbers):
        raise UnsupportedError(f"the memory of {machine.facts.name} holds no numbers that could be looked at")
    base = Base("checked")
    region = machine.allocate(stream_bytes(kernel, CHECKED_BYTES), min(machine.facts.page_sizes))
    try:
        before = context.rng(77).random(region.size // 8)
        machine.write_numbers(region, before)
        machine.run(Probe().stream(base, kernel.name, CHECKED_BYTES, width).fence(), {base: [region.address]}, cpu=cpu)
        after = machine.read_numbers(region)
    finally:
        machine.release(region)
    expected = _expected(kernel, before, width)
    wrong = np.flatnonzero(after != expected)
    if not len(wrong):
        return None
    at = int(wrong[0])
    return f"{kernel.name}: number {at} of its memory is {after[at]}, but {kernel.formula} makes it {expected[at]}"


def _expected(kernel: Kernel, memory: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The whole memory of a checked stream after one pass; what is no array must stay as it is."""
    elements, spacing = CHECKED_BYTES // 8, array_spacing(CHECKED_BYTES) // 8
    arrays = [memory[n * spacing : n * spacing + elements] for n in range(kernel.arrays)]
    if kernel.reduces:
        sums = reduction(kernel, arrays, width)
        memory[elements : elements + len(sums)] = sums
    if kernel.expected is not None:
        for array, numbers in zip(arrays, [each.copy() for each in kernel.expected(arrays)], strict=True):
            array[:] = numbers
    return memory
