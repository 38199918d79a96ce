"""Whether an outer cache takes lines out of the one before it, without knowing any set: lines used all the time while a
stream passes that the outer cache can't hold. Used lines stay in the inner cache; the outer one, which doesn't hear of
these uses, gives each of them up once per capacity, and if it is inclusive takes it out of the inner one too.
"""

from __future__ import annotations

import numpy as np

from setebench.hierarchy.in_use import InUse, missing_shares, surely_missing
from setebench.infer.inclusion import KEPT_LOSSES, SPARED, Cycles, Told, Uses, agreed, given_up, lost_cycles, told
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import cycles_per_tick
from setebench.scenario import Context

TARGETS = 32
"""Lines in use, each in a page of its own and in another set of the first cache."""

FIRST_SHARE, SECOND_SHARE = 0.375, 0.125
"""A line is used again after so many lines of the stream, in capacities of the inner cache: so few that no cache that
replaces the oldest gives it up, and hardly one in the second one's random sets."""

HELD_SHARE = 0.25
"""Of the outer cache's lines, so many pass where nothing shall be evicted."""

PASSING_SHARE = 4.0
"""And where everything else shall be, so many come round and round: random replacement keeps 2 in 100 of them."""

AGEING_SHARE = 1.75
"""The same where lines shall be missing from the outer cache: hardly more than evicts them, for a cache behind it that
can't hold the stream may take them out of both."""

TOO_LITTLE_MEMORY = "too little memory for a stream that the outer cache can't hold"

FIRST_PASSES, SECOND_PASSES = 64.0, 2.5
"""Capacities of the outer cache that pass. A loss from the first cache costs a few tens of cycles, one from the second
what memory does."""

MOST_LINES = 1_500_000
IDLE_EVERY, IDLE_STOPS = 8, 1000


def first_in_second(
    context: Context, region: Region, first_lines: int, second_lines: float, cycles: list[float]
) -> tuple[bool | None, str]:
    """Inclusion of the first cache in the second; `cycles` are latencies, nearest first. Looked at twice, the second
    time with lines used twice as often."""
    known = (context, region, first_lines, second_lines, cycles)
    look = _first_in_second(*known)
    look = agreed(look, _first_in_second(*known, often=2)) if look.answer else look
    if look.reason == SPARED and _missing(context, region, FIRST_SHARE, (first_lines, second_lines), cycles):
        return False, ""
    return look.answer, look.reason


def _missing(context: Context, region: Region, share: float, lines: tuple[float, float], cycles: list[float]) -> bool:
    """Whether the outer of two caches lacks lines that the inner one kept, lines being used again after such a share of
    the inner one's lines have passed; `cycles` are latencies from the inner one on."""
    begin, offsets = _targets(context, region)
    every = max(IDLE_EVERY, int(share * lines[0]))
    passing, held = (
        missing_shares(InUse(context, region, ring * lines[1], 99), (begin, offsets), every, lines, cycles)
        for ring in (AGEING_SHARE, HELD_SHARE)
    )
    return surely_missing(passing, held)


def _first_in_second(
    context: Context, region: Region, first_lines: int, second_lines: float, cycles: list[float], often: int = 1
) -> Told:
    """One look, lines being used so many times as often as usual."""
    if not _room(region, second_lines):
        return Told(None, TOO_LITTLE_MEMORY)
    every = max(IDLE_EVERY, int(FIRST_SHARE * first_lines / often))
    passes = min(FIRST_PASSES * second_lines, float(MOST_LINES))
    idle = InUse(context, region, 4 * first_lines, 97)
    first, offsets = _targets(context, region)
    idle_cycles = idle.kept(first, offsets, IDLE_EVERY, IDLE_EVERY * IDLE_STOPS)
    held, stream = _held_and_passing(context, region, second_lines, every, passes)
    stream, held, idle_cycles = (without_far(each, cycles) for each in (stream, held, idle_cycles))
    gap, lost = cycles[2] - cycles[0], lost_cycles(cycles[1], cycles[2], _step_cycles(context))
    return told(Uses(stream, held, idle_cycles, second_lines / every, gap, lost=lost))


def without_far(loads: Cycles, cycles: list[float]) -> Cycles:
    """The loads, those that memory answered as if nothing had been lost, where a third cache lies between.

    What the second cache evicted the third one still has. A line that is gone from there as well was taken out by the
    third one, should that include the first: a stream that the second can't hold may be too long for both."""
    if len(cycles) < 4:
        return loads
    return np.where(loads > (cycles[2] + cycles[3]) / 2, float(np.median(loads)), loads)


def second_in_third(
    context: Context,
    region: Region,
    second_lines: float,
    third_lines: float,
    cycles: list[float],
    by_age: bool,
    often: int = 1,
) -> Told:
    """Inclusion of the second cache in the third. `by_age`: whether the second is known to replace the oldest lines, or
    about that, so that it keeps those in use. Lines are used so many times as often as usual."""
    if not _room(region, third_lines):
        return Told(None, TOO_LITTLE_MEMORY)
    if HELD_SHARE * third_lines < second_lines:
        return Told(None, "the third cache is so small beside the second that no stream fits between them")
    every = int(SECOND_SHARE * second_lines / often)
    passes = min(SECOND_PASSES * third_lines, float(MOST_LINES))
    held, stream = _held_and_passing(context, region, third_lines, every, passes)
    per_pass = third_lines / every
    step = _step_cycles(context)
    share = given_up(held, cycles[2] - cycles[1], step)
    keeps = by_age if share is None else share * per_pass < KEPT_LOSSES
    lost = lost_cycles(cycles[2], cycles[3], step)
    look = told(Uses(stream, held, None, per_pass, cycles[3] - cycles[1], keeps, lost))
    if look.reason == SPARED and _missing(context, region, SECOND_SHARE, (second_lines, third_lines), cycles[1:]):
        return look._replace(answer=False, reason="")
    return look


def _step_cycles(context: Context) -> float:
    return step_ticks(context) * cycles_per_tick(context)


def _room(region: Region, outer_lines: float) -> bool:
    """Whether a stream that the outer cache can't hold finds memory beside the lines in use."""
    return PASSING_SHARE * outer_lines < region.lines - TARGETS * TLB_PAGE_BYTES // region.line_size


def _held_and_passing(
    context: Context, region: Region, outer_lines: float, every: int, passes: float
) -> tuple[Cycles, Cycles]:
    """Loads while a stream passes that the outer cache holds, and while a longer one does."""
    begin, offsets = _targets(context, region)
    found = []
    for ring, first in (
        (HELD_SHARE * outer_lines, 3 * HELD_SHARE * outer_lines),
        (PASSING_SHARE * outer_lines, outer_lines),
    ):
        walk = InUse(context, region, ring, 98)
        walk.kept(begin, offsets, every, first)  # until it is as it will be
        found.append(walk.kept(begin, offsets, every, passes))
    return found[0], found[1]


def _targets(context: Context, region: Region) -> tuple[int, list[int]]:
    """Lines at different places of the last pages of the region, which no stream comes to: the address of the first of
    those pages, and offsets to it in random order."""
    rng = context.rng(96)
    places = rng.permutation(TLB_PAGE_BYTES // region.line_size)[:TARGETS] * region.line_size
    offsets = rng.permutation(TARGETS) * TLB_PAGE_BYTES + places
    return region.address + region.size - TARGETS * TLB_PAGE_BYTES, offsets.tolist()
