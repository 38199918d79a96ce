"""Steps of chains of several lengths, from those chains that lost no line and that nothing held up. Knows no machine.

A chain takes an overhead and as many steps as it is long, so the slope over its lengths is a step, whatever the
overhead. Two things spoil it.

A line that was pushed out of its level makes its chain slower by the way to memory: with 7 % of lines lost most chains
of 16 have lost one, most chains of 4 none. So only chains count that took about as long as single loads foretell, over
all rounds together, as one round has too few to tell groups apart.

And hardware prefetches that a chain's own loads set off fill the miss queue after a few steps, and each further step
then waits for an entry; short chains end before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import ALIKE_SHARE, groups, over_replicates, quantised_variance, undisturbed

LEAST_CHAINS = 6
"""So many chains of a length over all rounds should have lost no line for their group to be told from strays."""

SHORT_STEPS = 4
"""Chains up to this length keep few prefetches under way: a miss queue has six entries at least."""

HELD_UP_RELATIVE, HELD_UP_CYCLES = 0.02, 0.25
"""By so much more than short chains' steps those of all lengths should take to be held up, beyond what either is
uncertain by."""

Spans = Mapping[int, tuple[float, float]]
"""From where to where (ticks) chains of a length (steps) reach that lost no line."""


@dataclass(frozen=True)
class Chained:
    """One round's chains: their ticks by length in steps, shape (n,) each. `first_ticks` is what a single load from the
    level read on average, its bracket included, and `load_cycles` what such a load takes."""

    ticks: Mapping[int, NDArray[np.int64]]
    cycles_per_tick: float
    first_ticks: float
    load_cycles: float

    def foretold(self, steps: int) -> float:
        """Ticks of a chain that lost no line, if each step takes as long as a single load."""
        return self.first_ticks + (steps - 1) * self.load_cycles / self.cycles_per_tick


@dataclass(frozen=True)
class Stepped:
    """Cycles per step, a value per round; by how much a chain's variance grows with each step, cycles squared; and
    by how many standard errors it is lopsided upwards, as from lines of a level further out, not of a nearer one."""

    cycles: list[float]
    excess: float
    upwards_errors: float = 0.0

    @property
    def upwards(self) -> bool:
        """Whether lines of a level further out are likelier than those of a nearer one."""
        return self.upwards_errors > 1.0


def slope(ticks: Mapping[int, NDArray[np.int64]]) -> float | None:
    """Ticks per step, by least squares over all chains; None with chains of one length only."""
    steps = np.concatenate([np.full(len(own), length, dtype=np.float64) for length, own in ticks.items()])
    if not len(steps) or np.ptp(steps) == 0:
        return None
    centred = steps - steps.mean()
    return float((centred * np.concatenate(list(ticks.values()))).sum() / (centred**2).sum())


def all_steps(one: Chained) -> float:
    """Cycles per step of all chains of a round that no stall hit, whatever lines they lost."""
    calm = {length: own[undisturbed(own)] for length, own in one.ticks.items()}
    return (slope(calm) or 0.0) * one.cycles_per_tick


def steps_alone(rounds: Sequence[Chained], step_ticks: float) -> Stepped | None:
    """Steps of the chains that lost no line; None where there are too few of two lengths to tell."""
    spans = _spans(rounds, step_ticks)
    every = _slopes(rounds, spans)
    few = _slopes(rounds, {length: span for length, span in spans.items() if length <= SHORT_STEPS})
    if len(few) > 1 and len(every) > 1:
        all_lengths, short = over_replicates(every), over_replicates(few)
        room = max(HELD_UP_RELATIVE * short.value, HELD_UP_CYCLES)
        if all_lengths.low > short.high + room:
            spans = {length: span for length, span in spans.items() if length <= SHORT_STEPS}
            every = few
    return Stepped(every, *_spread(rounds, spans, step_ticks)) if every else None


def _spans(rounds: Sequence[Chained], step_ticks: float) -> Spans:
    """Of each length the group of chains that is nearest to what single loads foretell."""
    found = {}
    for length in rounds[0].ticks if rounds else ():
        pooled = np.concatenate([one.ticks[length] for one in rounds])
        expected = float(np.mean([one.foretold(length) for one in rounds]))
        load_ticks = float(np.mean([one.load_cycles / one.cycles_per_tick for one in rounds]))
        # what lines of a level differ by adds up as a root: a share of the whole chain's time would hide that one of
        # its lines was a level nearer
        alike = ALIKE_SHARE * load_ticks * length**0.5
        parted = [pooled[group] for group in groups(pooled, step_ticks, alike)]
        nearest = min(parted, key=lambda own: _apart(own, expected))
        if len(nearest) >= LEAST_CHAINS:
            found[length] = (float(nearest.min()), float(nearest.max()))
    return found


def _apart(own: NDArray[np.int64], expected: float) -> float:
    return abs(float(own.mean()) - expected)


def _within(one: Chained, spans: Spans) -> dict[int, NDArray[np.int64]]:
    own = {length: one.ticks[length] for length in spans}
    return {length: ticks[(ticks >= spans[length][0]) & (ticks <= spans[length][1])] for length, ticks in own.items()}


def _slopes(rounds: Sequence[Chained], spans: Spans) -> list[float]:
    """Cycles per step, of the rounds that have such chains of two lengths."""
    if len(spans) < 2:
        return []
    slopes = [(slope(_within(one, spans)), one.cycles_per_tick) for one in rounds]
    return [ticks * per_tick for ticks, per_tick in slopes if ticks is not None]


def _quantised_third(mean_ticks: float, step_ticks: float) -> float:
    """Their third moment about the mean."""
    above = mean_ticks / step_ticks % 1.0
    return quantised_variance(mean_ticks, step_ticks) * (1.0 - 2.0 * above) * step_ticks


def _spread(rounds: Sequence[Chained], spans: Spans, step_ticks: float) -> tuple[float, float]:
    """How much the variance of chains grows with each step, over all rounds, each about its own mean; and by how
    many of its standard errors their third moment grows. Steps are independent, so both add up over them; what reading
    the clock adds is left out of both."""
    per_tick = float(np.mean([one.cycles_per_tick for one in rounds]))
    moments = []
    for length in spans:
        own = [_within(one, {length: spans[length]})[length] for one in rounds]
        residuals = [ticks - ticks.mean() for ticks in own if len(ticks) > 1]
        free = sum(len(each) - 1 for each in residuals)
        if free:
            about, mean = np.concatenate(residuals), float(np.concatenate(own).mean())
            second, third = float((about**2).sum()) / free, float((about**3).sum()) / free
            read = quantised_variance(mean, step_ticks), _quantised_third(mean, step_ticks)
            moments.append((length, second, second - read[0], third - read[1], free))
    if len(moments) < 2:
        return 0.0, 0.0
    lengths, as_read, variances, thirds, counts = (np.array(each) for each in zip(*moments, strict=True))
    excess = np.polyfit(lengths, variances, 1, w=np.sqrt(counts))[0]
    errors = np.sqrt(6.0 / counts) * np.maximum(as_read, 1.0) ** 1.5
    (growth, _), covariance = np.polyfit(lengths, thirds, 1, w=1.0 / errors, cov="unscaled")
    return float(excess) * per_tick**2, float(growth / covariance[0, 0] ** 0.5)
