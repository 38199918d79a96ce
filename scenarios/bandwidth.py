"""Bandwidth of every level and of memory: streaming kernels over data sets of growing size, on one CPU and on several.

Fang et al. 2014, 5.4 and Figure 9; Molka et al. 2017, 3.3; the kernels are those of Röhl et al. 2015. Where the levels
end is found by a latency sweep (`sweep.find_levels`), so a peak belongs to a level because its data set fits there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from setebench.errors import UnsupportedError, UsageError
from setebench.kernels import NAMES, Kernel
from setebench.layout import Layout, by_windows, lay, span_bytes
from setebench.machine import Region, run_interleaved
from setebench.placing import SETTLE_CYCLES
from setebench.probe import Base, Probe
from setebench.report.bandwidth import bandwidth_figure
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Option, Scenario
from setebench.streaming import (
    PLACEMENTS,
    WIDTHS,
    Team,
    array_bytes_for,
    choose_cpus,
    kernels_of,
    team_bytes,
    widths_of,
    wrong_arithmetic,
)
from setebench.sweep import find_levels, working_memory

DEFAULT_KERNELS = ("load", "store", "copy", "triad")
SMALLEST_BYTES = 4096
ROUNDS, FAST_ROUNDS = 5, 3
REPETITIONS, LARGE_REPETITIONS = 4, 2
"""Timed in a round, of which the best counts; less often where a single pass is long enough."""

BUDGET_SECONDS, FAST_BUDGET_SECONDS = 22.0, 6.0

WIDEST = 2.5
"""The sweep goes on to so many times the data set that outgrows the last level, which is some four times that level."""

OUTGROWN_LATENCY = 0.85
"""A data set has outgrown the caches when its lines, after a pass, answer this slowly beside flushed ones: the caches
then hold a quarter of it, less where they replace the longest unused."""

OUTGROWING_SECONDS = 20.0

LARGE_PASSES = 6
"""Passes over a data set that is measured by single ones: filling it, trying it, and what is timed."""

SAMPLED_BYTES = 1 << 16

LEAST_OVERLAP = 0.9
"""Threads that ran at once for less of the time share nothing for the rest of it."""

FEW_BYTES = 16384
"""Lines whose coming by prefetches is looked at: many times what a core can have under way."""

LEAST_BROUGHT = 0.9

LOW_SHARE, SURE_SHARE, ALMOST = 0.95, 0.1, 0.99
"""Data sets of a level reach from the one that lies well inside it (smaller ones may fit the level before), in the
last level up to this share of the one that outgrows it (half of which did not). Whole blocks make a data set a little
smaller than was asked for."""

SWEPT, CHASED = Base("swept"), Base("chased")


@dataclass(frozen=True)
class Case:
    """What one sweep varies the data set of."""

    kernel: Kernel
    width: str
    cpus: tuple[int, ...]

    @property
    def threads(self) -> int:
        """Number of threads."""
        return len(self.cpus)

    def parameter(self, level: str) -> str:
        """Name of the finding of a level."""
        return f"bandwidth.{level}.{self.kernel.name}.{self.width}.threads_{self.threads}"


@dataclass
class Point:
    """One data set (total bytes of a thread): the best program GB/s of every round, and how long all threads ran at
    once in the best repetition of all."""

    size_bytes: int
    rounds: list[float]
    overlap: float = 0.0
    passes: int = 0

    @property
    def best(self) -> float:
        """The best of all rounds."""
        return max(self.rounds)


def answer(context: Context) -> Iterator[Finding]:
    """Yield the peaks of every level for each kernel, width and number of threads."""
    facts = context.machine.facts
    if not facts.kernels:
        yield Finding(
            parameter="bandwidth", outcome=Outcome.UNAVAILABLE, reason=f"{facts.name} runs no streaming kernels"
        )
        return
    cases = list(_cases(context))
    room = _check_room(context, max(case.threads for case in cases))
    wrong = _check(context, cases)
    levels = _levels(context)
    outgrown = _outgrown(context, levels, room)
    sizes = _sizes(context, levels, outgrown, room)
    budget = context.options.get("seconds") or (FAST_BUDGET_SECONDS if context.fast else BUDGET_SECONDS)
    deadline = time.monotonic() + budget
    drawn = []
    for number, case in enumerate(cases):
        name = f"{case.kernel.name}.{case.width}"
        if name in wrong:
            yield Finding(parameter=case.parameter("l1"), outcome=Outcome.UNRESOLVED, reason=wrong[name])
            continue
        own_sizes = _shared(sizes, case.threads, outgrown) if not context.options.get("largest") else sizes
        first = {int(size) for size in levels.values()} | {outgrown, own_sizes[-1]}
        own_sizes = sorted(own_sizes, key=lambda size: (size not in first, size))
        points = _sweep(context, case, own_sizes, (deadline - time.monotonic()) / (len(cases) - number))
        drawn.append(_evidence(case, points))
        yield from _findings(context, case, points, levels, outgrown)
    context.evidence["bandwidth"] = {"outgrown_bytes": outgrown, "levels": levels, "sweeps": drawn}


# -- what is asked -------------------------------------------------------------------------------


def _cases(context: Context) -> Iterator[Case]:
    facts, options = context.machine.facts, context.options
    kernels = kernels_of(facts, tuple(options.get("kernel") or DEFAULT_KERNELS))
    widths = widths_of(facts, tuple(options.get("width") or ()))
    counts = _thread_counts(options.get("threads"), len(facts.cpus))
    placement = options.get("placement") or PLACEMENTS[0]
    for kernel in kernels:
        for width in widths if kernel.accesses else ["64"]:
            for threads in counts:
                yield Case(kernel, width, choose_cpus(facts, context.cpu, threads, placement))


def _thread_counts(asked: str | None, cpus: int) -> list[int]:
    """Numbers of threads: `1,2,4`, or one and all."""
    if not asked:
        return sorted({1, cpus})
    if asked == "each":
        return list(range(1, cpus + 1))
    try:
        return sorted({int(part) for part in asked.split(",")})
    except ValueError:
        raise UsageError(f"--threads takes numbers such as 1,2,4, or each; not {asked!r}") from None


def _check_room(context: Context, threads: int) -> int:
    """Bytes that each thread's data set may have. Raises `UsageError` for a data set asked for that has no room."""
    room = context.machine.facts.memory_bytes // (2 * threads)
    asked = context.options.get("largest")
    if asked is not None and not 1 <= asked <= room >> 20:
        raise UsageError(f"--largest takes 1 to {room >> 20} MiB: {threads} threads have no more memory here")
    return room


