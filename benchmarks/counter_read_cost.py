"""What reading a group of counters costs through setebench, beside a bare read(2) of the same group in C.

    python benchmarks/counter_read_cost.py [--blocks 600] [--json]

Blocks of both in turn, on one CPU, so that neighbours and the clock's drift fall on both alike; the ratio of each pair
of blocks is taken, and of all pairs the median with a 95 % interval by bootstrap. Asked for: at most 1.1. "values" also
takes the counts out as Python numbers. Where the kernel allows it, a counter is also read by rdpmc through its page.
The groups are of the kernel's own events, so that this runs everywhere; with a PMU the read itself takes longer, and
the ratio gets smaller. The C file is compiled here, with gcc, into a temporary folder.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Hardware, Software, Type
from setebench.native.perf.kernel import PerfError, close_all
from setebench.native.perf.messages import Request, explain, read_situation
from setebench.native.threads import allowed_cpus, choose_cpu, pinned

HERE = Path(__file__).parent
CALLS = 200
"""Reads in a block: some 150 us, long beside reading the clock and short beside what disturbs."""
EVENTS = (Software.PAGE_FAULTS, Software.CONTEXT_SWITCHES, Software.CPU_MIGRATIONS, Software.PAGE_FAULTS_MIN)
RESAMPLES = 1000


def compiled(folder: str) -> ctypes.CDLL:
    """The C side."""
    library = Path(folder) / "counter_read.so"
    subprocess.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", library, HERE / "counter_read.c"], check=True)
    bare = ctypes.CDLL(str(library))
    bare.bare_reads_ns.restype = ctypes.c_int64
    return bare


def opened(count: int) -> list[int]:
    """A group of so many software events, counting."""
    fds: list[int] = []
    for event in EVENTS[:count]:
        attributes = Attributes(type=Type.SOFTWARE, config=event, exclude_kernel=True, pinned=not fds)
        fds.append(_perf.open_event(attributes, 0, -1, fds[0] if fds else -1))
    return fds


def ratios(bare: Callable[[], float], ours: Callable[[], float], blocks: int) -> tuple[NDArray[np.float64], float]:
    """Ours over bare for each pair of blocks, and the median of bare in ns a read."""
    pairs = []
    for block in range(blocks):
        # which comes first changes with each pair
        pair = (bare(), ours()) if block % 2 else (ours(), bare())[::-1]
        pairs.append(pair)
    both = np.array(pairs)
    return both[:, 1] / both[:, 0], float(np.median(both[:, 0]))


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Median with its 95 % interval by bootstrap."""
    rng = np.random.default_rng(1)
    medians = np.median(rng.choice(values, (RESAMPLES, len(values))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


def of_group(bare: ctypes.CDLL, count: int, blocks: int) -> list[dict[str, Any]]:
    """Reading one group, and reading it with its values taken out."""
    fds = opened(count)
    group = _perf.Group(fds[0], count)

    def reference() -> float:
        return float(bare.bare_reads_ns(fds[0], count, ctypes.c_int64(CALLS))) / CALLS

    def timed(code: str) -> Callable[[], float]:
        timer = timeit.Timer(
            code, globals={"read": group.read, "function": _perf.read_values, "fd": fds[0], "n": count}
        )
        return lambda: timer.timeit(CALLS) / CALLS * 1e9

    rows = []
    ways = {"Group.read": "read()", "read_values": "function(fd, n)", "Group.read, values": "read().values"}
    for name, code in ways.items():
        ratio, bare_ns = ratios(reference, timed(code), blocks)
        median, low, high = interval(ratio)
        rows.append({"events": count, "way": name, "bare_ns": bare_ns, "ratio": median, "low": low, "high": high})
    close_all(_perf, fds)
    return rows


def rdpmc_ns() -> float | str:
    """Nanoseconds of reading a counter by rdpmc through its page, or why that can't be done here."""
    event = Attributes(type=Type.HARDWARE, config=Hardware.INSTRUCTIONS, exclude_kernel=True, pinned=True)
    try:
        fd = _perf.open_event(event)
    except PerfError as error:
        return explain(error.errno or 0, Request(attributes=event), read_situation())
    page = _perf.map_page(fd, 0, True)
    try:
        if not page.can_rdpmc:
            return "the kernel allows no rdpmc for this event"
        return min(timeit.repeat(page.count, number=CALLS, repeat=50)) / CALLS * 1e9
    finally:
        page.close()
        _perf.close(fd)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--blocks", type=int, default=600, help="pairs of blocks for each way")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    gc.disable()
    with tempfile.TemporaryDirectory() as folder, pinned(choose_cpu(None, allowed_cpus())):
        bare = compiled(folder)
        rows = [row for count in (1, 2, 4) for row in of_group(bare, count, options.blocks)]
        instruction = rdpmc_ns()
    if options.json:
        print(json.dumps({"reads": rows, "rdpmc_ns": instruction, "kernel": os.uname().release}, indent=1))
        return
    print(tabulate(rows, headers="keys", floatfmt=".3f"))
    said = instruction if isinstance(instruction, str) else f"{instruction:.1f} ns"
    print(f"by rdpmc: {said}")


if __name__ == "__main__":
    main()
