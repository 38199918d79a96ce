"""What the probe engine costs beside the same thing written by hand in C, and how fast the program is as a whole.

    python benchmarks/engine_speed.py

Both sides run in one process on one CPU, in alternating blocks, so that frequency and neighbours fall on both alike.
The C file is compiled here, with gcc, into a temporary folder. Nothing is written elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from setebench.machine import Region
from setebench.native import _engine
from setebench.native.machine import NativeMachine
from setebench.probe import BRACKETS, Base, Probe
from setebench.stats.ticks.location import mean_ticks

HERE = Path(__file__).parent
COMPILE = ("gcc", "-O2", "-Wall", "-shared", "-fPIC")
LINE = Base("line")
FLUSH_AND_LOAD = Probe().flush(LINE).fence().start().load(LINE).stop()
EMPTY = Probe().start().stop()
BLOCK, ROUNDS = 400, 600
"""Blocks short enough that most are over before the system gives the CPU to someone else."""

Runner = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]], object]


class Row(NamedTuple):
    """A line of the report."""

    what: str
    figure: str
    wanted: str
    how: str


def by_hand(name: str, folder: str, bracket: str) -> Runner:
    """A function of handwritten.c, compiled for `bracket`."""
    library = Path(folder) / "handwritten.so"
    if not library.exists():
        number = BRACKETS.index(bracket)
        subprocess.run([*COMPILE, f"-DBRACKET={number}", "-o", library, HERE / "handwritten.c"], check=True)
    function = getattr(ctypes.CDLL(str(library)), name)

    def run(rows: NDArray[np.int64], results: NDArray[np.int64], dither: NDArray[np.int32]) -> None:
        pointers = [ctypes.c_void_p(table.ctypes.data) for table in (rows, results, dither)]
        function(pointers[0], pointers[1], ctypes.c_int64(len(results)), pointers[2])

    return run


class Comparison(NamedTuple):
    """Repetitions per second of engine and C, block by block, and mean ticks of their intervals."""

    engine_rates: NDArray[np.float64]
    c_rates: NDArray[np.float64]
    engine_ticks: float
    c_ticks: float

    @property
    def ratio(self) -> float:
        """Rate of the engine over that of C: the median over pairs of neighbouring blocks."""
        return float(np.median(self.engine_rates / self.c_rates))

    @property
    def ratio_range(self) -> tuple[float, float]:
        """The middle half of the pairs."""
        low, high = np.quantile(self.engine_rates / self.c_rates, (0.25, 0.75))
        return float(low), float(high)


def compare(machine: NativeMachine, probe: Probe, c_run: Runner, region: Region) -> Comparison:
    """Run blocks of engine and C in turn, each pair in random order and on the same lines and waits."""
    rng = np.random.default_rng(1)
    engine_run: Runner = machine.stitch(probe).run
    seconds: dict[str, list[float]] = {"engine": [], "c": []}
    ticks: dict[str, list[NDArray[np.int64]]] = {"engine": [], "c": []}
    sides = {"engine": engine_run, "c": c_run}
    for _ in range(ROUNDS):
        lines = region.random_lines(BLOCK, rng)[:, None]
        rows = lines if probe.bases else np.empty((BLOCK, 0), dtype=np.int64)
        dither = machine._dither(BLOCK)
        for name in rng.permutation(list(sides)):
            results = np.full((BLOCK, 1), -1, dtype=np.int64)
            begin = time.perf_counter()
            sides[name](rows, results, dither)
            seconds[name].append(time.perf_counter() - begin)
            ticks[name].append(results.ravel())
    means = {name: mean_ticks(np.concatenate(all_ticks), machine.step_ticks) for name, all_ticks in ticks.items()}
    rates = {name: BLOCK / np.array(all_seconds) for name, all_seconds in seconds.items()}
    return Comparison(rates["engine"], rates["c"], means["engine"], means["c"])


def engine_rows(machine: NativeMachine, region: Region, folder: str) -> list[Row]:
    """Rate of flush + load, and cost of an empty interval, beside C."""
    bracket = machine.facts.brackets[0]
    loads = compare(machine, FLUSH_AND_LOAD, by_hand("flush_and_load", folder, bracket), region)
    nothing = compare(machine, EMPTY, by_hand("empty", folder, bracket), region)
    low, high = loads.ratio_range
    return [
        Row(
            "flush + one timed load, rate beside C",
            f"{loads.ratio:.3f} (middle half {low:.3f} to {high:.3f})",
            ">= 0.95",
            f"{np.median(loads.engine_rates) / 1e6:.2f} and {np.median(loads.c_rates) / 1e6:.2f} million a second",
        ),
        Row(
            "its interval, beside C",
            f"{loads.engine_ticks:.1f} and {loads.c_ticks:.1f} ticks",
            "alike",
            f"{ROUNDS * BLOCK} loads each, bracket {bracket}",
        ),
        Row(
            "an empty interval, beside C",
            f"{nothing.engine_ticks:.2f} and {nothing.c_ticks:.2f} ticks",
            "alike",
            f"{ROUNDS * BLOCK} intervals each, clock step {machine.step_ticks:.2f} ticks",
        ),
    ]


def of_200_operations(number: int) -> Probe:
    """A probe of 200 operations like those of scenarios, another one for every number."""
    probe = Probe().wait(number + 1).start()
    for n in range(49):
        probe = probe.load(Base(f"b{n % 8}") + 64 * n).flush(LINE + n).fence().wait(5 + n)
    return probe.stop().fence()


def stitching_rows(machine: NativeMachine) -> list[Row]:
    """Time from a probe to its machine code, alone and with all that the machine does about it."""
    probes = [of_200_operations(number) for number in range(400)]
    assert {len(probe) for probe in probes} == {200}
    whole = [_microseconds(lambda probe=probe: machine.stitch(probe)) for probe in probes]
    short = [_microseconds(lambda: _engine.Stitched(EMPTY.rows, 0, 1, [], 0, False)) for _ in range(400)]
    return [
        Row(
            "stitching 200 operations",
            f"{np.median(whole):.1f} us (90 % below {np.quantile(whole, 0.9):.1f})",
            "< 100 us",
            f"NativeMachine.stitch, median of {len(probes)} probes",
        ),
        Row("of that, for the mapping alone", f"{np.median(short):.1f} us", "", "stitching 2 operations"),
    ]


def _microseconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begin) / 1000


def program_row(arguments: list[str], wanted: str, times: int) -> Row:
    """Wall time of the program, and the most memory that a child of ours has held so far."""
    line = [sys.executable, "-m", "setebench", *arguments]
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        subprocess.run(line, check=True, capture_output=True)
        seconds.append(time.perf_counter() - begin)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    command = " ".join(["setebench", *arguments])
    return Row(command, f"{np.median(seconds):.2f} s, {most:.0f} MiB", wanted, f"median of {times}; peak of any so far")


def main() -> None:
    """Measure everything and print one table."""
    # first, while no larger child has run; gcc comes later
    rows = [
        program_row(["--help"], "0.3 s", 7),
        program_row(["latency", "--fast", "-q"], "10 s, < 400 MiB", 3),
    ]
    machine = NativeMachine()
    region = machine.allocate(1 << 20, 4096)
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = [*engine_rows(machine, region, folder), *stitching_rows(machine), *rows]
    finally:
        machine.release(region)
        machine.close()
    cpus, load = len(machine.facts.cpus), os.getloadavg()[0]
    python, compiled = sys.version.split()[0], " ".join(COMPILE)
    print(f"{machine.facts.name}, {cpus} CPUs, load {load:.1f}, Python {python}; C: {compiled}\n")
    print(tabulate(rows, headers=("what", "measured", "wanted", "how"), disable_numparse=True))


if __name__ == "__main__":
    main()