# -- measuring -----------------------------------------------------------------------------------


def _check(context: Context, cases: list[Case]) -> dict[str, str]:
    """Kernels whose arithmetic is wrong, and how; evidence tells which were checked."""
    told: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for kernel, width in {(case.kernel, case.width) for case in cases}:
        name = f"{kernel.name}.{width}"
        try:
            found = wrong_arithmetic(context, kernel, WIDTHS[width], context.cpu)
        except UnsupportedError as error:
            told[name] = f"not checked: {error}"
            continue
        told[name] = found or "right"
        if found:
            wrong[name] = found
    context.evidence["arithmetic"] = dict(sorted(told.items()))
    return wrong


def _levels(context: Context) -> dict[str, float]:
    """A data set well inside each level; 0 for memory."""
    context.progress("where the levels end")
    region = working_memory(context)
    try:
        return find_levels(context, region)
    finally:
        context.machine.release(region)


def _outgrown(context: Context, levels: dict[str, float], most: int) -> int:
    """The first of doubling data sets, in bytes, of which the caches keep little when a stream has passed over it; 0
    if none up to `most`.

    What they keep is found by following pointers to random lines of it, whose latency is compared with that of lines
    that were flushed. So nothing that is said of the caches is believed, and the last level may have no clear end."""
    size = max(16 * SAMPLED_BYTES, 1 << int(np.ceil(np.log2(2.0 * max(levels.values())))))
    begun = time.monotonic()
    while size <= most and time.monotonic() - begun < OUTGROWING_SECONDS:
        context.progress(f"whether {size >> 20} MiB outgrow the last level")
        region = context.machine.allocate(size, min(context.machine.facts.page_sizes))
        try:
            sparse = lay(region, SAMPLED_BYTES, context.rng(5))
            passed = _chase_ticks(context, region, sparse, Probe().stream(SWEPT, "load", size))
            dense = Region(
                region.address, span_bytes(SAMPLED_BYTES, region.line_size), region.page_size, region.line_size
            )
            away = (
                Probe().repeat(dense.lines, Probe().flush(SWEPT), advance=dense.line_size).fence().wait(SETTLE_CYCLES)
            )
            flushed = _chase_ticks(context, region, lay(dense, SAMPLED_BYTES, context.rng(5)), away)
        finally:
            context.machine.release(region)
        context.evidence.setdefault("kept_by_caches", {})[str(size)] = [passed, flushed]
        if passed > OUTGROWN_LATENCY * flushed:
            return size
        size *= 2
    return 0


