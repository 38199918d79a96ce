"""Memory copy and triad beside the same loops compiled by gcc at full optimisation for this CPU, in turn, in one run.

    python benchmarks/bandwidth_speed.py [--rounds N] [--mib N] [--threads N]

What is wanted: the better of setebench's ways to copy (with and without non-temporal stores; a compiler's copy becomes
the C library's, which chooses, too) and the triad reach at least 0.98 of the compiled loops. Load bandwidth of the
caches is laid beside likwid-bench where that is installed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from setebench.kernels import KERNELS, stream_bytes
from setebench.machine import open_machine
from setebench.scenario import Context
from setebench.streaming import WIDTHS, Team, choose_cpus, widths_of

SOURCE = Path(__file__).with_name("bandwidth.c")
COMPILE = ("gcc", "-O3", "-march=native", "-pthread")
OURS = {"copy": ("copy", "copy_nt"), "triad": ("triad",)}
CACHED = {"load 16 KiB": 16 << 10, "load 256 KiB": 256 << 10, "load 4 MiB": 4 << 20}
WANTED = 0.98
LIKWID = {"scalar": "load", "16": "load_sse", "32": "load_avx", "64": "load_avx512"}


def compiled_rates(program: Path, elements: int, runs: int, cpus: tuple[int, ...]) -> dict[str, float]:
    """GB/s of the compiled loops, the best of `runs`."""
    line = [str(program), str(elements), str(runs), *map(str, cpus)]
    told = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return {name: float(rate) for name, rate in (row.split() for row in told.splitlines())}


def own_rates(team: Team, names: tuple[str, ...], width: int, array_bytes: int, runs: int) -> dict[str, float]:
    """GB/s of setebench's kernels, the best of `runs`."""
    rates = {}
    for name in names:
        timing = team.time(KERNELS[name], width, array_bytes, 1, runs - 1)
        rates[name] = float(timing.gigabytes_per_second().max())
    return rates


def beside_gcc(context: Context, arguments: argparse.Namespace) -> None:
    """Alternate both, round by round, and print the ratio of the best rates and of every round."""
    facts = context.machine.facts
    cpus = choose_cpus(facts, context.cpu, arguments.threads or len(facts.cpus))
    elements = (arguments.mib << 20) // 8
    array_bytes = (arguments.mib << 20) // len(cpus) // 256 * 256
    width = WIDTHS[widths_of(facts)[0]]
    ours = {name: [] for names in OURS.values() for name in names}
    theirs: dict[str, list[float]] = {name: [] for name in OURS}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bandwidth"
        subprocess.run([*COMPILE, str(SOURCE), "-o", str(program)], check=True)
        print(f"{' '.join(COMPILE)} {SOURCE.name}, arrays of {arguments.mib} MiB, CPUs {' '.join(map(str, cpus))}")
        team = Team(context, cpus, stream_bytes(KERNELS["triad"], array_bytes))
        try:
            team.fill(KERNELS["triad"], width, array_bytes)
            for _ in range(arguments.rounds):
                for name, rate in compiled_rates(program, elements, arguments.runs, cpus).items():
                    theirs[name].append(rate)
                for name, rate in own_rates(team, tuple(ours), width, array_bytes, arguments.runs).items():
                    ours[name].append(rate)
        finally:
            team.close()
    for name, rates in {**{f"gcc {name}": rates for name, rates in theirs.items()}, **ours}.items():
        print(f"{name:12}", " ".join(f"{rate:7.2f}" for rate in rates), f"  best {max(rates):.2f} GB/s")
    for name, names in OURS.items():
        best = max(max(ours[each]) for each in names)
        middle = max(float(np.median(ours[each])) for each in names)
        for what, ratio in (("best", best / max(theirs[name])), ("median", middle / float(np.median(theirs[name])))):
            print(f"{name}, {what}: {ratio:.3f} of gcc ({'reached' if ratio >= WANTED else 'missed'}: {WANTED})")


def beside_likwid(context: Context) -> None:
    """Load bandwidth of one CPU in its caches beside likwid-bench, where it is installed."""
    facts = context.machine.facts
    program = shutil.which("likwid-bench")
    if program is None:
        print("likwid-bench is not installed: no comparison of cache bandwidth")
        return
    (width,) = widths_of(facts)
    cpu = choose_cpus(facts, context.cpu, 1)[0]
    for name, size in CACHED.items():
        team = Team(context, (cpu,), size + 8192)
        try:
            team.fill(KERNELS["load"], WIDTHS[width], size)
            passes = team.passes_for(KERNELS["load"], WIDTHS[width], size)
            rates = team.time(KERNELS["load"], WIDTHS[width], size, passes, 50).gigabytes_per_second()
        finally:
            team.close()
        line = [program, "-t", LIKWID[width], "-W", f"N:{size >> 10}kB:1"]
        told = subprocess.run(line, check=False, capture_output=True, text=True).stdout
        found = re.search(r"^MByte/s:\s+([\d.]+)", told, re.MULTILINE)
        if found is None:
            print(f"{name}: {' '.join(line)} told no rate")
            continue
        ratio = float(np.max(rates)) / (float(found[1]) / 1000)
        print(f"{name}: {np.max(rates):.1f} GB/s, {ratio:.3f} of {' '.join(line[1:])}")


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="times that both are run, in turn")
    parser.add_argument("--runs", type=int, default=10, help="runs of a round, of which the best counts")
    parser.add_argument("--mib", type=int, default=128, help="size of each array")
    parser.add_argument("--threads", type=int, help="number of threads; default: one on every CPU")
    arguments = parser.parse_args()
    machine = open_machine()
    try:
        context = Context(machine=machine)
        beside_gcc(context, arguments)
        beside_likwid(context)
    finally:
        machine.close()


if __name__ == "__main__":
    main()
