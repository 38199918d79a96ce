"""Bandwidth beside the alternatives, in turn, in one run: gcc's STREAM loops in memory, likwid-bench in the caches.

    python benchmarks/bandwidth_speed.py [--rounds N] [--runs N] [--mib N] [--threads N ...] [--only gcc|likwid|repeats]

What is wanted: copy and triad in memory reach at least 0.98 of the same loops compiled by gcc at full optimisation,
over the same pages with the same threads, and loads from L1, L2 and L3 at least 0.98 of likwid-bench with the same
width. Both sides take turns in many short rounds, now one first and now the other; reported is the median of the
rounds' ratios with its 95 % interval (order statistics), since whatever else uses this memory comes and goes.

setebench's kernels come with two forms of loop, of which `setebench bandwidth` keeps the one that its first rounds show
to be faster. Here a short trial before does so: `chosen` counts, and both forms stand beside it. The very same loop can
be some percent faster in one process than in another, by where its instructions and pages lie, so the rounds beside gcc
are dealt to several processes.

Last come five runs of `setebench bandwidth`: how far their peaks differ, and how long the sweep of one kernel takes.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import math
import multiprocessing
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from setebench.experiments.streams.choice import WIDTHS, choose_cpus, widths_of
from setebench.experiments.streams.team import Team
from setebench.kernels import KERNELS, array_spacing, stream_bytes
from setebench.machine import open_machine, run_on
from setebench.native.threads import allowed_cpus
from setebench.probe import Base, Probe
from setebench.registry import scenario
from setebench.scenario import Context

SOURCE = Path(__file__).with_name("bandwidth.c")
COMPILE = ("gcc", "-O3", "-march=native", "-pthread", "-shared", "-fPIC")
TRIAL_ROUNDS = 2
"""As many as `setebench bandwidth` takes to choose a form of the loop."""

PROCESSES = 5

OURS: dict[str, tuple[str, ...]] = {"copy": ("copy", "copy_nt"), "triad": ("triad",)}
"""gcc turns its copy into a call of the C library's memcpy, which chooses stores past the caches for large arrays."""

CACHED = {"l1": 16 << 10, "l2": 256 << 10, "l3": 4 << 20}
WANTED = 0.98
LIKWID = {"scalar": "load", "16": "load_sse", "32": "load_avx", "64": "load_avx512"}
LIKWID_BYTES = 8 << 30
"""What a turn beside likwid-bench reads: 40 to 200 ms, so that its starting is not measured."""
REPEATS = 5


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and the order statistics that hold it with 95 % at least (from six values on)."""
    ordered, count = np.sort(values), len(values)
    below = np.cumsum([math.comb(count, n) / 2**count for n in range(count)])  # chance that so many lie below it
    skipped = int((below <= 0.025).sum())
    skipped = max(skipped - 1, 0)
    return float(np.median(ordered)), float(ordered[skipped]), float(ordered[count - 1 - skipped])


def taking_turns(rounds: int, ways: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """GB/s of every way in every round; each round goes through them in the opposite order of the one before."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        names = list(ways) if number % 2 else list(ways)[::-1]
        for name in names:
            found[name].append(ways[name]())
    return found


def show(what: str, ours: Sequence[float], theirs: Sequence[float], beside: str) -> None:
    """Print the ratio of two columns of rounds."""
    middle, low, high = median_interval(np.array(ours) / np.array(theirs))
    verdict = "reached" if middle >= WANTED else "missed"
    print(
        f"{what:20} {np.median(ours):8.2f} GB/s, {beside} {np.median(theirs):8.2f} GB/s, "
        f"ratio {middle:.3f} [{low:.3f}, {high:.3f}] of {len(ours)} rounds ({verdict}: {WANTED})"
    )


