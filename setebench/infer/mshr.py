"""From staircases to the number of misses in flight. Knows no machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from setebench.infer import siblings
from setebench.infer.landing import UNSTEADY
from setebench.infer.siblings import Beside, Together
from setebench.infer.steps import Staircase, Step
from setebench.results import Finding, Outcome

WAITS_SHARE = 0.6
"""A hit that needs an entry waits for the first of the misses: about as long as a miss takes."""

NEXT_TO = 2
"""Threads are asked for so many more than their share of a pool."""

APART_SHARE = 0.5
"""Prefetches in groups lose no lines where the number in flight was why: all of the jump goes, or none of it."""

AGREE = 0.3
"""Share by which the throughput of parallel chases may differ from the jump. Waves of a chase wait for their last line,
and latency under load is higher than alone; half as many or twice as many in flight is far outside."""

FREE_SHARE = 0.25
"""A hit that is delayed by no more than this share of a miss did not wait for one: bandwidth may be short."""

QUEUED_SHARE = 0.5
"""Share of a miss by which the last line may come later than the prefetches set out. Those that stand in a queue before
level 2's wait for the first lines to come: a whole miss, less what they needed to set out."""

THERE_SHARE = 0.5
"""A line takes less than this share of a miss, or it was not there. Lines in memory take all of it, those in a cache
that a prefetch may fill less than a third."""

IN_FLIGHT_SHARE = 0.8
"""Requests that set out within this share of the time of one were all in flight at once."""


@dataclass(frozen=True)
class Prefetching:
    """Staircases of one hint: the time in which prefetches set out (`phase`), until the last line is there (`total`),
    and of loads of all lines long after (`kept`). `fills` is where a line lands: l1, l2, or further out. `apart` is
    the time of `kept` behind its jump, of as many lines, prefetched in groups, one after the other."""

    hint: str
    fills: str
    phase: Staircase | None = None
    total: Staircase | None = None
    kept: Staircase | None = None
    apart: float | None = None


@dataclass(frozen=True)
class Blocked:
    """How much longer a hit in level 2 behind misses takes, by their number; and whether its line really came from
    level 2."""

    stairs: Staircase
    in_level_two: bool


@dataclass
class Evidence:
    """All that was measured. `chases` is how many misses the throughput of parallel chases needs in flight."""

    loads: Staircase
    stores: Staircase | None = None
    blocked: Blocked | None = None
    chases: float | None = None
    prefetching: list[Prefetching] = field(default_factory=list)
    one_thread: bool = True
    """Whether cores run one thread each, so there is nothing to share."""
    beside: Beside | str = "not asked"
    together: Together | str = "not asked"
    """What threads do to each other's hits and level-2 prefetches; why not, where it can't be asked."""


def findings(evidence: Evidence, levels: tuple[str, ...]) -> Iterator[Finding]:
    """What is told of `levels` (l1, l2)."""
    if "l1" in levels:
        yield _l1_demand(evidence)
        yield _prefetch(evidence, "l1")
    if "l2" in levels:
        yield _l2_demand(evidence)
        yield _prefetch(evidence, "l2")
    for level in levels:
        if evidence.one_thread:
            yield siblings.one_thread(level)
        elif level == "l1":
            yield siblings.first_shared(evidence.beside)
        else:
            yield siblings.second_shared(evidence.together)


def certain(step: Step | None) -> bool:
    """Whether the jump's place is known to one."""
    return step is not None and step.low == step.high


def proven(stairs: Staircase, most: int | None = None) -> int:
    """How many independent misses surely were in flight at once, though time never jumped: by Little's law at least as
    many as what all took one after the other is longer than what they took together. Numbers up to `most` count; 0
    where there are none."""
    numbers, times = stairs.curve()
    base = times[0] if numbers[0] == 1 else times[0] + stairs.unit
    before = numbers if stairs.step is None else numbers[numbers <= stairs.step.low]
    before = before if most is None else before[before <= most]
    together = times[: len(before)] - base + stairs.unit
    return int((0.9 * before * stairs.unit / together).max(initial=0.0))


def _measured(parameter: str, value: int, step: Step, offset: int, method: str, evidence: str) -> Finding:
    return Finding(
        parameter=parameter,
        value=value,
        unit="entries",
        low=max(step.low + offset, 1),
        high=max(step.high + offset, 1),
        method=method,
        evidence=evidence,
    )


