"""Short sequences of loads of lines that share a set of a cache.

A sequence is loaded in program order, each load waiting for the one before, beside the same sequence of lines of other
sets: what the two differ by is what conflicts cost, without translations and drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import run_interleaved
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

Lines = NDArray[np.int64]


class Congruent(NamedTuple):
    """Addresses of lines that share a set of a cache and lie in pages of their own; of `evictors`, which share one of
    the caches before it with them, but not of this one, some groups of them linked to one ring, shape (groups, lines);
    and of lines that take the place of the first ones in a control in which nothing conflicts, none where each line's
    page has room for that."""

    own: Lines
    evictors: Lines = np.zeros((0, 0), dtype=np.int64)
    control: Lines = np.zeros(0, dtype=np.int64)


def sequence_excess(
    context: Context, places: Sequence[Congruent], sequences: Sequence[Lines], timed: Sequence[int], repetitions: int
) -> NDArray[np.float64]:
    """Cycles that the last so many parts of each sequence (`timed`) take above their control's, shape (sequences,).

    Sequences hold numbers of lines, from 0 on, the last ones of groups of evictors: which line of which set a number
    stands for is drawn anew for every repetition. All lines are flushed first, so that their set is empty."""
    rng = context.rng(41)
    own = len(places[0].control) or max(int(each.max()) for each in sequences) + 1
    lines, spread = ([Base(f"{name}_{number}") for number in range(own)] for name in ("line", "other"))
    groups, steps = places[0].evictors.shape
    behind = [Base(f"evictors_{number}") for number in range(groups)]
    pairs = list(zip(sequences, timed, strict=True))
    probes = [_chain(each, (chosen, behind, steps), last) for each, last in pairs for chosen in (lines, spread)]
    drawn = [places[int(each)] for each in rng.integers(len(places), size=repetitions)]
    at = np.array([rng.permutation(each.own[:own]) for each in drawn])
    page = at - at % TLB_PAGE_BYTES
    others = page + (at - page + (1 + np.arange(own)) * context.machine.facts.line_size) % TLB_PAGE_BYTES
    if len(places[0].control):
        others = np.array([rng.permutation(each.control) for each in drawn])
    starts = np.array([each.evictors[:, 0] for each in drawn]) if groups else np.zeros((repetitions, 0), dtype=np.int64)
    table = dict(zip(lines + spread + behind, np.concatenate([at.T, others.T, starts.T]), strict=True))
    where = [{base: table[base] for base in probe.bases} for probe in probes]
    ticks = run_interleaved(context.machine, probes, where, rng, cpu=context.cpu)
    means = np.array([mean_ticks(each.ravel(), step_ticks(context)) for each in ticks]).reshape(-1, 2)
    excess: NDArray[np.float64] = (means[:, 0] - means[:, 1]) * cycles_per_tick(context)
    return excess


def _chain(sequence: Lines, bases: tuple[Sequence[Base], Sequence[Base], int], timed: int) -> Probe:
    """Loads of lines and traversals of groups of evictors, which take so many steps, one after the other."""
    (lines, behind, steps), probe = bases, Probe()
    for line in lines:
        probe = probe.flush(line)
    probe = probe.fence()
    for at, number in enumerate(sequence.tolist()):
        if at == len(sequence) - timed:
            probe = probe.fence().start()
        after = -1 if at else None
        if number < len(lines):
            probe = probe.load(lines[number], after=after)
        else:
            probe = probe.chase(behind[number - len(lines)], steps, after=after)
    return probe.stop()
