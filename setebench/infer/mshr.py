"""From staircases to the number of misses in flight. Knows no machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from setebench.infer import siblings
from setebench.infer.in_flight import Blocked, Evidence, at_least, certain, measured, proven, surely, unresolved
from setebench.infer.prefetch_entries import dropped_when_full, prefetch
from setebench.infer.siblings import Filling
from setebench.infer.steps import Staircase, Step
from setebench.results import Finding, Outcome

WAITS_SHARE = 0.6
"""A hit that needs an entry waits for the first of the misses: about as long as a miss takes."""

NEXT_TO = 2
"""Threads are asked for so many more than their share of a pool."""

AGREE = 0.3
"""Share by which the throughput of parallel chases may differ from the jump. Waves of a chase wait for their last line,
and latency under load is higher than alone; half as many or twice as many in flight is far outside."""

MOST_BESIDE = 0.1
"""Where more volleys than this ran beside a tenant, what he took may have decided. Calm levels leave out more than as
many."""

FREE_SHARE = 0.25
"""A hit that is delayed by no more than this share of a miss did not wait for one: bandwidth may be short."""


def findings(evidence: Evidence, levels: tuple[str, ...]) -> Iterator[Finding]:
    """What is told of `levels` (l1, l2)."""
    if "l1" in levels:
        yield _unless_taken(_l1_demand(evidence), evidence)
        yield _unless_taken(prefetch(evidence, "l1"), evidence)
    if "l2" in levels:
        yield _unless_taken(_l2_demand(evidence), evidence)
        yield _unless_taken(prefetch(evidence, "l2"), evidence)
    for level in levels:
        if evidence.one_thread:
            yield siblings.one_thread(level)
        elif level == "l1":
            yield siblings.first_shared(evidence.beside)
        else:
            yield siblings.second_shared(evidence.together)


def _unless_taken(found: Finding, evidence: Evidence) -> Finding:
    """The finding, or a bound where a thread beside this one, which a guest doesn't see, may have held entries whenever
    this number was asked for: it was seen to run, or other requests jumped behind the same number at one time and
    behind a larger one at another."""
    if found.outcome is not Outcome.MEASURED or not isinstance(found.value, int):
        return found
    if evidence.tenant_share > MOST_BESIDE:
        why = f"another thread of this core, maybe unseen by this system, ran beside {evidence.tenant_share:.0%} of all"
        return at_least(found.parameter, found.value, why + " volleys; run again at a quieter time", found.evidence)
    for what, step in _jumps(evidence):
        if step.low == found.value < step.high:
            why = f"{what} jump behind {step.low} at one time and {step.high} at another, so others may hold entries"
            return at_least(found.parameter, found.value, why + "; run again at a quieter time", found.evidence)
    return found


def _jumps(evidence: Evidence) -> Iterator[tuple[str, Step]]:
    """Where loads and prefetches into the first two levels jump, each of which needs an entry there."""
    named = [("loads", evidence.loads)]
    for own in evidence.prefetching:
        if own.fills in ("l1", "l2"):
            named += [(f"prefetches {own.hint}", stairs) for stairs in (own.phase, own.total) if stairs is not None]
    yield from ((what, stairs.step) for what, stairs in named if stairs.step is not None)


def _repeats(stairs: Staircase) -> str:
    if stairs.repeats is None:
        return "first jump only"
    return "time jumps again at twice the number" if stairs.repeats else "no second jump"


def _l2_demand(evidence: Evidence) -> Finding:
    name, loads = "mshr.l2.demand", evidence.loads
    if loads.step is None:
        return at_least(name, proven(loads), f"time never jumps up to {loads.largest} loads", "loads")
    step = loads.step
    if not certain(step):
        return unresolved(name, f"the jump lies between {step.low} and {step.high} loads; run again at a quieter time")
    if evidence.chases is not None and not _borne_out(evidence.chases / step.last, loads.repeats):
        why = f"time jumps behind {step.last} loads, but parallel chases keep {evidence.chases:.1f} in flight"
        return unresolved(name, why + "; run again at a quieter time")
    outer = [level for level in evidence.nearer if level != "l2"]
    if more := _more_in_flight(evidence, outer, step.last):
        return unresolved(name, f"time jumps behind {step.last} loads, but {more}; run again at a quieter time")
    chases = "" if evidence.chases is None else f"; parallel chases keep {evidence.chases:.1f} in flight"
    method = f"loads from memory, {_repeats(loads)}{chases}{_elsewhere(evidence, outer)}{_stores(evidence.stores)}"
    return measured(name, step.last, step, 0, method, "loads")


def _more_in_flight(evidence: Evidence, sources: Iterable[str], entries: int) -> str:
    """Why so many entries can't be all, as more loads were seen in flight that each need one; empty if none were.

    `sources` are the levels whose loads need such an entry. Of a load from a level between only the time behind level 1
    counts, in which it surely holds an entry, and only as many as surely were in flight."""
    for source in sources:
        if source == "memory":
            kept, own = evidence.chases, None
        elif (nearer := evidence.nearer.get(source)) is not None:
            kept, own = nearer.in_flight.low * nearer.behind_share, nearer.step
        else:
            continue
        if kept is not None and kept > (1 + AGREE) * entries:
            return f"parallel chases keep {kept:.1f} in flight from {source}"
        if own is not None and own.last > entries:
            return f"loads from {source} jump behind {own.last}"
    return ""


def _elsewhere(evidence: Evidence, sources: Iterable[str]) -> str:
    """What lines in other levels tell, as a remark: an entry limit is the same number in all of them."""
    told = []
    for source, nearer in sorted(evidence.nearer.items()):
        if source in sources:
            jumps = "" if nearer.step is None else f", time jumps behind {nearer.step.last}"
            told.append(f"; from {source} parallel chases keep {nearer.in_flight.value:.1f} in flight{jumps}")
    return "".join(told)


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
    found = _blocked_hit(evidence)
    if found.outcome is not Outcome.MEASURED or not isinstance(found.value, int):
        return found
    levels = ("memory", *sorted(evidence.nearer))
    if more := _more_in_flight(evidence, levels, found.value):
        why = f"a hit in level 2 waits behind {found.value} misses, but {more}; run again at a quieter time"
        return unresolved(found.parameter, why)
    return Finding(
        parameter=found.parameter,
        value=found.value,
        unit=found.unit,
        low=found.low,
        high=found.high,
        method=found.method + _elsewhere(evidence, levels),
        evidence=found.evidence,
    )


def _blocked_hit(evidence: Evidence) -> Finding:
    """Level 1's entries by the hit in level 2 alone."""
    name, loads, blocked = "mshr.l1.demand", evidence.loads, evidence.blocked
    passed = surely(loads)
    if blocked is None:
        return at_least(name, passed, "level 2 was not found, so no line could be kept there", "loads")
    if not blocked.in_level_two:
        return at_least(name, passed, "a line didn't stay in level 2; run again at a quieter time", "blocked")
    method = "a hit in level 2 behind misses has to wait"
    step = blocked.stairs.step
    if loads.step and certain(loads.step) and _waits_at_jump(loads.step, blocked.stairs):
        why = f"{method} when so many are in flight as loads can be"
        return measured(name, loads.step.last, loads.step, 0, why, "blocked")
    if step is None:
        free = max(passed, _never_waited(blocked))
        return at_least(name, free, "a hit in level 2 behind misses never had to wait suddenly", "blocked")
    if not certain(step):
        why = f"a hit in level 2 has to wait behind {step.low + 1} to {step.high + 1} misses"
        return at_least(name, passed, why + "; run again at a quieter time", "blocked")
    if step.last + 1 < passed:
        why = f"a hit in level 2 waits behind {step.last + 1} misses, but not for an entry"
        return at_least(name, passed, why, "blocked")
    if _free(blocked.stairs) < step.last:
        why = "the more misses, the longer a hit in level 2 behind them takes, and no number stands out"
        return at_least(name, passed, why, "blocked")
    return measured(name, step.last + 1, step, 1, method, "blocked")


