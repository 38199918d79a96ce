"""From staircases of software prefetches to the number of them in flight. Knows no machine."""

from __future__ import annotations

import numpy as np

from setebench.infer.in_flight import Evidence, Prefetching, at_least, certain, measured, proven, unresolved
from setebench.infer.landing import UNSTEADY
from setebench.infer.steps import Staircase
from setebench.results import Finding, Outcome

APART_SHARE = 0.5
"""Prefetches in groups lose no lines where the number in flight was why: all of the jump goes, or none of it."""

QUEUED_SHARE = 0.5
"""Share of a miss by which the last line may come later than the prefetches set out. Those that stand in a queue before
level 2's wait for the first lines to come: a whole miss, less what they needed to set out."""

THERE_SHARE = 0.5
"""A line takes less than this share of a miss, or it was not there. Lines in memory take all of it, those in a cache
that a prefetch may fill less than a third."""

IN_FLIGHT_SHARE = 0.8
"""Requests that set out within this share of the time of one were all in flight at once."""


def prefetch(evidence: Evidence, level: str) -> Finding:
    """What is told of `mshr.LEVEL.prefetch`."""
    name = f"mshr.{level}.prefetch"
    timed = [own for own in evidence.prefetching if own.phase is not None]
    wanted = [own for own in timed if own.fills == level]
    if level == "l2" and not wanted:
        wanted = [own for own in timed if own.fills == "l1"]
        lost = [own.hint for own in evidence.prefetching if own.fills in (UNSTEADY, "memory")]
        if wanted and lost:
            return _bounded_by_level_one(_one_hint(name, level, wanted[0]), wanted[0].hint, lost)
    elif level == "l2" and _levels_blur(evidence.prefetching):
        why = f"no hint was seen to fill level 1 all the time, so {wanted[0].hint} may fill that too; run again"
        return _as_bound(_one_hint(name, level, wanted[0]), why)
    if not wanted:
        landed = ", ".join(f"{own.hint}: {own.fills}" for own in evidence.prefetching) or "this machine has no hints"
        return unresolved(name, f"no software prefetch is seen to fill level 1{' or 2' * (level == 'l2')} ({landed})")
    found = _one_hint(name, level, wanted[0])
    if level == "l2" and wanted[0].fills == "l2" and _late_before_waiting(evidence.prefetching, wanted[0]):
        why = f"prefetches {wanted[0].hint} come later before they have to wait, and not for level 1: a queue may lie "
        return _as_bound(found, why + "before level 2's, or behind it")
    return found


def _late_before_waiting(prefetching: list[Prefetching], own: Prefetching) -> bool:
    """Whether the last line comes later from a smaller number on than the one behind which the next prefetch has to
    wait, for something else than an entry of level 1. Then a queue takes them that is longer than the one which limits
    them: the former is level 2's and the latter lies behind that, or the latter is and the former lies before."""
    assert own.phase is not None
    waits, late = own.phase.step, own.total.step if own.total else None
    if waits is None or late is None or waits.low <= late.high:
        return False
    first = [each.phase.step for each in prefetching if each.fills == "l1" and each.phase is not None]
    return not any(step is not None and step.low <= waits.high and waits.low <= step.high for step in first)


def _bounded_by_level_one(found: Finding, hint: str, lost: list[str]) -> Finding:
    """A hint whose lines came now and then, or not at all, may be one that fills level 2 only. The other hint's
    prefetches need entries of level 1 too, so level 2 keeps at least as many in flight as it does."""
    why = f"{', '.join(lost)} left no line near, or now and then only, and {hint} takes level-1 entries too; run again"
    return _as_bound(found, why)


def _as_bound(found: Finding, why: str) -> Finding:
    if found.outcome is not Outcome.MEASURED or found.low is None:
        return found
    return at_least(found.parameter, int(found.low), why, found.evidence)


def _levels_blur(prefetching: list[Prefetching]) -> bool:
    """Whether lines in level 1 can't be told from lines in level 2 in this run."""
    fills = {own.fills for own in prefetching}
    return UNSTEADY in fills and "l1" not in fills


