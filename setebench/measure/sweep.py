"""Where the levels of a memory hierarchy end: chases over working sets of growing size.

The sweep gives scenarios one working set that lies well inside each level, found by measuring; what the operating
system says of caches is never asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Levels, Walk
from setebench.errors import UnsupportedError
from setebench.infer.levels import (
    FLAT_SLOPE,
    SAME_LEVEL_RATIO,
    Answer,
    Plateau,
    boundary,
    levels_between,
    plateaus,
    rising,
)
from setebench.machine import Region
from setebench.measure.calibrate import LINE, quick_cycles_per_tick, step_ticks
from setebench.measure.candidates import MOSTLY_SHARE, SEEN_SHARE, Candidate, last_level, shortest_alike
from setebench.measure.layout import by_windows, lay, span_bytes
from setebench.measure.placing import Place, single_cycles
from setebench.measure.swept import Level, SweptLevels
from setebench.measure.walks import LevelSearch, MemoryLoads
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.served import Intervals, ServedParams, support

SMALLEST_BYTES, LARGEST_BYTES = 4096, 45 << 20
"""Working sets of the sweep. The largest outgrows a shared cache of 32 MiB and keeps the memory that the lines are
spread over (four times as much) below 200 MiB; a larger last level shows no end, and that is what is reported."""

SWEEP_STEPS, SWEEP_TURNS = 2048, 5
"""Steps that are timed at once in the sweep, and how often: beside so many a bracket's overhead is nothing, and a mean
over all of a mixture of two levels is known to half a percent of what these differ by."""

HIDING_OCTAVES = 2.5
"""A level's capacity wears off within this many doublings, even where replacement is random."""

UNSTEADY_RATIO = 1.05
"""A working set that is slower than a larger one by more was disturbed."""

CLIMBS = 2
"""Walks of growing size are tried so often where they leave it open whether there is a level behind the second."""

FAST_SHARE = 0.02
"""The fastest loads of flushed lines: where memory's own spread begins, but for a few strays."""

COSTLY_BYTES = 2 << 20
"""Working sets beyond this take long to walk over, on a simulated machine above all."""


NEXT_AT_MOST_RATIO = 11.0
"""The first level has ended where a step takes twice as long at the latest, which a tenth of the way to a level so much
slower is: no second level is nearer."""

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
    """Levels by name, nearest first, with a working set that lies well inside each (bytes); `memory` has none (0)."""
    return {name: walk.bytes for name, walk in find_walks(context, region).items()}


def find_walks(context: Context, region: Region) -> dict[str, Walk]:
    """Levels by name, nearest first, each with the walk behind which its lines answer; `l1` and `memory` need none.

    A sweep of chases shows the first level and memory, and most others; what answers behind a walk that just exceeds
    the first level is the second, also where it never serves a whole working set alone. They are found once per run: a
    later scenario takes over what is known (`Context.calibration`), and the sweep as its evidence."""
    if context.calibration.levels is None:
        context.calibration = replace(context.calibration, levels=_find_levels(context, region))
    levels = context.calibration.levels
    assert levels is not None
    context.evidence["sweep"] = levels.sweep
    return dict(levels.walks)


def _find_levels(context: Context, region: Region) -> Levels:
    flushed = _memory_loads(context, region)
    memory = flushed.cycles
    sizes, cycles = _sweep(context, region, memory)
    found = plateaus(sizes, cycles)
    # a plateau at the cost of a flushed line is memory itself; what the sweep did not outgrow is still a cache
    caches = [plateau for plateau in found if plateau.cycles < 0.5 * memory] or found[:1]
    outer = [*caches[1:], Plateau(float(sizes[-1]), float(sizes[-1]), memory)]
    # where no second level shows, the next plateau is so far off that a tenth of the way to it is far behind the first
    nearer = replace(outer[0], cycles=min(outer[0].cycles, NEXT_AT_MOST_RATIO * caches[0].cycles))
    ends = [
        boundary(inner, next_one, sizes, cycles) for inner, next_one in zip(caches, [nearer, *outer[1:]], strict=True)
    ]
    sweep = {
        "size_bytes": sizes.tolist(),
        "cycles": cycles.tolist(),
        "boundaries_bytes": ends if cycles[-1] > 0.5 * memory else ends[:-1],
        "levels": {f"l{number + 1}": plateau.cycles for number, plateau in enumerate(caches[:3])} | {"memory": memory},
    }
    level_search = LevelSearch(context, region, ends[0], flushed)
    seen = SweptLevels(caches, ends, cycles[-1] < 0.5 * memory or _room_for_another(ends[-1], sizes, cycles, memory))
    between = _between_fine(level_search, seen) if level_search.fine else _between(level_search, seen)
    first = Level(Walk(SMALLEST_BYTES, 1), caches[0].cycles)
    levels = [first, *_supported(context, region, [first, *between.levels, Level(Walk(), memory)])]
    named = {f"l{number + 1}": level for number, level in enumerate(levels)} | {"memory": Level(Walk(), memory)}
    return Levels(
        walks={name: level.walk for name, level in named.items()},
        cycles={name: level.cycles for name, level in named.items()},
        hidden_cycles=between.hidden_cycles,
        unclear=between.unclear,
        sweep=sweep,
    )


