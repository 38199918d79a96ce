"""Simulated loads per second in plain access streams, beside pycachesim on the same addresses.

Random 8-byte loads in three working sets (first level, second level, memory) and a sequential stream, on one core
without prefetchers. The simulator also keeps time, miss queues, TLBs and pages, which pycachesim does not model;
pycachesim runs the same addresses through the same three LRU levels, and hits and misses are compared exactly. It is
looked for under its import name `cachesim` (PyPI: pycachesim, AGPL, not a dependency) and left out where it is missing.

    python benchmarks/simulator_speed.py [--loads 2000000]
"""

from __future__ import annotations

import argparse
import time
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.machine import SimulatedMachine, open_machine_file

LINE, HUGE = 64, 1 << 21
SHAPE = ((64, 8), (1024, 8), (8192, 16))  # sets and ways of the three levels
PER_PROBE = 1000
WORKING_SETS = {"first level": 16 << 10, "second level": 384 << 10, "memory": 256 << 20, "sequential": 64 << 20}
BLOCK = Base("block")


def open_plain() -> SimulatedMachine:
    """Three plain LRU levels without prefetchers."""
    latencies = (4.0, 14.0, 46.0)
    levels = tuple(
        spec.Level(sets=sets, ways=ways, latency_cycles=latency, mshr_entries=entries)
        for (sets, ways), latency, entries in zip(SHAPE, latencies, (12, 24, 0), strict=True)
    )
    return open_machine_file(spec.Machine(name="plain", levels=levels))


def stream(name: str, region: Region, size: int, loads: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Addresses of a stream as (offsets of a probe's loads, base of every repetition)."""
    if name == "sequential":  # eight loads of every line
        offsets = np.arange(PER_PROBE, dtype=np.int64) * 8
        return offsets, region.address + np.arange(loads // PER_PROBE) * PER_PROBE * 8
    rng = np.random.default_rng(1)
    half = max(size // 2, HUGE if size > HUGE else size // 2)
    offsets = rng.integers(0, half // LINE, PER_PROBE) * LINE
    bases = region.address + rng.integers(0, half // LINE, loads // PER_PROBE) * LINE
    return offsets, bases


def simulate(machine: SimulatedMachine, offsets: NDArray[np.int64], bases: NDArray[np.int64]) -> float:
    """Seconds for the stream."""
    probe = Probe()
    for offset in offsets:
        probe = probe.load(BLOCK + int(offset))
    machine.run(probe, {BLOCK: bases[:1]})  # compiles or loads the kernel
    began = time.process_time()
    machine.run(probe, {BLOCK: bases[1:]})
    return time.process_time() - began


def reference(
    cachesim: ModuleType, region: Region, offsets: NDArray[np.int64], bases: NDArray[np.int64]
) -> tuple[float, list[int]]:
    """Seconds and misses per level of the same stream in pycachesim."""
    memory = cachesim.MainMemory()
    (one, two, three) = SHAPE
    last = cachesim.Cache("L3", *three, LINE, "LRU")
    middle = cachesim.Cache("L2", *two, LINE, "LRU", store_to=last, load_from=last)
    first = cachesim.Cache("L1", *one, LINE, "LRU", store_to=middle, load_from=middle)
    memory.load_to(last)
    memory.store_from(last)
    simulator = cachesim.CacheSimulator(first, memory)
    addresses = [(offsets + base - region.address).tolist() for base in bases]
    began = time.process_time()
    for block in addresses:
        simulator.load(block, length=1)
    elapsed = time.process_time() - began
    return elapsed, [cache.stats()["MISS_count"] for cache in (first, middle, last)]


def find_cachesim() -> ModuleType | None:
    """pycachesim where it is installed."""
    try:
        import cachesim
    except ImportError:
        return None
    return cachesim  # type: ignore[no-any-return]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=int, default=2_000_000)
    loads = parser.parse_args().loads
    cachesim = find_cachesim()
    if cachesim is None:
        print("pycachesim is not installed: only the simulator itself is measured")
    print(f"{'working set':14} {'M loads/s':>10} {'pycachesim':>11}  misses in levels 1, 2, 3")
    for name, size in WORKING_SETS.items():
        machine = open_plain()
        region = machine.allocate(max(size, HUGE), HUGE)
        offsets, bases = stream(name, region, size, loads)
        seconds = simulate(machine, offsets, bases)
        seen = counters(machine)
        misses = [seen["load_l1_miss"], seen["l2_fill"], seen["mem_read"]]
        count = PER_PROBE * (len(bases) - 1)
        line = f"{name:14} {count / seconds / 1e6:10.1f}"
        if cachesim is not None:
            elapsed, expected = reference(cachesim, region, offsets, bases)
            same = "the same" if expected == misses else f"pycachesim says {expected}"
            line += f" {count / elapsed / 1e6:11.1f}  {misses}: {same}"
        else:
            line += f" {'-':>11}  {misses}"
        print(line)
        machine.close()


if __name__ == "__main__":
    main()
