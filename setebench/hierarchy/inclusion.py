"""Whether the second cache takes lines out of the first when it evicts them, from lines of one of its sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region, run_interleaved
from setebench.measure.calibrate import step_ticks
from setebench.measure.eviction import Congruent
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick, rings_cycles, shuffled
from setebench.probe import Base, Probe
from setebench.scenario import Context

TARGET = Base("target")
PASSES, MOST_TIMED, SAMPLES = 2, 40, 40
"""Rounds over the set's lines, loads timed at most, and repetitions of a batch."""

BATCHES = (10, 30, 60)
"""Batches after which an answer is told, should there be one: a coarse clock blurs what few lines cost, and of a cache
that replaces any line alike the target leaves it now and then only."""

KEPT_SHARE, EVICTED_SHARE, DEVIATIONS = 0.25, 0.5, 4.0
"""Shares of the cost of an eviction that tell, and how far from chance it must be."""

RINGS, HELD_SHARE = 8, 0.5
"""Rings over all lines of the set, and the share of a miss per round that is less than the one there must be."""

OWN_SHARE = 0.5
"""Of the set's lines, so many may be in a ring that is to find room, beside lines of other sets."""

LEAST_MISS_CYCLES = 8.0
"""No cache answers sooner than so many cycles after the one before it."""

UNKEPT_CYCLES = 0.3
UNKEPT = "the first cache gives up lines that are used all the time (random replacement?)"
Cycles = NDArray[np.float64]


class Costs(NamedTuple):
    """Mean cycles in every batch, shape (batches,): of all loads together of a line that is `used` while the lines of
    its set are brought in; of one load after them if it was left `alone`; and of one load of an undisturbed line."""

    used: Cycles
    alone: Cycles
    kept: Cycles


def inclusive(context: Context, region: Region, found: Congruent, miss_cycles: float) -> tuple[bool | None, str]:
    """Whether a line that the second cache evicts leaves the first, or None and why that isn't told; a load that misses
    the second takes so many cycles longer than one that hits it, or more."""
    answer, reason = _by_eviction(context, region, found)
    if answer is None and all_held(context, region, found, miss_cycles):
        return False, ""
    return answer, reason


def all_held(context: Context, region: Region, found: Congruent, miss_cycles: float) -> bool:
    """Whether both caches together hold all of the set's lines, one more than the second has ways for.

    If it includes the first they never do, whatever is replaced, and a ring over them costs one miss per round at
    least. As many lines of several sets, at the same offsets of their pages, share the first cache alike."""
    lines, others = len(found.lines), _alike(found)
    if len(others) < lines:
        return False
    context.machine.run(Probe().flush(TARGET), {TARGET: np.append(found.lines, found.flushers)}, cpu=context.cpu)
    more: list[float] = []
    for _ in range(RINGS):
        rings = (shuffled(context, found.lines), shuffled(context, others))
        own, foreign = rings_cycles(context, region, rings)
        more.append((own - foreign) * lines)
    mean, error = _mean(np.array(more))
    return abs(mean) + 2 * error < HELD_SHARE * miss_cycles


def _alike(found: Congruent) -> Lines:
    """As many lines at every offset of their pages as the set has, but of other sets as far as there are so many, so
    that no set is overfull; fewer lines where half of the set's own would not do."""
    alike: list[Lines] = []
    for offset in np.unique(found.lines % TLB_PAGE_BYTES):
        own, others = (lines[lines % TLB_PAGE_BYTES == offset] for lines in (found.lines, found.flushers))
        alike += [others[: len(own)], own[: max(0, min(len(own) - len(others), int(OWN_SHARE * len(own))))]]
    return np.concatenate(alike)


def _by_eviction(context: Context, region: Region, found: Congruent) -> tuple[bool | None, str]:
    """Load one of the set's lines after each of the others, so that the first cache never gives it up by itself while
    it grows old in the second; and the same with a line of another set. What the one costs more is inclusion, if it is
    as much as the line costs that is left alone meanwhile and so was evicted.

    Returns the answer, or None and why."""
    target, foreign = int(found.lines[0]), int(found.flushers[0])
    others, flushers = found.lines[1:], found.flushers[1:]
    probes = [
        probe
        for line in (target, foreign)
        for probe in (_used(others - line), _alone(others - line, flushers - line), _kept())
    ]
    placements = [{TARGET: np.full(SAMPLES, line)} for line in (target, foreign) for _ in range(3)]
    per_tick, step = cycles_per_tick(context), step_ticks(context)
    batches: list[list[float]] = []
    told: tuple[bool | None, str] = (None, "")
    for enough in BATCHES:
        for batch in range(len(batches), enough):
            ticks = run_interleaved(context.machine, probes, placements, context.rng(810 + batch), cpu=context.cpu)
            # all loads of a repetition together: one that comes from further out among many that don't would look like
            # a stall and be left out
            batches.append([mean_ticks(each.sum(axis=1), step) * per_tick for each in ticks])
        table = np.array(batches).T
        told = told_inclusive(Costs(*table[:3]), Costs(*table[3:]), probes[0].intervals)
        if told[0] is not None or told[1] == UNKEPT:
            break
    return told


def told_inclusive(own: Costs, foreign: Costs, timed: int) -> tuple[bool | None, str]:
    """The answer from the costs of a line of the set and of a foreign one; `timed` loads are in `used` together."""
    unkept, unkept_error = _mean(foreign.used / timed - foreign.kept)
    if unkept > UNKEPT_CYCLES and unkept > DEVIATIONS * unkept_error:
        return None, UNKEPT
    used, used_error = _mean(own.used - foreign.used)
    alone, alone_error = _mean(own.alone - foreign.alone)
    if alone < DEVIATIONS * alone_error:
        return None, "the lines of the set don't evict one of them surely enough"
    if used > EVICTED_SHARE * alone and used > DEVIATIONS * used_error:
        return True, ""
    if used + 2 * used_error < KEPT_SHARE * alone:
        return False, ""
    return None, f"the line costs {used:.1f} cycles more than one of another set, of {alone:.1f} for a line evicted"


def _mean(values: Cycles) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5


def _used(offsets: NDArray[np.int64]) -> Probe:
    """The target brought in anew; then after each of the others the target, timed."""
    probe = Probe().flush(TARGET).fence().load(TARGET).fence()
    for number, offset in enumerate((offsets.tolist() * PASSES)[:MOST_TIMED]):
        probe = probe.load(TARGET + offset).fence().start(number).load(TARGET).stop(number)
    return probe


def _alone(offsets: NDArray[np.int64], flushers: NDArray[np.int64]) -> Probe:
    """The target brought in anew; all the others, then lines that push it out of the first cache; the target, timed."""
    probe = Probe().flush(TARGET).fence().load(TARGET).fence()
    for offset in (offsets.tolist() * PASSES)[:MOST_TIMED]:
        probe = probe.load(TARGET + offset).fence()
    for offset in flushers.tolist():
        probe = probe.load(TARGET + offset)
    return probe.fence().start().load(TARGET).stop()


def _kept() -> Probe:
    return Probe().load(TARGET).fence().start().load(TARGET).stop()
