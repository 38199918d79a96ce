"""What streams of loads and of stores reach on a quiet copy of a simulated machine.

No formula says by how much prefetchers help or hinder, and which of ports, fills, queues and latencies is narrow. So
the machine itself runs them, without noise and without any choice that an inference makes: in caches by data sets that
surely lie there, in memory by reading what no cache has held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec
import numpy as np

from setebench.errors import UnsupportedError
from setebench.machine import run_on
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, Kernel, stream_bytes
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, open_machine_file
from setebench.sim.spec.in_flight import demand_in_flight, prefetches_in_flight
from setebench.sim.truth.finding import between, unknown
from setebench.sim.truth.pace import machine_pace

WIDEST_RANGE = 2.0  # from the lowest to the highest rate of a level, beyond which nothing is said
MOST_LINES = 1 << 16  # of all threads in a timed interval: what is simulated in a tenth of a second
LINES = 1 << 12  # of a thread in one, which its beginning changes by less than a percent
MOST_THREADS = 32  # of which so many lines are left that it still does
PRIVATE = 2  # levels that are a core's own
CLEARLY = 1.2  # what is so many times as narrow as all else limits
TOGETHER = 8  # order of the norm of two times: equally narrow places give a twelfth less than one

REPORTED = ("load", "store")
"""Kernels with one kind of access. In others a store waits for loads, and their queues limit each other."""


def bandwidths(machine: spec.Machine) -> Iterator[Finding]:
    """Every level's rate with one thread and with one on every CPU, in the widest accesses."""
    width, quiet = max(machine.core.access_sizes), _Quiet(machine)
    for threads, name, number in product(sorted({1, _cpus(machine)}), REPORTED, range(1, len(machine.levels) + 2)):
        level = _levels(machine)[number - 1]
        parameter, kernel = _name(level, name, width, threads), KERNELS[name]
        try:
            rates = quiet.rates(kernel, width, threads, number)
        except UnsupportedError as error:
            yield unknown(parameter, "GB/s", error)
            continue
        if rates and max(rates) <= WIDEST_RANGE * min(rates):
            yield _finding(machine, parameter, rates, 1.0)
            if level != "l1" and kernel.written_bytes:
                yield _finding(machine, f"{parameter}.traffic", rates, kernel.traffic_bytes / kernel.program_bytes)


def _levels(machine: spec.Machine) -> list[str]:
    return [*(f"l{number}" for number in range(1, len(machine.levels) + 1)), "memory"]


def bandwidth_parameters(machine: spec.Machine) -> Iterator[str]:
    """All rates of loads and of stores that this machine has, with every width and number of threads."""
    threads = range(1, _cpus(machine) + 1)
    for each in product(_levels(machine), REPORTED, machine.core.access_sizes, threads):
        yield from (_name(*each), f"{_name(*each)}.traffic")


def memory_peak(machine: spec.Machine) -> Iterator[tuple[float, float, float]]:
    """GB/s that all cores together get from memory at the core clock's mean, and from and to, where what they share is
    what limits them: memory itself, or the third level's queue and fills in front of it, which nobody outside can tell
    from memory. Nothing where the cores' own queues hardly keep that busy (Little's law)."""
    memory, shared = machine.memory, [machine.memory.interval_cycles]
    for level in machine.levels[PRIVATE:]:
        queue = memory.latency_cycles / level.mshr_entries if level.mshr_entries else 0.0
        shared += [level.fill_interval_cycles, 1 / level.ports, queue]
    per_core = max(demand_in_flight(machine, 2), prefetches_in_flight(machine, 2) or 0)
    own = memory.latency_cycles / (machine.core.cores * per_core)
    if max(shared) > CLEARLY * own:
        slow = sum(each**TOGETHER for each in (*shared, own)) ** (1 / TOGETHER)
        low, high = (machine.line_size_bytes / cycles * _hertz(machine) / 1e9 for cycles in (slow, max(shared)))
        pace = machine_pace(machine)  # a rate holds at the time of measuring
        yield high, low * pace.slowest, high * pace.fastest


def _cpus(machine: spec.Machine) -> int:
    return machine.core.cores * machine.core.threads_per_core


def _hertz(machine: spec.Machine) -> float:
    return machine.clock.ticks_per_second / machine.clock.ticks_per_cycle


def _name(level: str, kernel: str, width: int, threads: int) -> str:
    return f"bandwidth.{level}.{kernel}.{'scalar' if width == 8 else width}.threads_{threads}"


