"""How much `setebench diagnose` slows a program down: STREAM's triad and a pointer chase, under it and bare, by turns.

    python benchmarks/diagnose_overhead.py [--pairs N]

Each program says itself how long its kernel took, so what setebench needs to start and to report is not in it. Pairs
are run one right after the other, every second one the other way round, and the figure is the mean over pairs of the
logarithm of their ratio, with Student's interval at 95 %: what differs from minute to minute drops out of it. Asked
for: intervals that end at or below 3 %. Time on a CPU stands beside elapsed time: where other programs want the CPUs as
well, elapsed time says how they took turns, and interrupts for samples are in both.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from setebench.stats.estimate import Estimate, over_epochs

PROGRAMS = Path(__file__).parent / "programs"
CASES = {"stream_triad": ("20", "64"), "pointer_chase": ("1500000", "64")}
"""A fifth of a second each: two samples of time for every interval of the counters, and many pairs in little time."""

LIMIT_PERCENT = 3.0


def built(name: str, folder: Path) -> str:
    """The compiled program."""
    program = folder / name
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", program, PROGRAMS / f"{name}.c"], check=True)
    return str(program)


def seconds(command: list[str]) -> tuple[float, float]:
    """What the program says that its kernel took: elapsed, and on a CPU."""
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    match = re.search(r" in ([0-9.]+) s, ([0-9.]+) s on a CPU", said)
    if match is None:
        raise SystemExit(f"{command} did not say how long it took: {said!r}")
    return float(match[1]), float(match[2])


def slowdown(program: list[str], pairs: int) -> list[Estimate]:
    """The mean logarithm of time under diagnosis over time without it: of elapsed time, and of time on a CPU."""
    under = [sys.executable, "-m", "setebench", "diagnose", "-o", "/dev/null", "--format", "json", "--", *program]
    ratios = []
    for number in range(pairs):
        order = (program, under) if number % 2 else (under, program)
        times = {id(command): seconds(command) for command in order}
        pairs_of_times = zip(times[id(under)], times[id(program)], strict=True)
        ratios.append([math.log(slow / bare) for slow, bare in pairs_of_times])
    return [over_epochs(column) for column in zip(*ratios, strict=True)]


def main() -> None:
    """Print one line for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in CASES.items():
            both = slowdown([built(name, Path(folder)), *arguments], pairs)
            for what, found in zip(("elapsed", "on a CPU"), both, strict=True):
                low, value, high = (100 * math.expm1(part) for part in (found.low, found.value, found.high))
                held = "as asked" if high <= LIMIT_PERCENT else f"asked: at most {LIMIT_PERCENT:g} %"
                print(f"{name:14} {what:8} {value:+.2f} % [{low:+.2f}, {high:+.2f}] over {pairs} pairs; {held}")


if __name__ == "__main__":
    main()
