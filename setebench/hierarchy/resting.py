"""Whether the second cache takes lines out of a first one that gives up any line alike, from lines of one set.

No line in use stays in such a first cache. But into a set of it that was emptied as many lines as it has ways come
without pushing any out, whatever it replaces, and some more leave a known share of its lines. So a line is loaded into
an empty set, then the lines that evict it from the second cache, and only then it is timed. Where the second cache
doesn't include the first, the share that the first one kept costs nothing; where it does, all cost what an evicted line
does. What the first cache keeps anyway is told by a line of another set of the second.

Where the second cache has many more ways than the first, none of the first one's lines stays so long. Then the lines
that evict it are brought in by software prefetches that leave the first cache alone (`hierarchy.hinted`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from setebench.hierarchy.inclusion import BATCHES, DEVIATIONS, SAMPLES, TARGET, Cycles
from setebench.machine import run_interleaved
from setebench.measure.eviction import Congruent
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick
from setebench.probe import Placements, Probe
from setebench.scenario import Context

LEAST_STAYING = 0.2
"""Share of loads that the first cache must keep; of fewer the difference is as small as that of another cause."""

LEAST_EVICTED = 0.5
"""Share of loads of a line left alone that the second cache must have given up."""

KEPT_SHARE, TAKEN_SHARE = 0.25, 0.75
"""Of the lines that the first cache would keep, so many are gone at most or at least: it keeps none where the second
takes them along, and all where it doesn't."""

STALL_RATIO = 2.0
"""A load that takes so many times what memory does met an interrupt, and counts as so long."""

MOST_EVICTED = 1.5
"""Misses that a line left alone costs at most: one that costs more is gone from a third cache as well, which may have
taken it out of both before it."""

UNSURE = "too few lines stay in the first cache until the second one gives them up"


class Rests(NamedTuple):
    """Mean cycles of one load in every batch, shape (batches,), of a line of the set and of a foreign one: after the
    lines that evict it from the second cache (`left`), after lines too that push it out of the first one (`pushed`);
    of the set's line after these alone (`unpressed`); and of the foreign line undisturbed (`kept`)."""

    left: Cycles
    pushed: Cycles
    foreign_left: Cycles
    foreign_pushed: Cycles
    unpressed: Cycles
    kept: Cycles


Pass = Callable[[Probe, Lines], Probe]
"""Adds lines that pass, at offsets to the target, to a probe."""


def inclusive_at_rest(context: Context, found: Congruent, miss_cycles: float) -> tuple[bool | None, str]:
    """Whether a line that the second cache evicts leaves the first, or None and why that isn't told; a load that misses
    the second takes so many cycles longer than one that hits it, or more."""
    return told_by_resting(context, found, miss_cycles, _loaded)


def told_by_resting(
    context: Context, found: Congruent, miss_cycles: float, passing: Pass, samples: int = SAMPLES
) -> tuple[bool | None, str]:
    """The same, the lines of the set `passing` in some way; so many repetitions a batch."""
    offset = found.lines[0] % TLB_PAGE_BYTES
    flushers = found.flushers[found.flushers % TLB_PAGE_BYTES == offset]
    if len(flushers) < 2 or (found.lines % TLB_PAGE_BYTES != offset).any():
        return None, "too few lines share a set of the first cache"
    target, foreign, others = int(found.lines[0]), int(flushers[0]), found.lines[1:]
    every, behind = np.concatenate([found.lines, flushers]), flushers[1:]
    # another line of the same page, to warm the translation by: so many pages push it out of the first TLB
    companion = companion_bytes(int(offset))
    asked = [(line, others, pushing) for line in (target, foreign) for pushing in (others[:0], behind)]
    probes: list[Probe] = []
    places: list[Placements] = []
    for line, passes, pushing in [*asked, (target, others[:0], behind)]:
        probes.append(_timed(_left(every - line, passes - line, pushing - line, passing), companion))
        places.append({TARGET: np.full(samples, line)})
    probes.append(_timed(Probe().load(TARGET), companion))
    places.append({TARGET: np.full(samples, foreign)})
    return told_in_batches(context, probes, places, miss_cycles)