SUPPORT_LAYOUTS, SUPPORT_CHAINS = 2, 12
"""Layouts of lines, and repetitions of chains on each, by which a level is distinguished from a mixture of its
neighbours."""


def _supported(context: Context, region: Region, levels: list[Level]) -> list[Level]:
    """The levels between the first and the last of `levels` that chains of their lines show: a mixture of the level
    before and of those behind explains them worse (`stats.served`)."""
    step, kept = step_ticks(context), levels[:1]
    for number, level in enumerate(levels[1:-1], 1):
        epochs = []
        for _ in range(SUPPORT_LAYOUTS):
            place, per_tick = Place(context, region, "walk", level.walk), quick_cycles_per_tick(context)
            singles = place.time_singles(context, place.repetitions(1))
            chains = place.time_chains(context, place.repetitions(SUPPORT_CHAINS))
            epochs.append(Intervals.of_chains(chains, step, singles.bracket_jitter2(step), per_tick))
        others = np.array(sorted({kept[-1].cycles, levels[number + 1].cycles, levels[-1].cycles}))
        found = support(epochs, level.cycles, others, None, ServedParams())
        if found.level and found.cycles > SAME_LEVEL_RATIO * kept[-1].cycles:
            kept.append(level)
    return kept[1:]


@dataclass(frozen=True, kw_only=True)
class _Between:
    """The levels between the first and memory; the other fields as in `Levels`."""

    levels: list[Level]
    hidden_cycles: float = float("inf")
    unclear: str = ""


def _between_fine(level_search: LevelSearch, seen: SweptLevels) -> _Between:
    """The levels between the first and memory, where the clock parts single loads."""
    candidates = level_search.rise()
    levels, hidden_cycles = _answering(candidates, seen, level_search)
    if not levels or levels[0].share < MOSTLY_SHARE or hidden_cycles < float("inf"):
        candidates = [level_search.shorter(), *candidates]
        levels, hidden_cycles = _answering(candidates, seen, level_search)
    if len(levels) <= 2 and seen.borne_out([level.cycles for level in levels]):
        # better known than from the sweep's means
        own = [Level(candidates[level.walk].walk, level.cycles) for level in levels]
        return _Between(levels=own, hidden_cycles=hidden_cycles)
    unclear = f"l{len(seen.caches) + 1}" if len(seen.caches) < 3 and seen.room else ""
    return _Between(levels=seen.beyond(), hidden_cycles=hidden_cycles, unclear=unclear)


def _answering(candidates: list[Candidate], seen: SweptLevels, level_search: LevelSearch) -> tuple[list[Answer], float]:
    """Levels that answer behind some of the walks, and the cycles of what may be another (`levels_between`)."""
    answers = [answer for number, candidate in enumerate(candidates) for answer in candidate.answers(number)]
    return levels_between(answers, seen.caches[0].cycles, level_search.memory)


def _between(level_search: LevelSearch, seen: SweptLevels) -> _Between:
    """The same where only means of many loads show one level from another."""
    second = level_search.first(seen.caches[0].cycles)
    if second.share < SEEN_SHARE or second.fastest_cycles < SAME_LEVEL_RATIO * seen.caches[0].cycles:
        return _Between(
            levels=seen.beyond()
        )  # memory, or still the first level: there is none between, or the sweep knows better
    own = Level(second.walk, second.fastest_cycles)
    for number in seen.further(second):
        plateau = seen.caches[number]
        walk = seen.walk(number)
        if level_search.bears_out(walk, plateau.cycles):
            return _least_evicting(level_search, own, Level(walk, plateau.cycles), plateau.low_bytes)
    for _ in range(CLIMBS):  # again, should another user have disturbed the first: a level is either there or not
        candidates = level_search.rise()
        candidate, unclear = last_level(candidates, own.cycles)
        if unclear:
            candidates = level_search.between(candidates)
            candidate, unclear = last_level(candidates, own.cycles)
        if not unclear and (candidate is not None or not seen.room):
            break
    if candidate is None:
        return _Between(levels=[own], unclear="l3" if unclear or seen.room else "")
    found = _least_evicting(
        level_search, own, Level(candidate.walk, candidate.cycles), shortest_alike(candidates, candidate)
    )
    return replace(found, unclear="l3" if unclear else "")


