"""From latency-over-count curves to numbers of entries. What follows from which comparison, and when it is a bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.estimate import CONFIDENCE, Interval

from .curves import Asked, in_flight, surely
from .demand import Behind, Demand
from .params import Params
from .prefetching import NEAR, UNSTEADY, Prefetching

UNIT, QUIETER = "entries", "run again at a quieter time"


@dataclass(frozen=True)
class Evidence:
    """All that one thread alone shows. `disturbed` is the fraction of bursts beside which an SMT co-runner was seen."""

    demand: Demand
    prefetching: list[Prefetching]
    disturbed: float = 0.0


def findings(evidence: Evidence, levels: tuple[str, ...], params: Params) -> Iterable[Finding]:
    """What follows of `levels` (l1, l2)."""
    if "l1" in levels:
        yield _unless_taken(l1_demand(evidence, params), evidence, params)
        yield _unless_taken(l1_prefetch(evidence, params), evidence, params)
    if "l2" in levels:
        yield _unless_taken(l2_demand(evidence, params), evidence, params)
        yield _unless_taken(l2_prefetch(evidence, params), evidence, params)


def _measured(parameter: str, asked: Asked, offset: int, method: str, evidence: str) -> Finding:
    """A number of entries: the largest that fits, `offset` further."""
    low, high = asked.ends
    found = Interval(max(asked.last + offset, 1), max(low + offset, 1), max(high + offset, 1))
    return decide.measured(parameter, found, UNIT, f"{method}; {len(asked.epochs)} epochs", evidence)


def _at_least(parameter: str, value: int, why: str, evidence: str) -> Finding:
    if value < 1:
        return decide.unresolved(parameter, UNIT, why)
    return decide.backed(decide.at_least(parameter, value, UNIT, why, "no jump up to there"), evidence)


def _unless_taken(found: Finding, evidence: Evidence, params: Params) -> Finding:
    """The finding, or a bound where a co-runner may have held entries whenever this number was asked for: it was seen
    to run, or other requests jumped behind the same number in one epoch and behind a larger one in another."""
    if found.outcome is not Outcome.MEASURED or not isinstance(found.value, int):
        return found
    if evidence.disturbed > params.disturbed:
        why = f"another thread of this core, maybe unseen by this system, ran beside {evidence.disturbed:.0%} of all"
        return _as_bound(found, f"{why} bursts; {QUIETER}")
    for what, asked in _needing_entries(evidence):
        seen = {each.value for each in asked.epochs if each.certainty >= CONFIDENCE}
        if found.value in seen and max(seen) > found.value:
            why = (
                f"{what} jump behind {found.value} in one epoch and {max(seen)} in another, so others may hold entries"
            )
            return _as_bound(found, f"{why}; {QUIETER}")
    return found


def _needing_entries(evidence: Evidence) -> Iterable[tuple[str, Asked]]:
    """Loads, and prefetches into the first two levels, each of which needs an entry there."""
    yield "loads", evidence.demand.loads
    for own in evidence.prefetching:
        if own.fills in NEAR:
            yield from ((f"prefetches {own.hint}", each) for each in (own.phase, own.total) if each is not None)


def _as_bound(found: Finding, why: str) -> Finding:
    if found.outcome is not Outcome.MEASURED or found.low is None:
        return found
    return _at_least(found.parameter, int(found.low), why, found.evidence)


# -- loads -------------------------------------------------------------------------------------------------------------


def l2_demand(evidence: Evidence, params: Params) -> Finding:
    """Loads from memory need an entry of both levels: the last number before their time jumps is what both let
    through. More in flight by throughput, or from a level in front of memory, contradict it."""
    name, loads = "mshr.l2.demand", evidence.demand.loads
    if not loads.jumps:
        return _at_least(name, in_flight(loads, params), f"time never jumps up to {loads.most} loads", "loads")
    low, high = loads.ends
    if not loads.certain:
        why = f"the jump lies between {low} and {high} loads; {QUIETER}"
        return _at_least(name, surely(loads, params), why, "loads")
    if more := _more_in_flight(evidence.demand, evidence.demand.kept.keys() - {"l2"}, loads.last, params):
        return decide.unresolved(name, UNIT, f"time jumps behind {loads.last} loads, but {more}; {QUIETER}")
    stores, behind = evidence.demand.stores, evidence.demand.behind
    if stores is not None and stores.certain and 1 < loads.last < stores.ends[0]:
        why = f"time jumps behind {loads.last} loads, but {stores.last} stores find entries: others may take some"
        return _at_least(name, low, f"{why}; {QUIETER}", "loads")
    if behind is not None and behind.in_level_two and behind.asked.certain:
        more_first = behind.asked.last + 1 - loads.last
        if 0 < more_first <= params.next_to:
            why = f"level 1 has {more_first} more: a line that a prefetcher fetches meanwhile takes an entry of level 2"
            return _at_least(name, low, why, "loads")
    method = f"loads from memory: time jumps{_throughput(evidence.demand)}{_stores(stores)}"
    return _measured(name, loads, 0, method, "loads")


def _more_in_flight(demand: Demand, levels: Iterable[str], entries: int, params: Params) -> str:
    """Why so many entries can't be all, as more loads surely were in flight that each need one; empty if none were."""
    for level, kept in demand.kept.items():
        if level in levels and kept.low > (1 + params.agrees) * entries:
            return f"parallel chases keep {kept.low:.1f} in flight from {level}"
    return ""


