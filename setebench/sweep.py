"""Where the levels of a memory hierarchy end: chases over working sets of growing size.

The sweep gives scenarios one working set that lies well inside each level, found by measuring; what the operating
system says of caches is never asked.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setebench.calibrate import LINE, quick_cycles_per_tick, step_ticks
from setebench.errors import UnsupportedError
from setebench.infer.levels import (
    FLAT_SLOPE,
    OWN_SHARE,
    Answer,
    Plateau,
    boundary,
    levels_between,
    plateaus,
    rising,
)
from setebench.infer.ticks import groups
from setebench.layout import by_windows, lay, span_bytes
from setebench.machine import Region
from setebench.placing import Place, single_cycles
from setebench.probe import Probe
from setebench.scenario import Context

SMALLEST_BYTES, LARGEST_BYTES = 4096, 45 << 20
"""Working sets of the sweep. The largest outgrows a shared cache of 32 MiB and keeps the memory that the lines are
spread over (four times as much) below 200 MiB; a larger last level shows no end, and that is what is told."""

SWEEP_STEPS = 8192
"""Steps that are timed at once in the sweep; beside so many a bracket's overhead is nothing."""

FINE_STEP_CYCLES = 2.0
"""A clock whose step is no longer than this parts neighbouring levels sample by sample."""

FIRST_WALK, WALK_RATIO, WALK_REPETITIONS = 1.3, 1.5, 6

HIDING_OCTAVES = 2.5
"""A level's capacity wears off within this many doublings, even where replacement is random."""

UNSTEADY_RATIO = 1.05
"""Turns over the same lines that differ by more were disturbed."""

COSTLY_BYTES = 2 << 20
"""Working sets beyond this take long to walk over, on a simulated machine above all."""


LEAST_MEMORY_BYTES = 8 << 20