def dropped_when_full(own: Prefetching) -> bool:
    """Whether `kept` jumps because too many were in flight at once. Lines that are missing just as well when they came
    in groups were dropped for another reason, or pushed out again: that many don't fit into the cache."""
    if own.kept is None or own.kept.step is None:
        return False
    if own.apart is None:
        return True
    before = own.kept.level(own.kept.step.last)
    return own.apart - before < APART_SHARE * own.kept.step.height


def _comes(own: Prefetching) -> bool:
    """Whether the line of a single prefetch was there afterwards: a load of it took little longer than an empty
    interval."""
    if own.kept is None or own.phase is None:
        return True
    empty = own.phase.level(min(own.phase.samples))
    return own.kept.level(min(own.kept.samples)) - empty < THERE_SHARE * own.kept.unit


def _queued(own: Prefetching, number: int) -> bool:
    """Whether so many prefetches may have stood in a queue before level 2's: their last line comes later than they set
    out, as if it had waited for another."""
    assert own.total is not None and own.phase is not None

    def longer(stairs: Staircase) -> float:
        numbers, times = stairs.curve()
        return float(np.interp(number, numbers, times) - np.interp(1, numbers, times))

    return longer(own.total) - longer(own.phase) > QUEUED_SHARE * own.total.unit


def _each_waits(stairs: Staircase) -> bool:
    """Whether every further prefetch takes about a miss longer, as where each waits for the one before."""
    numbers, times = stairs.curve()
    first = int(np.flatnonzero(numbers >= 1)[0])
    return bool(times[-1] - times[first] > QUEUED_SHARE * stairs.unit * (numbers[-1] - numbers[first]))


def _all_kept(kept: Staircase) -> int:
    """Up to how many prefetches no line was missing long after: before the jump, or before time grew by half a miss."""
    numbers, times = kept.curve()
    slower = times - np.minimum.accumulate(times) > THERE_SHARE * kept.unit
    before = int(numbers[max(int(np.argmax(slower)) - 1, 0)] if slower.any() else numbers[-1])
    return before if kept.step is None else min(before, kept.step.low)


def _one_hint(name: str, level: str, own: Prefetching) -> Finding:
    if not _comes(own):
        return unresolved(name, f"lines that {own.hint} prefetches are there now and then only; run again")
    kept = own.kept if dropped_when_full(own) else None
    ways = {"phase": own.phase, "total": own.total if level == "l2" else None, "kept": kept}
    stairs = {way: each for way, each in ways.items() if each is not None}
    steps = {way: each.step for way, each in stairs.items() if each.step is not None}
    key = f"prefetch.{own.hint}"
    if not steps:
        phase = own.phase
        assert phase is not None
        numbers, times = phase.curve()
        out = int(numbers[times - times[0] < IN_FLIGHT_SHARE * phase.unit].max())
        if own.total is not None:  # what has set out may still stand in a queue
            out = min(out, proven(own.total))
        if own.kept is not None:  # and may have been dropped
            out = min(out, _all_kept(own.kept))
        return at_least(name, out, f"no sign of a limit up to {phase.largest} prefetches {own.hint}", key)
    way, step = min(steps.items(), key=lambda item: item[1].last)
    if not certain(step):
        why = f"the jump lies between {step.low} and {step.high} prefetches {own.hint}; run again at a quieter time"
        return unresolved(name, why)
    if step.last < 1 and not _each_waits(stairs[way]):
        return unresolved(name, f"one prefetch {own.hint} takes long, more of them no longer; run again")
    if step.last and level == "l2" and own.total is not None and _queued(own, step.last):
        why = f"{step.last} prefetches {own.hint} set out at once, but the time until all are there bears out fewer"
        return at_least(name, proven(own.total, step.last), why, f"{key}.total")
    how = {
        "phase": "the next has to wait",
        "total": "the next comes later",
        "kept": "the next is dropped",
    }[way]
    return measured(name, max(step.last, 1), step, 0, f"prefetches {own.hint} from memory: {how}", f"{key}.{way}")