def _at_least(parameter: str, value: int, why: str, evidence: str) -> Finding:
    if value < 1:
        return unresolved(parameter, why)
    return Finding(
        parameter=parameter,
        value=value,
        unit="entries",
        outcome=Outcome.AT_LEAST,
        reason=why,
        method="no jump up to there",
        evidence=evidence,
    )


def unresolved(parameter: str, why: str, unit: str = "entries") -> Finding:
    """Nothing to tell, and why."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNRESOLVED, reason=why)


def _repeats(stairs: Staircase) -> str:
    if stairs.repeats is None:
        return "first jump only"
    return "time jumps again at twice the number" if stairs.repeats else "no second jump"


def _l2_demand(evidence: Evidence) -> Finding:
    name, loads = "mshr.l2.demand", evidence.loads
    if loads.step is None:
        return _at_least(name, proven(loads), f"time never jumps up to {loads.largest} loads", "loads")
    step = loads.step
    if not certain(step):
        return unresolved(name, f"the jump lies between {step.low} and {step.high} loads; run again at a quieter time")
    if evidence.chases is not None and not _borne_out(evidence.chases / step.last, loads.repeats):
        why = f"time jumps behind {step.last} loads, but parallel chases keep {evidence.chases:.1f} in flight"
        return unresolved(name, why + "; run again at a quieter time")
    chases = "" if evidence.chases is None else f"; parallel chases keep {evidence.chases:.1f} in flight"
    method = f"loads from memory, {_repeats(loads)}{chases}{_stores(evidence.stores)}"
    return _measured(name, step.last, step, 0, method, "loads")


def _stores(stairs: Staircase | None) -> str:
    """What stores do, as a remark: they may wait in a queue of their own before they need an entry."""
    if stairs is None or stairs.step is None:
        return "" if stairs is None else f"; stores never jump up to {stairs.largest}"
    low, high = stairs.step.low, stairs.step.high
    return f"; stores jump behind {low}" + (f" to {high}" if high > low else "")


def _borne_out(ratio: float, repeats: bool | None) -> bool:
    """Whether parallel chases, which keep `ratio` times as many in flight, bear a jump out. Fewer may be for other
    reasons (more pages than the first TLB holds), so then a second jump will do; more are a contradiction."""
    return abs(ratio - 1) <= AGREE or (ratio < 1 and repeats is True)


def _l1_demand(evidence: Evidence) -> Finding:
    name, loads, blocked = "mshr.l1.demand", evidence.loads, evidence.blocked
    passed = loads.step.low if loads.step else proven(loads)
    if blocked is None:
        return _at_least(name, passed, "level 2 was not found, so no line could be kept there", "loads")
    if not blocked.in_level_two:
        return _at_least(name, passed, "a line didn't stay in level 2; run again at a quieter time", "blocked")
    method = "a hit in level 2 behind misses has to wait"
    step = blocked.stairs.step
    if loads.step and certain(loads.step) and _waits_at_jump(loads.step, blocked.stairs):
        why = f"{method} when so many are in flight as loads can be"
        return _measured(name, loads.step.last, loads.step, 0, why, "blocked")
    if step is None:
        free = max(passed, _free(blocked.stairs) + 1)
        return _at_least(name, free, "a hit in level 2 behind misses never had to wait suddenly", "blocked")
    if not certain(step):
        why = f"a hit in level 2 has to wait behind {step.low + 1} to {step.high + 1} misses"
        return _at_least(name, passed, why + "; run again at a quieter time", "blocked")
    if step.last + 1 < passed:
        why = f"a hit in level 2 waits behind {step.last + 1} misses, but not for an entry"
        return _at_least(name, passed, why, "blocked")
    if _free(blocked.stairs) < step.last:
        why = "the more misses, the longer a hit in level 2 behind them takes, and no number stands out"
        return _at_least(name, passed, why, "blocked")
    return _measured(name, step.last + 1, step, 1, method, "blocked")


def _free(blocked: Staircase) -> int:
    """The number of misses up to which a hit behind them does not wait."""
    numbers, times = blocked.curve()
    # a larger number undercuts a time that was disturbed
    free = np.minimum.accumulate(times[::-1])[::-1] <= FREE_SHARE * blocked.unit
    return int(numbers[free].max(initial=0))


def _waits_at_jump(step: Step, blocked: Staircase) -> bool:
    """Whether a hit in level 2 waits behind as many misses as loads can have in flight (`step` is where they jump), and
    not behind one less: then level 1 has no entry left, and it is level 1 that limits the loads. A delay that grows
    little by little tells of bandwidth. Where the hit jumps for certain, it has to be there."""
    last, own = step.last, blocked.step
    if last not in blocked.samples or last - 1 not in blocked.samples:
        return False
    if own is not None and certain(own) and own.last + 1 != last:
        return False
    return blocked.level(last) - max(blocked.level(last - 1), 0.0) > WAITS_SHARE * blocked.unit


def _prefetch(evidence: Evidence, level: str) -> Finding:
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
    return _one_hint(name, level, wanted[0])


def _bounded_by_level_one(found: Finding, hint: str, lost: list[str]) -> Finding:
    """A hint whose lines came now and then, or not at all, may be one that fills level 2 only. The other hint's
    prefetches need entries of level 1 too, so level 2 keeps at least as many in flight as it does."""
    why = f"{', '.join(lost)} left no line near, or now and then only, and {hint} takes level-1 entries too; run again"
    return _as_bound(found, why)


def _as_bound(found: Finding, why: str) -> Finding:
    if found.outcome is not Outcome.MEASURED or found.low is None:
        return found
    return _at_least(found.parameter, int(found.low), why, found.evidence)


def _levels_blur(prefetching: list[Prefetching]) -> bool:
    """Whether lines in level 1 can't be told from lines in level 2 in this run."""
    fills = {own.fills for own in prefetching}
    return UNSTEADY in fills and "l1" not in fills