def working_memory(context: Context) -> Region:
    """Memory for the largest working set, in the smallest pages: those every machine has.

    Where so much is not to be had, half of it, and so on; the sweep then ends earlier, which a progress message says.
    Raises `UnsupportedError` below 8 MiB."""
    facts = context.machine.facts
    wanted = min(span_bytes(LARGEST_BYTES, facts.line_size), facts.memory_bytes // 2)
    while True:
        try:
            return context.machine.allocate(wanted, min(facts.page_sizes))
        except UnsupportedError:
            wanted //= 2
            if wanted < LEAST_MEMORY_BYTES:
                raise
            context.progress(f"little memory: going on with {wanted >> 20} MiB, so outer levels may not be found")


def find_levels(context: Context, region: Region) -> dict[str, float]:
    """Levels by name with a working set that lies well inside each, from a sweep; `memory` has none (0).

    About how many cycles a load from each takes is then known as `level_cycles`."""
    memory = _memory_cycles(context, region)
    sizes, cycles = _sweep(context, region, memory)
    found = plateaus(sizes, cycles)
    # a plateau at the cost of a flushed line is memory itself; what the sweep did not outgrow is still a cache
    caches = [plateau for plateau in found if plateau.cycles < 0.5 * memory] or found[:1]
    outer = [*caches[1:], Plateau(float(sizes[-1]), float(sizes[-1]), memory)]
    ends = [boundary(inner, next_one, sizes, cycles) for inner, next_one in zip(caches, outer, strict=True)]
    levels = {f"l{number + 1}": plateau for number, plateau in enumerate(caches[:3])}
    context.evidence["sweep"] = {
        "size_bytes": sizes.tolist(),
        "cycles": cycles.tolist(),
        "boundaries_bytes": ends if cycles[-1] > 0.5 * memory else ends[:-1],
        "levels": {name: plateau.cycles for name, plateau in levels.items()} | {"memory": memory},
    }
    inner_ends = [SMALLEST_BYTES / 4.0, *ends]
    inside = {name: _well_inside(inner_ends[n], ends[n]) for n, name in enumerate(levels)}
    answers = _answers(context, region, ends[0], memory)
    between, context.known["hidden_cycles"] = levels_between(answers, caches[0].cycles, memory)
    cycles_of = {name: plateau.cycles for name, plateau in levels.items()}
    if len(levels) - 1 <= len(between) <= 2:  # seen one by one, so better known than from the sweep's means
        inside = {"l1": inside["l1"]} | {f"l{n + 2}": level.walk_bytes for n, level in enumerate(between)}
        cycles_of = {"l1": caches[0].cycles} | {f"l{n + 2}": level.cycles for n, level in enumerate(between)}
    elif len(levels) < 3 and (cycles[-1] < 0.5 * memory or _room_for_another(ends[-1], sizes, cycles, memory)):
        context.known["unclear_level"] = f"l{len(levels) + 1}"
    context.known["level_cycles"] = cycles_of | {"memory": memory}
    return inside | {"memory": 0.0}


def _answers(context: Context, region: Region, first_end: float, memory: float) -> list[Answer]:
    """How lines answer behind walks of growing size, where the clock is fine enough to part them; else nothing."""
    step, per_tick = step_ticks(context), quick_cycles_per_tick(context)
    found: list[Answer] = []
    walk = FIRST_WALK * first_end
    while step * per_tick < FINE_STEP_CYCLES and span_bytes(walk, region.line_size) < region.size // 2:
        place = Place(context, region, "walk", walk)
        count = place.repetitions(WALK_REPETITIONS)
        ticks = context.machine.run(place.singles(8), place.placements(count + 1), cpu=context.cpu, warmup=1)
        loads, additions = ticks[:, ::2].ravel(), ticks[:, 1::2].ravel()
        for group in groups(loads, step):
            cycles = single_cycles(loads[group], additions, step, per_tick)
            found.append(Answer(cycles, float(group.mean()), walk))
        if sum(each.share for each in found if each.walk_bytes == walk and each.cycles > 0.7 * memory) > OWN_SHARE:
            break
        walk *= WALK_RATIO
    return found


def _room_for_another(end: float, sizes: NDArray[np.float64], cycles: NDArray[np.float64], memory: float) -> bool:
    """Whether the way from the last level found to memory is so long that another level may hide in it."""
    at_memory = sizes[cycles > 0.8 * memory]
    return bool(np.log2((at_memory[0] if len(at_memory) else sizes[-1]) / end) > HIDING_OCTAVES)


def _well_inside(inner_end: float, end: float) -> float:
    """A working set that the inner level surely does not hold, whatever it replaces, and this one surely does."""
    return min(4.0 * inner_end, float(np.sqrt(inner_end * end)))


def _sweep(context: Context, region: Region, memory: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cycles per step of a chase over working sets of growing size, until they cost as much as `memory`.

    Shape (points,) each, sizes in bytes. Half an octave apart, an eighth where the latency rises."""
    sweep = _Sweep(context, region)
    reach = region.size * LARGEST_BYTES / span_bytes(LARGEST_BYTES, region.line_size)
    for number in range(int(2 * np.log2(reach / SMALLEST_BYTES)) + 1):
        sweep.measure(SMALLEST_BYTES * 2 ** (0.5 * number))
        if number > 3 and min(list(sweep.known.values())[-3:]) > 0.9 * memory:
            break
    sweep.repeat()
    for finest in (1.3, 1.15):  # halve the steps where the latency rises, twice if that costs little
        for low, high in pairwise(sorted(sweep.known)):
            steep = np.log2(sweep.known[high] / sweep.known[low]) > FLAT_SLOPE * np.log2(high / low)
            if steep and high / low > finest and (finest > 1.2 or high < COSTLY_BYTES):
                sweep.measure((low * high) ** 0.5)
    sweep.repeat()
    ordered = sorted(sweep.known)
    return np.array(ordered), np.array([sweep.known[size] for size in ordered])


class _Sweep:
    """Cycles per step of a chase by working-set size, each the fastest of what was seen: whatever else the machine does
    can only slow a chase down."""

    def __init__(self, context: Context, region: Region) -> None:
        self._context, self._region = context, region
        self.known: dict[float, float] = {}
        self._unsteady: set[float] = set()

    def measure(self, size: float) -> None:
        """Measure one size (again)."""
        fastest, median = _chase_cycles(self._context, self._region, size)
        self.known[size] = min(fastest, self.known.get(size, np.inf))
        if median > UNSTEADY_RATIO * fastest:
            self._unsteady.add(size)

    def repeat(self) -> None:
        """Measure again, on other lines, where turns differed or a larger set was faster: somebody disturbed those, or
        their pages fell badly."""
        for _ in range(2):
            ordered = sorted(self.known)
            cycles = np.array([self.known[size] for size in ordered])
            high = {ordered[n] for n in np.flatnonzero(cycles > UNSTEADY_RATIO * rising(cycles))}
            unsteady, self._unsteady = self._unsteady | high, set()
            for size in sorted(unsteady):
                self.measure(size)


def _chase_cycles(context: Context, region: Region, size: float) -> tuple[float, float]:
    """Cycles per step of a long chase over a working set of `size` bytes: of the fastest turn, and of the median."""
    context.known["layouts"] = context.known.get("layouts", 0) + 1
    rng = np.random.default_rng((context.seed, context.known["layouts"]))
    order = by_windows(lay(region, size, rng), rng)
    context.machine.link(region, order)
    # one whole round first, so that every line has been used as long ago as the set is large
    context.machine.run(Probe().chase(LINE, len(order)), {LINE: order[:1]}, cpu=context.cpu)
    turns = 8 if len(order) < 65536 else 4
    starts = order[(np.arange(turns) * SWEEP_STEPS) % len(order)]
    ticks = context.machine.run(Probe().start().chase(LINE, SWEEP_STEPS).stop(), {LINE: starts}, cpu=context.cpu)
    per_step = quick_cycles_per_tick(context) / SWEEP_STEPS
    return float(np.min(ticks)) * per_step, float(np.median(ticks)) * per_step


def _memory_cycles(context: Context, region: Region) -> float:
    """Cycles of a load of a flushed line."""
    place = Place(context, region, "memory", 0.0)
    ticks = context.machine.run(place.singles(8), place.placements(16), cpu=context.cpu, warmup=2)
    step = step_ticks(context)
    return single_cycles(ticks[:, ::2].ravel(), ticks[:, 1::2].ravel(), step, quick_cycles_per_tick(context))
