"""Findings of miss queues: which level's queue a jump belongs to, and when its entries are only a lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.jump import Jump

from .ask import HITS, Evidence, Prefetching, entries, taken
from .params import Params

UNIT, QUIETER = "entries", "run again at a quieter time"
HIDDEN = "hidden by what lies before level 1: a hit there waits behind so many loads, too"


def findings(evidence: Evidence, levels: tuple[str, ...], params: Params) -> Iterator[Finding]:
    """Yield the entries of the miss queues of `levels` (l1, l2) for loads and prefetches, by a thread's `evidence`."""
    both = {"l1": (l1_demand, l1_prefetch), "l2": (l2_demand, l2_prefetch)}
    for level in levels:
        for find in both[level]:
            yield _unless_taken(find(evidence, params), evidence, params)


def _unless_taken(found: Finding, evidence: Evidence, params: Params) -> Finding:
    """Return the finding, as a bound where a co-runner was seen or other requests found a few more entries."""
    if found.outcome is not Outcome.MEASURED or not isinstance(found.value, int):
        return found
    others = evidence.counts
    if taken(found.value, others, params):
        why = f"other requests find {max(others)}, so a co-runner may hold entries; {QUIETER}"
        return _at_least(found.parameter, found.value, why, found.evidence)
    if evidence.disturbed <= params.disturbed:
        return found
    co_runner = f"another thread of this core, maybe unseen by this system, ran beside {evidence.disturbed:.0%} of all"
    # a co-runner takes entries, and may delay a burst until its first entries are free again
    least = min([int(found.low or 1), *(count for count in others if count > 0)])
    return _at_least(found.parameter, least, f"{co_runner} bursts; {QUIETER}", found.evidence)


def _measured(parameter: str, jump: Jump, method: str, evidence: str, more: int = 0) -> Finding:
    """Return the number of requests before a jump, plus `more`, as entries; a lower bound where rounds disagree."""
    assert jump.last is not None
    low, high = jump.low + more, jump.high + more
    if not jump.certain:
        return _at_least(parameter, low, f"{method}: rounds say {low} to {high}; {QUIETER}", evidence)
    if jump.last + more < 1:
        return decide.unresolved(parameter, UNIT, f"{method}, and so does the first one: it does nothing for a while")
    found = Interval(jump.last + more, max(low, 1), high)
    return decide.measured(parameter, found, UNIT, method, evidence)


def _at_least(parameter: str, value: int, why: str, evidence: str) -> Finding:
    if value < 1:
        return decide.unresolved(parameter, UNIT, why)
    return decide.backed(decide.at_least(parameter, value, UNIT, why), evidence)


def in_flight(times: Mapping[int, float], params: Params) -> int:
    """Return how many misses were certainly in flight at once, even without a jump, by Little's law: n times the time
    of one miss, over the time of n together. `times` maps n to this time, in units; one miss takes the least."""
    least = min(times.values(), default=0.0)
    return int(max((params.certainly * number / (time - least + 1) for number, time in times.items()), default=0))


# -- loads -------------------------------------------------------------------------------------------------------------


def l1_demand(evidence: Evidence, params: Params) -> Finding:
    """Return L1's entries for loads: how many are in flight when a hit in L2 begins to wait for an entry of L1."""
    name, loads, hits, passed = "mshr.l1.demand", evidence.loads, evidence.hits, _loads_at_once(evidence.loads, params)
    found = entries(hits, HITS) if hits else 0
    how = "a hit in level 2 behind loads that miss has to wait, a hit in level 1 has not"
    if hits is None:
        why = "no evictors were found that leave a line in level 2"
    elif evidence.queue_before and (not found or found >= passed):
        why = HIDDEN
    elif not found:
        why = "a hit in level 2 behind misses never had to wait suddenly"
    elif found < min(passed, loads.low or passed) and loads.certain:
        why = f"a hit in level 2 waits behind {found} loads, but {loads.last} are in flight at once; {QUIETER}"
    elif evidence.alike:
        return _measured(name, loads, f"{how}, and loads have to wait behind as many", "blocked")
    else:
        return _measured(name, hits, how, "blocked", 1)
    return _at_least(name, passed, why, "loads")


