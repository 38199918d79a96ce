"""From latency-over-count curves to numbers of entries. What follows from which comparison, and when it is a bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.estimate import CONFIDENCE, Interval

from .curves import Asked, at_once, goes_on, surely
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
        if own.fills in NEAR and own.phase is not None:
            yield f"prefetches {own.hint}", own.phase


def _as_bound(found: Finding, why: str) -> Finding:
    if found.outcome is not Outcome.MEASURED or found.low is None:
        return found
    return _at_least(found.parameter, int(found.low), why, found.evidence)


# -- loads -------------------------------------------------------------------------------------------------------------


def l2_demand(evidence: Evidence, params: Params) -> Finding:
    """Loads from memory need an entry of both levels: the last number before their time jumps is what both let
    through. More that are surely in flight at once contradict it."""
    name, loads = "mshr.l2.demand", evidence.demand.loads
    passed = _loads_at_once(loads, params)
    if not loads.jumps:
        return _at_least(name, passed, f"time never jumps up to {loads.most} loads", "loads")
    low, high = loads.ends
    if not loads.certain:
        return _at_least(name, passed, f"the jump lies between {low} and {high} loads; {QUIETER}", "loads")
    if passed > loads.last or goes_on(loads, params):
        more = "it goes on to rise" if passed <= loads.last else f"{passed} take less than half a miss longer than one"
        return _at_least(name, passed, f"time jumps behind {loads.last} loads, but {more}", "loads")
    stores, behind = evidence.demand.stores, evidence.demand.behind
    if stores is not None and stores.certain and 1 < loads.last < stores.ends[0]:
        why = f"time jumps behind {loads.last} loads, but {stores.last} stores find entries: others may take some"
        return _at_least(name, low, f"{why}; {QUIETER}", "loads")
    if behind is not None and behind.in_level_two and behind.asked.certain:
        more_first = behind.asked.last + 1 - loads.last
        if 0 < more_first <= params.next_to:
            why = f"level 1 has {more_first} more: a line that a prefetcher fetches meanwhile takes an entry of level 2"
            return _at_least(name, low, why, "loads")
    return _measured(name, loads, 0, f"loads from memory: time jumps{_stores(stores)}", "loads")


def _loads_at_once(loads: Asked, params: Params) -> int:
    """How many loads surely were in flight at once."""
    return surely(loads.levels(), loads.curve.unit, loads.ends[0] if loads.jumps else loads.most, params)


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
    passed, behind = _loads_at_once(demand.loads, params), demand.behind
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
    return _measured(name, asked, 1, "a hit in level 2 behind misses has to wait", "blocked")


def _creeps(asked: Asked, params: Params) -> bool:
    """Whether the hit was delayed by half a miss before the jump already: bandwidth, or a port."""
    return at_once(_up_to(asked, asked.last), params.half * asked.curve.unit) < asked.last


def _never_waited(behind: Behind, params: Params) -> int:
    """Entries that level 1 has at least, as a hit behind one miss less did not wait, nor behind any fewer: the largest
    of many numbers without a wait would be the luckiest one. Only misses count behind which a wait would have shown."""
    waits = params.waits * behind.asked.curve.unit
    passed = takewhile(lambda each: each[1] <= waits, _up_to(behind.asked, behind.shows_up_to).items())
    return max((number + 1 for number, _ in passed), default=0)


def _up_to(asked: Asked, most: int) -> dict[int, float]:
    return {number: time for number, time in asked.levels().items() if number <= most}


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
    return found


def _no_hint(name: str, evidence: Evidence) -> Finding:
    fills = ", ".join(f"{own.hint}: {own.fills}" for own in evidence.prefetching) or "this machine has no hints"
    level = "level 1" if "l1" in name else "level 1 or 2"
    return decide.unresolved(name, UNIT, f"no software prefetch is seen to fill {level} ({fills})")


def _one_hint(name: str, own: Prefetching, params: Params) -> Finding:
    """The smallest number at which the next prefetch of a hint has to wait, or is dropped. All before it were in flight
    at once if that is the queue which they hold until their lines come, and then the last line comes as soon as one
    would. Where it comes later, the queue that is full lies before level 2's, or what makes it late lies behind."""
    phase, kept = own.phase, own.kept
    assert phase is not None and kept is not None
    empty, first = phase.levels()[0], kept.levels()
    if first[min(first)] - empty > params.half * kept.curve.unit:
        return decide.unresolved(name, UNIT, f"lines that {own.hint} prefetches are there now and then only; run again")
    ways = {"the next has to wait": ("phase", phase)}
    if own.dropped_when_full(params):
        ways["the next is dropped"] = ("kept", kept)
    jumping = {how: way for how, way in ways.items() if way[1].jumps}
    key = f"prefetch.{own.hint}"
    if not jumping:
        half = params.half * phase.curve.unit
        # of a number that leaves no line out, and sets out before one line would have come
        most = min(at_once(phase.levels(), empty + half), at_once(kept.levels(), first[min(first)] + half))
        out = min(surely(own.total, kept.curve.unit, most, params), most)
        return _at_least(name, out, f"no sign of a limit up to {phase.most} prefetches {own.hint}", key)
    how, (way, asked) = min(jumping.items(), key=lambda item: item[1][1].last)
    low, high = asked.ends
    if not asked.certain:
        why = f"the jump lies between {low} and {high} prefetches {own.hint}; {QUIETER}"
        return decide.unresolved(name, UNIT, why)
    if way == "phase" and goes_on(asked, params):
        why = f"{how} behind {asked.last} prefetches {own.hint}, and ever longer, so not for an entry alone"
        return _at_least(name, min(surely(own.total, kept.curve.unit, low, params), low), why, f"{key}.total")
    if asked.last < 1 and not _each_waits(asked, params):
        return decide.unresolved(name, UNIT, f"one prefetch {own.hint} takes long, more of them no longer; run again")
    if asked.last and "l2" in name and _late(own, asked, params):
        why = f"{how} behind {asked.last} prefetches {own.hint}, but the last line comes later than of so many at once"
        return _at_least(name, min(surely(own.total, kept.curve.unit, low, params), low), why, f"{key}.total")
    return _measured(name, asked, 0, f"prefetches {own.hint} from memory: {how}", f"{key}.{way}")


def _each_waits(asked: Asked, params: Params) -> bool:
    """Whether every further prefetch takes about a miss longer, as where each waits for the one before."""
    levels = {number: time for number, time in asked.levels().items() if number >= 1}
    first, last = min(levels), max(levels)
    return levels[last] - levels[first] > params.half * asked.curve.unit * (last - first)


def _late(own: Prefetching, full: Asked, params: Params) -> bool:
    """Whether the last line of as many prefetches as fit comes half a miss later than they set out, as if it had waited
    for another: of as many as fit in every epoch, for one more waits in any case."""
    assert own.phase is not None
    number = min(each.value for each in full.epochs)

    def longer(levels: Mapping[int, float]) -> float:
        numbers, times = list(levels), list(levels.values())
        return float(np.interp(number, numbers, times) - np.interp(1, numbers, times))

    return longer(own.total) - longer(own.phase.levels()) > params.half * own.phase.curve.unit
