"""Whether an outer cache takes lines out of the one before it, from loads of lines that are used all the time.

Knows no machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Cycles = NDArray[np.float64]

KEPT_LOSSES, TAKEN_LOSSES, MOST_LOSSES = 0.25, 0.5, 1.6
"""Losses of a line per pass of as many lines as the outer cache holds: none without inclusion, one with it. More means
that the inner cache gives such lines up by itself."""

CAPACITY_SHARE = 0.15
"""By so much the capacity that a pass is counted in may be wrong. An inclusive cache takes a line once per pass, so
losses that are clearly fewer come from elsewhere: from an inner cache that replaces at random, for instance, while a
prefetcher hides what it gives up to the outer one."""

SPARED = "no line in use is lost: the outer cache doesn't include the inner one, or it spares what that one holds"
"""Some inclusive caches evict other lines first than those that the inner cache holds (one CPU whose vendor calls its
second cache inclusive loses none), so that none is lost tells nothing yet (`hierarchy.in_use` goes on from here)."""

DEVIATIONS = 4.0
UNKEPT_CYCLES = 0.3
BLOCKS = 16
CLEAR_STEPS = 3.0
"""Two levels are told apart load by load if so many clock steps lie between them."""

PRESENT_SHARE = 0.1
"""So many loads of lines in use are served by the inner cache, whatever it gives up."""

UNKEPT = "the inner cache gives up, or may give up, lines that are used all the time (random replacement?)"

LATE_RATIO = 1.5
"""A load that takes so many times what the level behind the outer cache does met an interrupt, and tells no level."""

SAME_SHARE = 0.5
"""Losses per pass of lines used twice as often are the same within this share of them. What makes every load longer, a
neighbour on the core who comes while the stream passes, looks like twice as many."""


@dataclass(frozen=True)
class Uses:
    """Cycles of loads of lines in use, shape (loads, lines): while a long stream passes, while one passes that the
    outer cache holds, and while nearly nothing does (None where the inner cache is not the first). `per_pass`: loads of
    a line in the time in which as many lines pass as the outer cache holds. `gap`: cycles that a line lost costs.
    `keeps`: whether the inner cache surely gives up hardly any line in use by itself. What it gave up after the outer
    one had evicted it would be missing as often as from an inclusive one: once per capacity. `lost`: cycles that a load
    of a line lost takes at least and at most, None where the clock's steps are too long to tell load by load."""

    stream: Cycles
    held: Cycles
    idle: Cycles | None
    per_pass: float
    gap: float
    keeps: bool = True
    lost: tuple[float, float] | None = None


class Told(NamedTuple):
    """True if the outer cache includes the inner one, else None and why; that it doesn't can't be told by losses.
    `losses` of a line per pass of as many lines as the outer cache holds, where they were counted."""

    answer: bool | None
    reason: str = ""
    losses: float | None = None


def losses_per_pass(uses: Uses) -> tuple[float, float]:
    """How often a line is lost per pass of the outer cache's lines, and the error of that.

    Counted where single loads tell it: a neighbour on the core makes all loads longer by what a translation costs, and
    over a pass that is as much as one loss."""
    if uses.lost is None:
        more, error = _difference(uses.stream, uses.held, uses.gap)
        return more * uses.per_pass / uses.gap, error * uses.per_pass / uses.gap
    low, high = uses.lost
    (share, error), (usual, usual_error) = (
        _of_blocks(((each > low) & (each < high)).astype(np.float64)) for each in (uses.stream, uses.held)
    )
    return (share - usual) * uses.per_pass, float(np.hypot(error, usual_error)) * uses.per_pass


def lost_cycles(nearer: float, beyond: float, step_cycles: float) -> tuple[float, float] | None:
    """Cycles at least and at most of a load that the level `beyond` answered and not the one `nearer`, both given by
    their latencies; None where the clock moves in steps too long to tell the two apart load by load."""
    if step_cycles * CLEAR_STEPS > beyond - nearer:
        return None
    return (nearer + beyond) / 2, LATE_RATIO * beyond + step_cycles


def told(uses: Uses) -> Told:
    """What one look at lines in use tells."""
    if uses.idle is not None:
        unkept, error = _difference(uses.held, uses.idle, uses.gap)
        if unkept > UNKEPT_CYCLES and unkept > DEVIATIONS * error:
            return Told(None, UNKEPT)
    losses, error = losses_per_pass(uses)
    once = losses + DEVIATIONS * error + CAPACITY_SHARE > 1.0
    if TAKEN_LOSSES < losses < MOST_LOSSES and losses > DEVIATIONS * error and once:
        return Told(True, "", losses) if uses.keeps else Told(None, UNKEPT, losses)
    if -MOST_LOSSES < losses < KEPT_LOSSES - 2.0 * error:
        return Told(None, SPARED, losses)
    reason = f"a line in use is lost {losses:.2f} times per pass of the outer cache, give or take {2 * error:.2f}"
    return Told(None, reason, losses)


def agreed(first: Told, again: Told) -> Told:
    """What two looks tell that are some time apart, at the second of which the lines were used twice as often: an
    inclusive cache takes them as often per pass as before."""
    if not first.answer:
        return first
    if again.answer and first.losses and again.losses:
        if abs(again.losses - first.losses) < SAME_SHARE * first.losses:
            return first
        reason = f"{first.losses:.2f} losses of a line per pass, and {again.losses:.2f} if it is used twice as often"
        return Told(None, f"{reason}: not what an inclusive cache does")
    return Told(None, f"lines in use seemed lost once per pass, but not so later: {again.reason}")


def given_up(held: Cycles, gap: float, step_cycles: float) -> float | None:
    """Share of loads of lines in use that the inner cache had given up to a level `gap` cycles further out, while the
    outer one kept all; None where the clock moves in steps too long to tell the two levels apart load by load."""
    if step_cycles * CLEAR_STEPS > gap:
        return None
    # some lines are always there; where most are given up, half of all loads take longer
    return float((held > np.quantile(held, PRESENT_SHARE) + gap / 2).mean())


def _difference(one: Cycles, other: Cycles, gap: float) -> tuple[float, float]:
    means, errors = zip(*(_mean(each, gap) for each in (one, other)), strict=True)
    return means[0] - means[1], float(np.hypot(*errors))


def _mean(cycles: Cycles, gap: float) -> tuple[float, float]:
    """Mean over all loads, and its error. An interrupt counts as one loss."""
    most = float(np.median(cycles)) + 1.5 * gap + 4.0 * float(np.quantile(cycles, 0.75) - np.quantile(cycles, 0.25))
    return _of_blocks(np.minimum(cycles, most))


def _of_blocks(values: Cycles) -> tuple[float, float]:
    """Mean, and its error from blocks of neighbouring loads."""
    blocks = [float(block.mean()) for block in np.array_split(values, min(BLOCKS, len(values)))]
    return float(np.mean(blocks)), float(np.std(blocks, ddof=1)) / len(blocks) ** 0.5