def _throughput(demand: Demand) -> str:
    """As a remark: an entry limit is the same number in all levels."""
    kept = ", ".join(f"{each.value:.1f} from {level}" for level, each in demand.kept.items())
    return f"; parallel chases keep in flight {kept}" if kept else ""


def _stores(stores: Asked | None) -> str:
    """As a remark: stores may wait in a queue of their own before they need an entry."""
    if stores is None:
        return ""
    if not stores.jumps:
        return f"; stores never jump up to {stores.most}"
    low, high = stores.ends
    return f"; stores jump behind {low}" + (f" to {high}" if high > low else "")


def l1_demand(evidence: Evidence, params: Params) -> Finding:
    """A hit in level 2 behind misses lacks but an entry of level 1: the number of misses behind which it has to
    wait."""
    name, demand = "mshr.l1.demand", evidence.demand
    passed, behind = surely(demand.loads, params), demand.behind
    if behind is None:
        return _at_least(name, passed, "level 2 was not found, so no line could be kept there", "loads")
    if not behind.in_level_two:
        return _at_least(name, passed, f"a line didn't stay in level 2; {QUIETER}", "blocked")
    asked = behind.asked
    if not asked.jumps:
        free = max(passed, _never_waited(behind, params))
        return _at_least(name, free, "a hit in level 2 behind misses never had to wait suddenly", "blocked")
    if not asked.certain:
        low, high = asked.ends
        why = f"a hit in level 2 has to wait behind {low + 1} to {high + 1} misses; {QUIETER}"
        return _at_least(name, passed, why, "blocked")
    entries = asked.last + 1
    # at the number at which loads jump as well, a hit that is delayed a little before has to wait all the same
    at_loads = demand.loads.certain and demand.loads.last == entries
    if entries < passed or (_creeps(asked, params) and not at_loads):
        why = f"a hit in level 2 is delayed behind {entries} misses, but not for an entry alone"
        return _at_least(name, passed, why, "blocked")
    if more := _more_in_flight(demand, demand.kept, entries, params):
        why = f"a hit in level 2 waits behind {entries} misses, but {more}; {QUIETER}"
        return decide.unresolved(name, UNIT, why)
    method = f"a hit in level 2 behind misses has to wait{_throughput(demand)}"
    return _measured(name, asked, 1, method, "blocked")


def _creeps(asked: Asked, params: Params) -> bool:
    """Whether the hit was delayed by half a miss before the jump already: bandwidth, or a port."""
    before = [time for number, time in asked.levels().items() if number <= asked.last]
    return bool(before) and before[-1] > params.half * asked.curve.unit


def _never_waited(behind: Behind, params: Params) -> int:
    """Entries that level 1 has at least, as a hit behind one miss less did not wait, nor behind any fewer. Only misses
    count behind which a wait would have shown: one slow measurement may hide it, and must not become a bound."""
    free = 0
    for number, time in behind.asked.levels().items():
        if time > params.waits * behind.asked.curve.unit or number > behind.shows_up_to:
            break
        free = number + 1
    return free


# -- prefetches --------------------------------------------------------------------------------------------------------


def l1_prefetch(evidence: Evidence, params: Params) -> Finding:
    """Prefetches of a hint that fills level 1: the next one waits, or is dropped."""
    wanted = [own for own in evidence.prefetching if own.phase is not None and own.fills == "l1"]
    if not wanted:
        return _no_hint("mshr.l1.prefetch", evidence)
    return _one_hint("mshr.l1.prefetch", wanted[0], params)


def l2_prefetch(evidence: Evidence, params: Params) -> Finding:
    """Prefetches of a hint that fills level 2, or else of one that fills level 1, whose lines come through level 2 too.

    A bound where another hint may be the one that fills level 2: then these prefetches need entries of level 1 too."""
    name = "mshr.l2.prefetch"
    timed = [own for own in evidence.prefetching if own.phase is not None]
    wanted = [own for own in timed if own.fills == "l2"] or [own for own in timed if own.fills == "l1"]
    if not wanted:
        return _no_hint(name, evidence)
    own, found = wanted[0], _one_hint(name, wanted[0], params)
    fills = {each.hint: each.fills for each in evidence.prefetching}
    lost = [hint for hint, level in fills.items() if level in (UNSTEADY, "memory")]
    if own.fills == "l1" and lost:
        why = f"{', '.join(lost)} left no line near, or now and then only, and {own.hint} takes level-1 entries too"
        return _as_bound(found, f"{why}; run again")
    if own.fills == "l2" and UNSTEADY in fills.values() and "l1" not in fills.values():
        why = f"no hint was seen to fill level 1 all the time, so {own.hint} may fill that too; run again"
        return _as_bound(found, why)
    if own.fills == "l2" and _late_before_waiting(evidence.prefetching, own):
        why = f"prefetches {own.hint} come later before they have to wait, and not for level 1: a queue may lie before"
        return _as_bound(found, f"{why} level 2's, or behind it")
    return found