def compiled_way(library: ctypes.CDLL, kernel: str, team: Team, array_bytes: int, runs: int) -> Callable[[], float]:
    """The compiled loop over a team's arrays; GB/s of the best of `runs` after one that doesn't count."""
    threads = len(team.regions)
    cpus = (ctypes.c_int * threads)(*team.regions)
    first = (ctypes.c_void_p * threads)(*(region.address for region in team.regions.values()))
    seconds = (ctypes.c_double * (runs + 1))()
    elements, spacing = ctypes.c_size_t(array_bytes // 8), ctypes.c_size_t(array_spacing(array_bytes) // 8)
    number = list(OURS).index(kernel)
    volume = threads * array_bytes // 256 * KERNELS[kernel].program_bytes

    def run() -> float:
        if library.run_compiled(number, threads, cpus, first, spacing, elements, runs + 1, seconds):
            raise SystemExit("the compiled loops could not run on these CPUs")
        return volume / min(seconds[1:]) / 1e9

    return run


def best_rate(
    context: Context, team: Team, stream: tuple[str, int, int], passes: int, runs: int, rolled: bool
) -> float:
    """GB/s of all threads in the best of `runs` after one that doesn't count; `stream` is kernel, width, array size."""
    name, width, array_bytes = stream
    probes, places = {}, {}
    for cpu, region in team.regions.items():
        base = Base(f"arrays{cpu}")
        one = Probe().stream(base, name, array_bytes, width, rolled=rolled)
        body = one if passes == 1 else Probe().repeat(passes, one)
        probes[cpu] = (Probe().barrier().start(0, dither=False) + body).fence().stop(0)
        places[base] = np.full(runs + 1, region.address)
    ticks = np.max([each[1:, 0] for each in run_on(context.machine, probes, places).values()], axis=0)
    volume = len(probes) * passes * array_bytes // 256 * KERNELS[name].program_bytes
    return float(volume / ticks.min() * context.machine.facts.ticks_per_second / 1e9)


def own_ways(context: Context, team: Team, stream: tuple[str, int, int], runs: int) -> dict[str, Callable[[], float]]:
    """A kernel of setebench over a team's arrays, in both forms of its loop."""
    kernel = stream[0]
    forms = {f"{kernel} {'rolled' if rolled else 'unrolled'}": rolled for rolled in KERNELS[kernel].forms}
    return {
        name: functools.partial(best_rate, context, team, stream, 1, runs, rolled) for name, rolled in forms.items()
    }


def chosen_form(forms: dict[str, Callable[[], float]]) -> str:
    """The form that is faster in a short trial."""
    tried = taking_turns(TRIAL_ROUNDS, forms)
    return max(tried, key=lambda form: max(tried[form]))


def beside_gcc(arguments: argparse.Namespace) -> None:
    """Copy and triad in memory beside gcc's, for every number of threads."""
    every = len(allowed_cpus())
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bandwidth.so"
        subprocess.run([*COMPILE, str(SOURCE), "-o", str(program)], check=True)
        for threads in arguments.threads or sorted({1, every}):
            print(f"{' '.join(COMPILE)} {SOURCE.name}: arrays of {arguments.mib} MiB, {threads} threads")
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                work = [(str(program), threads, arguments)] * PROCESSES
                parts = pool.starmap(rounds_beside_gcc, work, chunksize=1)
            for name, kernels in OURS.items():
                found = {way: [rate for part in parts for rate in part[name][way]] for way in parts[0][name]}
                for way in (f"{kernel} {form}" for kernel in kernels for form in ("unrolled", "rolled", "chosen")):
                    show(way, found[way], found["gcc"], f"gcc's {name}")


def rounds_beside_gcc(program: str, threads: int, arguments: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """A process's share of the rounds: for each compiled kernel GB/s of every way. Of the two forms of a loop, the one
    that a trial in this process chose stands there once more."""
    library = ctypes.CDLL(program)
    machine = open_machine()
    context, rates = Context(machine=machine), {}
    cpus = choose_cpus(machine.facts, context.cpu, threads)
    array_bytes = (arguments.mib << 20) // threads // 256 * 256
    width = WIDTHS[widths_of(machine.facts)[0]]
    team = Team(context, dict.fromkeys(cpus, stream_bytes(KERNELS["triad"], array_bytes)))
    try:
        for name, kernels in OURS.items():
            forms = {
                kernel: own_ways(context, team, (kernel, width, array_bytes), arguments.runs) for kernel in kernels
            }
            chosen = {kernel: chosen_form(own) for kernel, own in forms.items()}
            ways = {way: run for own in forms.values() for way, run in own.items()}
            ways["gcc"] = compiled_way(library, name, team, array_bytes, arguments.runs)
            found = taking_turns(-(-arguments.rounds // PROCESSES), ways)
            rates[name] = found | {f"{kernel} chosen": found[form] for kernel, form in chosen.items()}
    finally:
        team.close()
        machine.close()
    return rates


def likwid_rate(line: Sequence[str]) -> float:
    """GB/s that a run of likwid-bench prints."""
    ended = subprocess.run(line, check=False, capture_output=True, text=True)
    found = re.search(r"^MByte/s:\s+([\d.]+)", ended.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{' '.join(line)} printed no rate: {(ended.stderr or ended.stdout).strip()[-200:]}")
    return float(found[1]) / 1000


def beside_likwid(arguments: argparse.Namespace) -> None:
    """Loads of data sets well inside the caches, on one CPU, beside likwid-bench with as many passes."""
    with closing(open_machine()) as machine:
        in_caches(Context(machine=machine), arguments)


def in_caches(context: Context, arguments: argparse.Namespace) -> None:
    """Every width and cache beside likwid-bench."""
    facts = context.machine.facts
    program = shutil.which("likwid-bench")
    if program is None:
        print("likwid-bench is not installed: no comparison of cache bandwidth")
        return
    (cpu,) = choose_cpus(facts, context.cpu, 1)
    for width in widths_of(facts, arguments.width or ()):
        for level, size in CACHED.items():
            passes = LIKWID_BYTES // size
            where = ("taskset", "-c", str(cpu))  # its own choice of a CPU counts from the first
            line = (*where, program, "-t", LIKWID[width], "-w", f"N:{size >> 10}kB:1", "-i", str(passes))
            team = Team(context, {cpu: size + 8192})
            try:
                ways: dict[str, Callable[[], float]] = {
                    "own": functools.partial(best_rate, context, team, ("load", WIDTHS[width], size), passes, 1, False),
                    "likwid": functools.partial(likwid_rate, line),
                }
                found = taking_turns(arguments.rounds, ways)
            finally:
                team.close()
            show(f"{level} load.{width}", found["own"], found["likwid"], " ".join(line[4:]))


def repeats(arguments: argparse.Namespace) -> None:
    """Five whole runs of one kernel: how far the peaks differ, and how long each takes."""
    peaks: dict[str, list[float]] = {}
    for _ in range(REPEATS):
        began = time.monotonic()
        with closing(open_machine()) as machine:
            for finding in scenario("bandwidth").answer(Context(machine=machine, options={"kernel": ["load"]})):
                if isinstance(finding.value, float):
                    peaks.setdefault(finding.parameter, []).append(finding.value)
        print(f"setebench bandwidth --kernel load: {time.monotonic() - began:.1f} s")
    for name, values in peaks.items():
        spread = max(values) / min(values) - 1
        print(f"{name:42} {' '.join(f'{value:8.2f}' for value in values)} GB/s, spread {spread:.1%}")


def main() -> None:
    """Run the comparisons asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = {"gcc": beside_gcc, "likwid": beside_likwid, "repeats": repeats}
    parser.add_argument("--only", choices=parts, action="append", help="a part to run; may be repeated")
    parser.add_argument("--rounds", type=int, default=20, help="times that each side is run, in turn")
    parser.add_argument("--runs", type=int, default=4, help="runs in memory of a turn, of which the best counts")
    parser.add_argument("--mib", type=int, default=128, help="size of each array in memory")
    parser.add_argument("--width", choices=WIDTHS, action="append", help="width of loads beside likwid-bench")
    meaning = "number of threads in memory; may be repeated. Default: one, and one on every CPU"
    parser.add_argument("--threads", type=int, action="append", help=meaning)
    arguments = parser.parse_args()
    for name in arguments.only or parts:
        parts[name](arguments)


if __name__ == "__main__":
    main()
