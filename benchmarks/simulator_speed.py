"""Simulated loads per second: random ones in three working sets, and a sequential stream, without prefetchers.
`python benchmarks/simulator_speed.py [--loads 2000000]`"""

from __future__ import annotations

import argparse
import time

import numpy as np

from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.machine import open_machine_file

LINE, HUGE, PER_PROBE, BLOCK = 64, 1 << 21, 1000, Base("block")
LEVELS = tuple(
    spec.Level(sets=sets, ways=ways, latency_cycles=latency, mshr_entries=entries)
    for sets, ways, latency, entries in ((64, 8, 4.0, 12), (1024, 8, 14.0, 24), (8192, 16, 46.0, 0))
)
WORKING_SETS = {"first level": 16 << 10, "second level": 384 << 10, "memory": 256 << 20, "sequential": 64 << 20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=2_000_000)
    runs = parser.parse_args().loads // PER_PROBE
    print(f"{'working set':14} {'M loads/s':>10}  misses in levels 1, 2, 3")
    for name, size in WORKING_SETS.items():
        machine, rng = open_machine_file(spec.Machine(name="plain", levels=LEVELS)), np.random.default_rng(1)
        region, half = machine.allocate(max(size, HUGE), HUGE), size // 2 // LINE
        offsets, bases = (rng.integers(0, half, count) * LINE for count in (PER_PROBE, runs))
        if name == "sequential":  # eight loads of every line
            offsets, bases = (np.arange(count) * step for count, step in ((PER_PROBE, 8), (runs, PER_PROBE * 8)))
        probe = Probe()
        for offset in offsets:
            probe = probe.load(BLOCK + int(offset))
        machine.run(probe, {BLOCK: region.address + bases[:1]})  # compiles or loads the kernel
        began = time.process_time()
        machine.run(probe, {BLOCK: region.address + bases[1:]})
        pace, seen = PER_PROBE * (runs - 1) / (time.process_time() - began) / 1e6, counters(machine)
        print(f"{name:14} {pace:10.1f}  {[seen[each] for each in ('load_l1_miss', 'l2_fill', 'mem_read')]}")
        machine.close()


if __name__ == "__main__":
    main()