def _dropped_when_full(own: Prefetching) -> bool:
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


def _one_hint(name: str, level: str, own: Prefetching) -> Finding:
    if not _comes(own):
        return unresolved(name, f"lines that {own.hint} prefetches are there now and then only; run again")
    kept = own.kept if _dropped_when_full(own) else None
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
        if own.kept is not None and own.kept.step is not None:  # and may have been dropped
            out = min(out, own.kept.step.low)
        return _at_least(name, out, f"no sign of a limit up to {phase.largest} prefetches {own.hint}", key)
    way, step = min(steps.items(), key=lambda item: item[1].last)
    if not certain(step):
        why = f"the jump lies between {step.low} and {step.high} prefetches {own.hint}; run again at a quieter time"
        return unresolved(name, why)
    if level == "l2" and own.total is not None and _queued(own, step.last):
        why = f"{step.last} prefetches {own.hint} set out at once, but the time until all are there bears out fewer"
        return _at_least(name, proven(own.total, step.last), why, f"{key}.total")
    how = {
        "phase": "the next has to wait",
        "total": "the next comes later",
        "kept": "the next is dropped",
    }[way]
    return _measured(name, max(step.last, 1), step, 0, f"prefetches {own.hint} from memory: {how}", f"{key}.{way}")


# -- SMT ---------------------------------------------------------------------------------------------------------------


def fills_first(evidence: Evidence) -> tuple[str, int] | str:
    """How one thread can take all entries of level 1: the hint to prefetch with, or none to load, and how many there
    are; or why it is not known."""
    if evidence.blocked is None or not evidence.blocked.in_level_two:
        return "no line was kept in level 2, so none can be asked for there"
    demand = _l1_demand(evidence)
    if demand.outcome is Outcome.MEASURED and isinstance(demand.value, int) and demand.value > 1:
        return "", demand.value
    prefetch = _waiting(evidence, "l1")
    if prefetch is None:
        return "the number of entries is not known, and no prefetch was seen to wait for one"
    return prefetch[0], prefetch[1].last


def fills_second(evidence: Evidence, threads: int) -> tuple[str, Step] | str:
    """The hint whose prefetches wait for entries of level 2, and their jump; or why there is none. Where level 1 has as
    many, and shares them, threads that wait may wait for those."""
    own, first = _waiting(evidence, "l2"), fills_first(evidence)
    if own is None:
        return "no prefetch was seen to wait for an entry of this level"
    shared = siblings.first_shared(evidence.beside)
    if shared.value is False or (not isinstance(first, str) and _apart(own[1].last, first[1], threads)):
        return own
    return "what limits level-2 prefetches may be level 1"


def _apart(second: int, first: int, threads: int) -> bool:
    """Whether a thread's share of `second` entries runs out where its share of `first` doesn't: more than level 1 has
    don't need level 1, and clearly fewer run out before."""
    return second > first or first // threads > second // threads + NEXT_TO


def _waiting(evidence: Evidence, level: str) -> tuple[str, Step] | None:
    for own in evidence.prefetching:
        step = own.phase.step if own.phase else None
        if own.fills == level and step is not None and certain(step) and step.last > 1:
            return own.hint, step
    return None