def _chase_ticks(context: Context, region: Region, layout: Layout, before: Probe) -> float:
    """Ticks per line of a chase over a layout's lines, the least of a few, each time right behind `before`."""
    order = by_windows(layout, context.rng(6))
    context.machine.link(region, order)
    probe = before.fence().start().chase(CHASED, len(order)).stop()
    placements = {SWEPT: np.full(3, region.address), CHASED: np.repeat(order[:1], 3)}
    return float(context.machine.run(probe, placements, cpu=context.cpu).min()) / len(order)


def _sizes(context: Context, levels: dict[str, float], outgrown: int, room: int) -> list[int]:
    """Data sets of a thread, smallest first: half octaves (octaves when fast), and one well inside each level."""
    asked = int(context.options.get("largest") or 0) << 20
    largest = min(asked or WIDEST * outgrown or WIDEST * max(levels.values()), room)
    octaves = np.arange(0.0, np.log2(largest / SMALLEST_BYTES), 1.0 if context.fast else 0.5)
    own = [size for size in (*levels.values(), outgrown) if 0 < size < largest]
    sizes = {int(size) for size in (*(SMALLEST_BYTES * 2.0**octaves), *own, largest)}
    return sorted(sizes)


def _shared(sizes: list[int], threads: int, outgrown: int) -> list[int]:
    """Data sets of each of several threads: together they need be no larger than that of one, but each must outgrow the
    last level by itself, as it may not be shared."""
    largest = max(outgrown, sizes[-1] // threads) if outgrown else sizes[-1]
    return [*(size for size in sizes if size < largest), largest]


def _sweep(context: Context, case: Case, sizes: list[int], seconds: float) -> list[Point]:
    """Every data set that the time allows, in rounds: what disturbs one round need not disturb the next."""
    deadline = time.monotonic() + seconds
    points: dict[int, Point] = {}
    team = Team(context, case.cpus, team_bytes(max(sizes)))
    try:
        for number in range(FAST_ROUNDS if context.fast else ROUNDS):
            begun = time.monotonic()
            plural = "s" if case.threads > 1 else ""
            context.progress(f"{case.kernel.name}.{case.width}, {case.threads} thread{plural}, round {number + 1}")
            _round(case, team, sizes, points, deadline)
            if 2 * time.monotonic() - begun > deadline:
                break
    finally:
        team.close()
    return [points[size] for size in sorted(points)]


def _round(case: Case, team: Team, sizes: list[int], points: dict[int, Point], deadline: float) -> None:
    """Measure every data set once, in the order of `sizes`; the first round leaves out what would take too long."""
    first = not points
    per_byte = 0.0  # seconds that streaming a byte took, of the dearest data set yet
    for size in sizes:
        array = array_bytes_for(case.kernel, size)
        total = array * case.kernel.arrays
        known = total in points
        if (known and len(points[total].rounds) and first) or (not first and not known):
            continue  # another size came to the same whole blocks, or to more than the time allowed
        begun = time.monotonic()
        if first and begun + LARGE_PASSES * total * per_byte > deadline:
            continue
        point = points.setdefault(total, Point(total, []))
        _measure(case, team, array, point)
        streamed = total * (point.passes * (REPETITIONS + 1) + LARGE_PASSES)
        per_byte = max(per_byte, (time.monotonic() - begun) / streamed)


def _measure(case: Case, team: Team, array: int, point: Point) -> None:
    """One round of one data set."""
    width = WIDTHS[case.width]
    if not point.passes:
        team.fill(case.kernel, width, array)
        point.passes = team.passes_for(case.kernel, width, array)
    timing = team.time(case.kernel, width, array, point.passes, REPETITIONS if point.passes > 1 else LARGE_REPETITIONS)
    rates = timing.gigabytes_per_second()
    best = int(np.argmax(rates))
    if not point.rounds or rates[best] > point.best:
        point.overlap = float(timing.overlap()[best])
    point.rounds.append(float(rates[best]))


def _brought_share(context: Context, kernel: Kernel) -> float:
    """What part of lines in memory a stream of prefetches really brings: some cores drop prefetches that come too
    fast. By the time of loading the lines afterwards, between that of lines left alone and that of cached ones."""
    machine, base = context.machine, Base("lines")
    region = machine.allocate(FEW_BYTES, min(machine.facts.page_sizes))
    lines = FEW_BYTES // machine.facts.line_size
    away = Probe().repeat(lines, Probe().flush(base), advance=machine.facts.line_size).fence().wait(SETTLE_CYCLES)
    loads = Probe().start().stream(base, "load", FEW_BYTES, 8).stop()
    between = (Probe(), Probe().stream(base, kernel.name, FEW_BYTES), Probe().stream(base, "load", FEW_BYTES, 8))
    probes = [(away + each).fence().wait(SETTLE_CYCLES).fence() + loads for each in between]
    placements = np.full(64, region.address)
    found = run_interleaved(machine, probes, {base: placements}, context.rng(3), cpu=context.cpu, block=8)
    machine.release(region)
    cold, fetched, warm = (float(np.median(ticks)) for ticks in found)
    return (cold - fetched) / max(cold - warm, 1.0)


# -- findings ------------------------------------------------------------------------------------


def _findings(
    context: Context, case: Case, points: list[Point], levels: dict[str, float], outgrown: int
) -> Iterator[Finding]:
    kernel = case.kernel
    dropped = ""
    if kernel.fetches:
        share = _brought_share(context, kernel)
        if share < LEAST_BROUGHT:
            dropped = f"only {max(share, 0.0):.0%} of the lines arrived: prefetches are dropped when they come too fast"
    for level in levels:
        if (kernel.bypass and level != "memory") or (kernel.fetches and level == "l1"):
            continue  # such stores go to memory wherever the data was; such prefetches find nothing to do
        own, reason = _points_of(level, case.threads, points, levels, outgrown)
        if dropped or not own:
            yield Finding(parameter=case.parameter(level), outcome=Outcome.UNRESOLVED, reason=dropped or reason)
            continue
        yield from _told(case, level, max(own, key=lambda point: point.best))


def _points_of(
    level: str, threads: int, points: list[Point], levels: dict[str, float], outgrown: int
) -> tuple[list[Point], str]:
    """Data sets that lie in a level, and why there are none."""
    if level == "memory":
        if not outgrown:
            return [], "no data set was found that surely outgrows the last level, in the memory and time there were"
        enough = [point for point in points if point.size_bytes >= ALMOST * outgrown]
        reason = "no time or memory for data sets that surely outgrow the last level; use --seconds or --largest"
        return enough[-1:], reason  # the largest alone: what a cache still holds of smaller ones makes them faster
    caches = [name for name in levels if name != "memory"]
    place = caches.index(level)
    low = LOW_SHARE * levels[level] if place else 0.0
    if place + 1 < len(caches):
        high = (levels[level] * levels[caches[place + 1]]) ** 0.5
    else:
        high = max(SURE_SHARE * outgrown, levels[level]) / threads  # it may be shared by all of them
    own = [point for point in points if low <= point.size_bytes <= high]
    return own, f"no data set of {threads} threads outgrows the level before and fits this one, which they may share"


def _told(case: Case, level: str, point: Point) -> Iterator[Finding]:
    name = case.parameter(level)
    if point.overlap < LEAST_OVERLAP:
        reason = f"all threads ran at once for {point.overlap:.0%} of the time only: something else used a CPU"
        yield Finding(parameter=name, outcome=Outcome.UNRESOLVED, reason=reason)
        return
    several = len(point.rounds) > 1
    rounds = f"{len(point.rounds)} rounds" if several else "one round"
    at_once = f", all at once {point.overlap:.0%} of the time" if case.threads > 1 else ""
    rates = {name: 1.0}
    if level != "l1" and case.kernel.written_bytes:
        rates[f"{name}.traffic"] = case.kernel.traffic_bytes / case.kernel.program_bytes
    for parameter, factor in rates.items():
        yield Finding(
            parameter=parameter,
            value=round(point.best * factor, 4),
            unit="GB/s",
            low=float(np.median(point.rounds)) * factor if several else None,
            high=point.best * factor if several else None,
            method=f"best of {rounds} over {_size(point.size_bytes)} a thread{at_once}",
            evidence="bandwidth",
        )


def _size(size: int) -> str:
    """Bytes for people: arrays of whole blocks seldom come to whole KiB."""
    unit, name = next((unit, name) for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")) if size >= unit)
    return f"{size / unit:.3g} {name}"


def _evidence(case: Case, points: list[Point]) -> dict[str, Any]:
    kernel = case.kernel
    return {
        "kernel": kernel.name,
        "width": case.width,
        "cpus": list(case.cpus),
        "bytes_per_block": {
            "read": kernel.read_bytes,
            "written": kernel.written_bytes,
            "write_allocated": kernel.allocated_bytes,
        },
        "flops_per_block": kernel.block_flops,
        "size_bytes": [point.size_bytes for point in points],
        "rounds_gb_per_s": [point.rounds for point in points],
        "overlap": [round(point.overlap, 4) for point in points],
    }


SCENARIO = Scenario(
    name="bandwidth",
    summary="bandwidth of every level and of memory, by streaming kernels on one CPU and on several",
    answer=answer,
    parameters=("bandwidth.",),
    options=(
        Option(name="kernel", help="Kernel to run; may be repeated.", choices=NAMES, multiple=True),
        Option(
            name="width",
            help="Width of accesses; may be repeated. Default: the widest.",
            choices=tuple(WIDTHS),
            multiple=True,
        ),
        Option(name="threads", help="Numbers of threads, such as 1,2,4, or each. Default: one, and all."),
        Option(
            name="placement",
            help="spread: a core each first; compact: a core's siblings first.",
            default=PLACEMENTS[0],
            choices=PLACEMENTS,
        ),
        Option(
            name="largest", help="Largest data set of a thread in MiB. Default: ten times the last level.", type=int
        ),
        Option(name="seconds", help="Time to spend on sweeps. Default: 22, or 6 with --fast.", type=float),
    ),
    plot=bandwidth_figure,
    order=70,
    seconds=12.0,
)
