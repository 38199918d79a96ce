"""What streams of loads and of stores reach on a quiet copy of a simulated machine.

No formula says by how much prefetchers help or hinder, and which of ports, fills, queues and latencies is narrow. So
the machine itself runs them, without noise and without any choice that an inference makes: in caches by data sets that
surely lie there, in memory by reading what no cache has held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np

from setebench.machine import run_on
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, Kernel, stream_bytes
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, open_machine_file
from setebench.sim.spec.in_flight import demand_in_flight, prefetches_in_flight
from setebench.sim.truth.finding import exact
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
    width, levels = max(machine.core.access_sizes), _levels(machine)
    calm = msgspec.structs.replace(machine.clock, step_ticks=1.0, drift=0.0, jitter_cycles=0.0)
    quiet = msgspec.structs.replace(machine, clock=calm, noise=spec.Noise())
    with closing(open_machine_file(quiet)) as opened:
        for threads, name, number in product(sorted({1, _cpus(machine)}), REPORTED, range(1, len(levels) + 1)):
            kernel, parameter = KERNELS[name], _name(levels[number - 1], name, width, threads)
            rates = [_rate(quiet, opened, each) for each in _streams(machine, kernel, threads, number)]
            if not rates or max(rates) > WIDEST_RANGE * min(rates):
                continue
            yield _finding(machine, parameter, min(rates), max(rates))
            if number > 1 and kernel.written_bytes:
                factor = kernel.traffic_bytes / kernel.program_bytes
                yield _finding(machine, f"{parameter}.traffic", min(rates) * factor, max(rates) * factor)


def _levels(machine: spec.Machine) -> list[str]:
    return [*(f"l{number}" for number in range(1, len(machine.levels) + 1)), "memory"]


def bandwidth_parameters(machine: spec.Machine) -> Iterator[str]:
    """All rates of loads and of stores that this machine has, with every width and number of threads."""
    threads = range(1, _cpus(machine) + 1)
    for each in product(_levels(machine), REPORTED, machine.core.access_sizes, threads):
        yield from (_name(*each), f"{_name(*each)}.traffic")


def memory_peak(machine: spec.Machine) -> Iterator[Finding]:
    """GB/s that all cores together get from memory at the core clock's mean, and from and to, where what they share is
    what limits them: memory itself, or the third level's queue and fills in front of it, which nobody outside can tell
    from memory. Nothing where the cores' own queues hardly keep that busy (Little's law)."""
    memory, shared = machine.memory, [machine.memory.interval_cycles]
    for level in machine.levels[PRIVATE:]:
        queue = memory.latency_cycles / level.mshr_entries if level.mshr_entries else 0.0
        shared += [level.fill_interval_cycles, 1 / level.ports, queue]
    per_core = max(demand_in_flight(machine, 2)[0], prefetches_in_flight(machine, 2)[0] or 0)
    own = memory.latency_cycles / (machine.core.cores * per_core)
    if max(shared) > CLEARLY * own:
        slow = sum(each**TOGETHER for each in (*shared, own)) ** (1 / TOGETHER)
        hertz = machine.clock.ticks_per_second / machine.clock.ticks_per_cycle
        low, high = (machine.line_size_bytes / cycles * hertz / 1e9 for cycles in (slow, max(shared)))
        yield _finding(machine, "loaded_latency.peak_bandwidth", low, high, high)


def _cpus(machine: spec.Machine) -> int:
    return machine.core.cores * machine.core.threads_per_core


def _name(level: str, kernel: str, width: int, threads: int) -> str:
    return f"bandwidth.{level}.{kernel}.{'scalar' if width == 8 else width}.threads_{threads}"


def _finding(machine: spec.Machine, parameter: str, slow: float, fast: float, value: float | None = None) -> Finding:
    """The range of rates, widened by the clock's changes: a rate holds at the time of measuring."""
    pace = machine_pace(machine)
    return exact(parameter, slow if value is None else value, "GB/s", (slow * pace.slowest, fast * pace.fastest))


class _Streams(NamedTuple):
    """What every thread runs: a kernel over so many bytes. `fresh`: each half of them is read once, else all twice."""

    kernel: Kernel
    threads: int
    size: int
    rolled: bool
    fresh: bool


def _streams(machine: spec.Machine, kernel: Kernel, threads: int, number: int) -> list[_Streams]:
    """Streams over data sets of each thread that lie in a level (one more than there are: in memory), in all forms of
    the kernel's loop; empty where no data set surely lies there, and of written memory, which depends on what caches
    give up.

    Of the first level it is a half, of a further one three quarters; and, as a larger one is not always measured, four
    times the nearer level, or twice where four times are more than half: of less the nearer one, whatever it replaces,
    still serves a part."""
    in_memory = number > len(machine.levels)
    if threads > MOST_THREADS or (in_memory and kernel.writes):
        return []
    if in_memory:
        sizes = {2 * _least(machine, threads)}
    elif number == 1:
        sizes = {_share(machine, threads, 1) // 2}
    else:
        near, own = (_share(machine, threads, each) for each in (number - 1, number))
        least = 4 * near if 8 * near <= own else 2 * near
        most = MOST_LINES * machine.line_size_bytes // threads
        sizes = {each for each in (least, own * 3 // 4) if 2 * least <= own and each <= most}
    # what follows instruction addresses tells the forms of a loop apart; the unrolled one is the faster one
    forms = kernel.forms if machine.prefetchers else kernel.forms[:1]
    return [_Streams(kernel, threads, size, rolled, in_memory) for size, rolled in product(sorted(sizes), forms)]


def _least(machine: spec.Machine, threads: int) -> int:
    """Bytes that each thread reads in a timed interval, at least."""
    return min(LINES, MOST_LINES // threads) * machine.line_size_bytes


def _share(machine: spec.Machine, threads: int, level: int) -> int:
    """Bytes of a level that each thread has."""
    sharing = -(-threads // machine.core.cores) if level <= PRIVATE else threads
    return machine.levels[level - 1].lines * machine.line_size_bytes // sharing


def _rate(machine: spec.Machine, opened: SimulatedMachine, streams: _Streams) -> float:
    """Gigabytes that the program moves per second on the opened machine."""
    kernel, threads, width = streams.kernel, streams.threads, max(machine.core.access_sizes)
    whole = max(streams.size // BLOCK_BYTES, 1) * BLOCK_BYTES
    second = whole // 2 // BLOCK_BYTES * BLOCK_BYTES if streams.fresh else 0
    array, page = whole - second, max(opened.facts.page_sizes)
    regions = [opened.allocate(stream_bytes(kernel, whole), page) for _ in range(threads)]
    passes = 1 if streams.fresh else max(_least(machine, threads) // array, 1)
    probes, places = {}, {}
    for cpu, region in zip(opened.facts.cpus, regions, strict=False):
        base = Base(f"arrays{cpu}")
        loop = Probe().repeat(passes, Probe().stream(base, kernel.name, array, width, rolled=streams.rolled))
        probe = (Probe().start(0, dither=False) + loop).fence().stop(0)
        probes[cpu] = probe.barrier() if threads > 1 else probe
        places[base] = np.array([0, second]) + region.address
    ticks = max(int(found[-1, 0]) for found in run_on(opened, probes, places).values())
    for region in regions:
        opened.release(region)
    moved = threads * passes * array // BLOCK_BYTES * kernel.program_bytes
    empty = next(iter(machine.clock.brackets.values())) * machine.clock.ticks_per_cycle
    return moved / ((ticks - empty) / opened.facts.ticks_per_second) / 1e9