def _free(blocked: Staircase) -> int:
    """The number of misses up to which a hit behind them does not wait."""
    numbers, times = blocked.curve()
    # a larger number undercuts a time that was disturbed
    free = np.minimum.accumulate(times[::-1])[::-1] <= FREE_SHARE * blocked.unit
    return int(numbers[free].max(initial=0))


def _never_waited(blocked: Blocked) -> int:
    """Entries that level 1 has at least, as a hit behind one miss less did not wait, nor behind any fewer. Only misses
    count behind which a wait would have shown: one slow measurement may hide it, and must not become a bound."""
    numbers, times = blocked.stairs.curve()
    waits = (times > FREE_SHARE * blocked.stairs.unit) | (numbers > blocked.shows_up_to)
    before = numbers[: int(np.argmax(waits))] if waits.any() else numbers
    return int(before.max(initial=-1)) + 1


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


def fills_first(evidence: Evidence) -> Filling | str:
    """How one thread can take all entries of level 1; or why it is not known."""
    if evidence.blocked is None or not evidence.blocked.in_level_two:
        return "no line was kept in level 2, so none can be asked for there"
    demand = _l1_demand(evidence)
    if demand.outcome is Outcome.MEASURED and isinstance(demand.value, int) and demand.value > 1:
        return Filling("", demand.value, evidence.loads.unit)
    own = _lacking(evidence, "l1")
    return own or "the number of entries is not known, and no prefetch was seen to lack one"