def _no_hint(name: str, evidence: Evidence) -> Finding:
    fills = ", ".join(f"{own.hint}: {own.fills}" for own in evidence.prefetching) or "this machine has no hints"
    level = "level 1" if "l1" in name else "level 1 or 2"
    return decide.unresolved(name, UNIT, f"no software prefetch is seen to fill {level} ({fills})")


def _late_before_waiting(prefetching: list[Prefetching], own: Prefetching) -> bool:
    """Whether the last line comes later from a smaller number on than the one behind which the next prefetch has to
    wait, for something else than an entry of level 1. Then a queue takes them that is longer than the one which limits
    them: the former is level 2's and the latter lies behind that, or the latter is and the former lies before."""
    waits, late = own.phase, own.total
    if waits is None or late is None or not (waits.jumps and late.jumps) or waits.ends[0] <= late.ends[1]:
        return False
    first = [each.phase for each in prefetching if each.fills == "l1" and each.phase is not None and each.phase.jumps]
    return not any(each.ends[0] <= waits.ends[1] and waits.ends[0] <= each.ends[1] for each in first)


def _one_hint(name: str, own: Prefetching, params: Params) -> Finding:
    """The smallest number at which prefetches of a hint jump, in any of the times that are taken of them."""
    phase, total, kept = own.phase, own.total, own.kept
    assert phase is not None and total is not None and kept is not None
    empty, first = phase.levels()[0], kept.levels()
    if first[min(first)] - empty > params.half * kept.curve.unit:
        return decide.unresolved(name, UNIT, f"lines that {own.hint} prefetches are there now and then only; run again")
    ways = {"the next has to wait": ("phase", phase)}
    if "l2" in name:
        ways["the next comes later"] = ("total", total)
    if own.dropped_when_full(params):
        ways["the next is dropped"] = ("kept", kept)
    jumping = {how: way for how, way in ways.items() if way[1].jumps}
    key = f"prefetch.{own.hint}"
    if not jumping:
        out = min(_at_once(phase, params), in_flight(total, params), _all_kept(kept, params))
        return _at_least(name, out, f"no sign of a limit up to {phase.most} prefetches {own.hint}", key)
    how, (way, asked) = min(jumping.items(), key=lambda item: item[1][1].last)
    low, high = asked.ends
    if not asked.certain:
        why = f"the jump lies between {low} and {high} prefetches {own.hint}; {QUIETER}"
        return decide.unresolved(name, UNIT, why)
    if asked.last < 1 and not _each_waits(asked, params):
        return decide.unresolved(name, UNIT, f"one prefetch {own.hint} takes long, more of them no longer; run again")
    if asked.last and "l2" in name and _queued(own, asked.last, params):
        why = f"{asked.last} prefetches {own.hint} set out at once, but the time until all are there bears out fewer"
        return _at_least(name, in_flight(total, params, asked.last), why, f"{key}.total")
    return _measured(name, asked, 0, f"prefetches {own.hint} from memory: {how}", f"{key}.{way}")


def _at_once(phase: Asked, params: Params) -> int:
    """Prefetches that set out within half the time of one: all in flight at once, if they were not dropped or kept in
    a queue before."""
    levels = phase.levels()
    return max(number for number, time in levels.items() if time - levels[0] < params.half * phase.curve.unit)


def _all_kept(kept: Asked, params: Params) -> int:
    """Up to how many prefetches no line was missing long after: before the jump, or before time grew by half a miss."""
    levels = kept.levels()
    numbers, times = np.array(list(levels)), np.array(list(levels.values()))
    slower = times - np.minimum.accumulate(times) > params.half * kept.curve.unit
    before = int(numbers[max(int(np.argmax(slower)) - 1, 0)] if slower.any() else numbers[-1])
    return min(before, kept.ends[0]) if kept.jumps else before


def _each_waits(asked: Asked, params: Params) -> bool:
    """Whether every further prefetch takes about a miss longer, as where each waits for the one before."""
    levels = {number: time for number, time in asked.levels().items() if number >= 1}
    first, last = min(levels), max(levels)
    return levels[last] - levels[first] > params.half * asked.curve.unit * (last - first)


def _queued(own: Prefetching, number: int, params: Params) -> bool:
    """Whether so many prefetches may have stood in a queue before level 2's: their last line comes half a miss later
    than they set out, as if it had waited for another."""

    def longer(asked: Asked) -> float:
        levels = asked.levels()
        numbers, times = list(levels), list(levels.values())
        return float(np.interp(number, numbers, times) - np.interp(1, numbers, times))

    assert own.total is not None and own.phase is not None
    return longer(own.total) - longer(own.phase) > params.half * own.total.curve.unit