def _finding(machine: spec.Machine, parameter: str, rates: Sequence[float], factor: float) -> Finding:
    """The range that rates span, widened by the clock's changes."""
    pace = machine_pace(machine)
    slow, fast = min(rates) * factor, max(rates) * factor
    return between(parameter, slow, slow * pace.slowest, fast * pace.fastest, "GB/s")


class _Quiet:
    """A machine with its disturbances taken out, opened when it first runs."""

    def __init__(self, machine: spec.Machine) -> None:
        calm = msgspec.structs.replace(machine.clock, step_ticks=1.0, drift=0.0, jitter_cycles=0.0)
        self.machine = msgspec.structs.replace(machine, clock=calm, noise=spec.Noise())
        self._opened: SimulatedMachine | None = None

    def rates(self, kernel: Kernel, width: int, threads: int, number: int) -> list[float]:
        """Gigabytes that the program moves per second over data sets of each thread that lie in a level (one more than
        there are: in memory), in all forms of the kernel's loop; empty where no data set surely lies there, and of
        written memory, which depends on what caches give up."""
        if threads > MOST_THREADS:
            return []
        in_memory = number > len(self.machine.levels)
        sizes = [] if in_memory and kernel.writes else self._sizes(threads, number)
        # what follows instruction addresses tells the forms of a loop apart; the unrolled one is the faster one
        every = product(sizes, kernel.forms if self.machine.prefetchers else kernel.forms[:1])
        return [self._rate(kernel, (width, threads), size, rolled, in_memory) for size, rolled in every]

    def _sizes(self, threads: int, level: int) -> list[int]:
        """Of the first level a half, of a further one three quarters; and, as a larger one is not always measured,
        four times the nearer level, or twice where four times are more than half: of less the nearer one, whatever it
        replaces, still serves a part."""
        if level > len(self.machine.levels):
            return [2 * self._least(threads)]
        own, most = self._share(threads, level), MOST_LINES * self.machine.line_size_bytes
        if level == 1:
            return [own // 2]
        near = self._share(threads, level - 1)
        least = 4 * near if 8 * near <= own else 2 * near
        sizes = {least, own * 3 // 4} if 2 * least <= own else set()
        return sorted(size for size in sizes if size * threads <= most)

    def _least(self, threads: int) -> int:
        """Bytes that each thread reads in a timed interval, at least."""
        return min(LINES, MOST_LINES // threads) * self.machine.line_size_bytes

    def _share(self, threads: int, level: int) -> int:
        """Bytes of a level that each thread has."""
        core = -(-threads // self.machine.core.cores)
        sharing = core if level <= PRIVATE else threads
        return self.machine.levels[level - 1].lines * self.machine.line_size_bytes // sharing

    def _rate(self, kernel: Kernel, how: tuple[int, int], size: int, rolled: bool, fresh: bool) -> float:
        """`how`: width and threads; `fresh`: each half of the data is read once, else all of it twice."""
        width, threads = how
        opened = self._opened = self._opened or open_machine_file(self.machine)
        array = max(size // kernel.arrays // BLOCK_BYTES, 1) * BLOCK_BYTES
        regions = [opened.allocate(stream_bytes(kernel, array), max(opened.facts.page_sizes)) for _ in range(threads)]
        second = array // 2 // BLOCK_BYTES * BLOCK_BYTES if fresh else 0
        array -= second
        passes = 1 if fresh else max(self._least(threads) // (array * kernel.arrays), 1)
        bases = [Base(f"arrays{number}") for number in range(threads)]
        probes = {}
        for cpu, base in enumerate(bases):
            loop = Probe().repeat(passes, Probe().stream(base, kernel.name, array, width, rolled=rolled))
            probe = (Probe().start(0, dither=False) + loop).fence().stop(0)
            probes[opened.facts.cpus[cpu]] = probe.barrier() if threads > 1 else probe
        places = {base: np.array([0, second]) + region.address for base, region in zip(bases, regions, strict=True)}
        ticks = max(int(found[-1, 0]) for found in run_on(opened, probes, places).values())
        for region in regions:
            opened.release(region)
        moved = threads * passes * array // BLOCK_BYTES * kernel.program_bytes
        empty = next(iter(self.machine.clock.brackets.values())) * self.machine.clock.ticks_per_cycle
        return moved / ((ticks - empty) / opened.facts.ticks_per_second) / 1e9