def fills_second(evidence: Evidence, threads: int) -> Filling | str:
    """How one thread can take all entries of level 2 with prefetches, of which one more waits or is dropped; or why
    there are none."""
    private = siblings.first_shared(evidence.beside).value is False
    own = _lacking(evidence, "l2")
    if own is not None and _second_limits(evidence, own.entries, threads, private):
        return own
    if private and (any_hint := own or _lacking(evidence, "l1")) is not None:
        return replace(any_hint, maybe_first=True)
    if own is None:
        return "no prefetch was seen to lack an entry of this level"
    return "what limits level-2 prefetches may be level 1"


def _second_limits(evidence: Evidence, entries: int, threads: int, private: bool) -> bool:
    """Whether it is level 2 that has just so many `entries` for prefetches, and not level 1, which they may need as
    well: more than level 1 has for prefetches; or as many as loads find, where a hit in level 2 finds more."""
    demand, loads, first = _l1_demand(evidence), evidence.loads.step, _lacking(evidence, "l1")
    passed = demand.value if demand.outcome is Outcome.MEASURED and isinstance(demand.value, int) else None
    if entries > (first.entries if first is not None else passed or entries):
        return True
    if passed is None or passed <= entries or loads is None or not certain(loads) or loads.last != entries:
        return False
    # beside others, a thread's share of a shared level 1 must not run out where its share of level 2 does
    return private or passed // threads > entries // threads + NEXT_TO


def _lacking(evidence: Evidence, level: str) -> Filling | None:
    """Prefetches into `level` of which one more than there are entries waits, or else is dropped."""
    return _waiting(evidence, level) or _dropping(evidence, level)


def _waiting(evidence: Evidence, level: str) -> Filling | None:
    for own in evidence.prefetching:
        step = own.phase.step if own.phase else None
        if own.fills == level and step is not None and certain(step) and step.last > 1:
            return Filling(own.hint, step.last, step.height, own.escorted)
    return None


def _dropping(evidence: Evidence, level: str) -> Filling | None:
    """Prefetches that are lost where `level` has no entry left. Those before hold all entries just as well."""
    for own in evidence.prefetching:
        step = own.kept.step if own.kept and dropped_when_full(own) else None
        if own.fills == level and step is not None and certain(step) and step.last > 1:
            return Filling(own.hint, step.last, step.height, own.escorted, dropped=True)
    return None