def told_in_batches(
    context: Context, probes: Sequence[Probe], places: Sequence[Placements], miss_cycles: float, loads: int = 1
) -> tuple[bool | None, str]:
    """The answer from probes in the order of `Rests`, each of which times so many loads together."""
    per_tick = cycles_per_tick(context) / loads
    most = STALL_RATIO * context.calibration.level_cycles["memory"] / per_tick
    batches: list[list[float]] = []
    told: tuple[bool | None, str] = (None, "")
    for enough in BATCHES:
        for batch in range(len(batches), enough):
            ticks = run_interleaved(context.machine, probes, places, context.rng(870 + batch), cpu=context.cpu)
            least = float(ticks[-1].min())
            batches.append([float(np.minimum(each, least + most).mean()) * per_tick for each in ticks])
        rests = Rests(*np.array(batches).T)
        told = told_at_rest(rests, miss_cycles)
        if told[0] is not None or _in_vain(rests, miss_cycles):
            break
    return told


def companion_bytes(offset: int) -> int:
    """From a line at an offset of its page to another of the same page, in other sets of both caches."""
    return TLB_PAGE_BYTES // 2 if offset < TLB_PAGE_BYTES // 2 else -TLB_PAGE_BYTES // 2


def told_at_rest(rests: Rests, miss_cycles: float) -> tuple[bool | None, str]:
    """The answer from the costs of a line of the set and of a foreign one."""
    gap, stays = rests.foreign_pushed - rests.kept, rests.foreign_pushed - rests.foreign_left
    evicted, evicted_error = _mean(rests.pushed - rests.foreign_pushed)
    # the share that stays is divided by below, so that too large a one would read as lines that are gone
    if not (_surely(gap) and _surely(stays - LEAST_STAYING * gap)):
        return None, UNSURE
    if evicted < max(LEAST_EVICTED * miss_cycles, DEVIATIONS * evicted_error) or evicted > MOST_EVICTED * miss_cycles:
        return None, UNSURE
    unpressed, unpressed_error = _mean(rests.unpressed - rests.foreign_pushed)
    if abs(unpressed) + 2 * unpressed_error > KEPT_SHARE * evicted:
        return None, UNSURE  # what pushes it out of the first cache alone evicts it, or doesn't push it out
    staying = stays.mean() / gap.mean()
    # 0 where the first cache kept its share of the evicted lines, 1 or more where it kept none of them
    gone, error = _mean((rests.left - rests.foreign_left - (1.0 - staying) * evicted) / (staying * evicted))
    if gone > TAKEN_SHARE and 2 * error < KEPT_SHARE:
        return True, ""
    if abs(gone) + 2 * error < KEPT_SHARE:
        return False, ""
    return None, f"of the lines that the first cache would keep {gone:.2f} seem gone, give or take {2 * error:.2f}"


def _in_vain(rests: Rests, miss_cycles: float) -> bool:
    """Whether too few lines surely stay in the first cache, or leave the second, however often that is looked at."""
    gap, stays = rests.foreign_pushed - rests.kept, rests.foreign_pushed - rests.foreign_left
    evicted = rests.pushed - rests.foreign_pushed
    return _surely(LEAST_STAYING * gap - stays) or _surely(LEAST_EVICTED * miss_cycles - evicted)


def _surely(values: Cycles) -> bool:
    """Whether they are above zero by more than chance."""
    mean, error = _mean(values)
    return mean > DEVIATIONS * error


def _mean(values: Cycles) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5


def _timed(probe: Probe, companion: int) -> Probe:
    return probe.fence().flush(TARGET + companion).fence().start().load(TARGET).stop()


def _left(every: Lines, others: Lines, behind: Lines, passing: Pass) -> Probe:
    """All of them pushed out and flushed, so that their set of the first cache is empty; then the target, the others
    and those `behind`, twice."""
    probe = Probe()
    for offset in every.tolist():
        probe = probe.load(TARGET + offset)
    probe = probe.fence()
    for offset in every.tolist():
        probe = probe.flush(TARGET + offset)
    probe = passing(probe.fence().load(TARGET).fence(), others)
    for offset in behind.tolist() * 2:
        probe = probe.load(TARGET + offset)
    return probe


def _loaded(probe: Probe, others: Lines) -> Probe:
    for offset in others.tolist():
        probe = probe.load(TARGET + offset).fence()
    return probe