def _least_evicting(level_search: LevelSearch, second: Level, third: Level, shortest_bytes: float) -> _Between:
    """Both levels, the third behind the walk that leaves it the most lines."""
    found = level_search.least_evicting(third.walk, shortest_bytes, third.cycles)
    if found is None:
        return _Between(levels=[second, third])
    return _Between(levels=[second, Level(*found)])


def _room_for_another(end: float, sizes: NDArray[np.float64], cycles: NDArray[np.float64], memory: float) -> bool:
    """Whether the way from the last level found to memory is so long that another level may hide in it."""
    at_memory = sizes[cycles > 0.8 * memory]
    return bool(np.log2((at_memory[0] if len(at_memory) else sizes[-1]) / end) > HIDING_OCTAVES)


def _sweep(context: Context, region: Region, memory: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cycles per step of a chase over working sets of growing size, until they cost as much as `memory`.

    Shape (points,) each, sizes in bytes. Half an octave apart, an octave where they are large; half and a quarter as
    far where the latency rises. A larger working set can't be faster, so a point above a later one was disturbed, or
    its pages fell badly, and is taken again on other lines."""
    found: dict[float, float] = {}

    def measure(size: float) -> None:
        found[size] = min(_chase_cycles(context, region, size), found.get(size, np.inf))

    def repeat() -> None:
        for _ in range(2):
            ordered = sorted(found)
            cycles = np.array([found[size] for size in ordered])
            for number in np.flatnonzero(cycles > UNSTEADY_RATIO * rising(cycles)):
                measure(ordered[number])

    reach, size = region.size * LARGEST_BYTES / span_bytes(LARGEST_BYTES, region.line_size), float(SMALLEST_BYTES)
    while size <= reach and not (len(found) > 3 and min(list(found.values())[-2:]) > 0.9 * memory):
        measure(size)
        size *= 2.0 if size >= COSTLY_BYTES else 2.0**0.5
    repeat()
    for finest in (1.3, 1.15):  # halve the steps where the latency rises, twice if that costs little
        for low, high in pairwise(sorted(found)):
            steep = np.log2(found[high] / found[low]) > FLAT_SLOPE * np.log2(high / low)
            if steep and high / low > finest and (finest > 1.2 or high < COSTLY_BYTES):
                measure((low * high) ** 0.5)
    repeat()
    ordered = sorted(found)
    return np.array(ordered), np.array([found[size] for size in ordered])


def _chase_cycles(context: Context, region: Region, size: float) -> float:
    """Cycles per step of a long chase over a working set of `size` bytes: the median of some turns, as a stall falls
    into few of them."""
    rng = context.fresh_rng()
    order = by_windows(lay(region, size, rng), rng)
    context.machine.link(region, order)
    # one whole round first, so that every line has been used as long ago as the set is large
    context.machine.run(Probe().chase(LINE, len(order)), {LINE: order[:1]}, cpu=context.cpu)
    starts = order[(np.arange(SWEEP_TURNS) * SWEEP_STEPS) % len(order)]
    ticks = context.machine.run(Probe().start().chase(LINE, SWEEP_STEPS).stop(), {LINE: starts}, cpu=context.cpu)
    return float(np.median(ticks)) * quick_cycles_per_tick(context) / SWEEP_STEPS


def _memory_loads(context: Context, region: Region) -> MemoryLoads:
    """What loads of flushed lines take."""
    place = Place(context, region, "memory", Walk())
    timed = place.time_singles(context, 14)
    step, per_tick = step_ticks(context), quick_cycles_per_tick(context)
    fast = timed.loads[timed.loads <= np.quantile(timed.loads, FAST_SHARE)]
    return MemoryLoads(
        single_cycles(timed.loads, timed.additions, step, per_tick),
        single_cycles(fast, timed.additions, step, per_tick),
    )