def l2_demand(evidence: Evidence, params: Params) -> Finding:
    """Return L2's entries for loads: the number behind which the time of loads from memory jumps. A load from memory
    takes an entry of both levels, so this is L2's limit only where L1 has more entries, else a lower bound."""
    name, loads, hits, passed = "mshr.l2.demand", evidence.loads, evidence.hits, _loads_at_once(evidence.loads, params)
    first = entries(hits, HITS) if hits else 0
    if loads.last == 1 and loads.certain:
        return _measured(name, loads, "a load from memory waits for the one before", "loads")
    if loads.last is None:
        why = f"time never jumps up to {loads.most} loads"
    elif 0 < evidence.queue_before <= loads.last:
        why = HIDDEN
    elif hits is None:
        why = "hidden by level 1 as far as is known: no line was kept in level 2"
    elif 0 < first <= loads.last:
        why = f"hidden by level 1, which lets no more than {first} loads through"
    elif 0 < first <= loads.last + params.next_to:
        why = f"level 1 has {first}: a line that a prefetcher fetches meanwhile takes an entry of level 2"
    else:
        return _measured(name, loads, "time of loads from memory jumps, and level 1 has entries left", "loads")
    return _at_least(name, passed, why, "loads")


def _loads_at_once(loads: Jump, params: Params) -> int:
    """Return how many loads were certainly in flight at once: the number before the jump, or by Little's law."""
    if loads.last is None:
        return in_flight(loads.times, params)
    return loads.last if loads.certain else loads.low


# -- prefetches --------------------------------------------------------------------------------------------------------


def l1_prefetch(evidence: Evidence, params: Params) -> Finding:
    """Return L1's entries for prefetches: how many that fill L1 are in flight before the next waits or is dropped."""
    name, own = "mshr.l1.prefetch", filling(evidence, "l1")
    if own is None:
        return _no_hint(name, evidence)
    hint, out = own.burst.hint, own.set_out
    if out.last is None:
        return _unlimited(name, own, params)
    if out.last < 1:
        return decide.unresolved(name, UNIT, f"prefetches {hint} leave no line, or each waits; run again")
    return _measured(name, out, f"the next prefetch {hint} from memory waits, or is dropped", f"prefetch.{hint}.phase")


def l2_prefetch(evidence: Evidence, params: Params) -> Finding:
    """Return the finding of how many prefetches L2 has in flight at most, by a hint that fills L2 (else one that fills
    L1 through L2): the number behind which the next prefetch has to wait or, if that is less, the number behind which
    lines arrive later. It is a lower bound if L1 lets no more prefetches through."""
    name, first = "mshr.l2.prefetch", filling(evidence, "l1")
    own = filling(evidence, "l2") or first
    if own is None:
        return _no_hint(name, evidence)
    hint, out, there = own.burst.hint, own.set_out, own.there
    key = f"prefetch.{hint}.phase"
    if out.last is None:
        return _unlimited(name, own, params)
    if there.last is not None and there.high < out.low:
        late = f"lines of prefetches {hint} come a miss later, though the next sets out"
        return _measured(name, there, late, f"prefetch.{hint}.total")
    in_time = [number for number, time in there.times.items() if time - min(there.times.values()) < params.half]
    if max((number for number in in_time if number <= out.last), default=0) < params.in_time * out.last:
        why = f"the next prefetch {hint} waits behind {out.last}, but their lines come later than of so many at once"
        return _at_least(name, min(in_flight(there.times, params), out.low), why, f"prefetch.{hint}.total")
    limit = first.set_out if first is not None else None
    if out.last > 1 and (limit is None or limit.last is None or (limit.low <= out.high and out.low <= limit.high)):
        return _at_least(name, out.low, f"hidden by level 1, which lets no more prefetches {hint} through", key)
    return _measured(name, out, f"the next prefetch {hint} from memory waits, or is dropped", key)


def _unlimited(name: str, own: Prefetching, params: Params) -> Finding:
    """Return a bound where prefetches never had to wait: as many as certainly were in flight at once, of those numbers
    of which the last line had come long after. Where a CPU ignores a hint for seconds, a burst takes no time at all."""
    came = max((number for number, time in own.set_out.times.items() if time < params.half), default=0)
    why = f"no sign of a limit up to {own.set_out.most} prefetches {own.burst.hint}"
    return _at_least(name, min(came, in_flight(own.there.times, params)), why, f"prefetch.{own.burst.hint}.phase")


def filling(evidence: Evidence, level: str) -> Prefetching | None:
    """Return what `evidence` has on a prefetch hint that fills this level, None where no hint does."""
    return next((own for own in evidence.prefetching if own.level == level), None)


def _no_hint(name: str, evidence: Evidence) -> Finding:
    fills = ", ".join(f"{hint}: {level}" for hint, level in evidence.fills.items()) or "this machine has no hints"
    level = "level 1" if "l1" in name else "level 1 or 2"
    return decide.unresolved(name, UNIT, f"no software prefetch is seen to fill {level} ({fills})")
