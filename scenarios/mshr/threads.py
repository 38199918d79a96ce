"""What the threads of a core take from each other's entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.experiments.bursts.bursts import Times
from setebench.experiments.bursts.of_threads import Filling, threads_of_core
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.jump import calm_level

from .curves import Curves
from .demand import Behind, levels_off
from .findings import Evidence, l1_demand
from .params import Params


@dataclass(frozen=True)
class Together:
    """How the time in which prefetches set out, or in which their lines are loaded later, rises on `threads` siblings
    at once: where each sends its part of what one thread alone can have in flight (`at_part`), and where each sends
    all of that (`at_all`). `height` is the rise of one thread alone. All in cycles, of the slowest thread.
    `maybe_first` as in `Filling`."""

    threads: int
    height: float
    at_part: float
    at_all: float
    maybe_first: bool = False


@dataclass(frozen=True)
class Beside:
    """By how many cycles a hit in level 2 is slower while another thread keeps all entries of level 1 busy than while
    that has one miss under way; how long a miss takes (`unit`); how long, when all is over, a load of a line that the
    other thread asked for (`later`); and, where it asks by prefetches, by how much the same of the thread's own slow
    the hit down (`own`): they may be limited to a part of the entries."""

    delay: float
    unit: float
    later: float = 0.0
    own: float = math.inf


@dataclass(frozen=True)
class Siblings:
    """What was seen of the threads of a core, or why it was not asked; `one_thread`: there is nothing to share."""

    one_thread: bool = True
    beside: Beside | str = "not asked"
    together: Together | str = "not asked"

    def findings(self, levels: tuple[str, ...], params: Params) -> list[Finding]:
        """Whether the threads draw on one pool of each level's entries."""
        if self.one_thread:
            why = "no other thread of the same core can be used here"
            return [decide.unavailable(f"mshr.{level}.shared_by_smt", "bool", why) for level in levels]
        both = {"l1": first_shared(self.beside, params), "l2": second_shared(self.together, params)}
        return [both[level] for level in levels]


def ask_threads(curves: Curves, evidence: Evidence, levels: tuple[str, ...]) -> Siblings:
    """What the threads of a core take from each other, after all that one thread alone shows."""
    cpus = threads_of_core(curves.context.machine.facts, curves.context.cpu)
    if len(cpus) < 2:
        return Siblings()
    curves.context.progress("threads of a core together")
    curves.bursts.refresh()
    beside = _beside(curves, evidence, cpus)
    if "l2" not in levels:
        return Siblings(False, beside)
    private = first_shared(beside, curves.params).value is False
    limit = fills_second(evidence, 1 if private else len(cpus), _hints_of_second(curves, evidence), curves.params)
    return Siblings(False, beside, limit if isinstance(limit, str) else _together(curves, limit, cpus))


# -- level 1: a hit of one thread beside misses of another -------------------------------------------------------------


def _beside(curves: Curves, evidence: Evidence, cpus: Sequence[int]) -> Beside | str:
    """The hit of one thread beside another's misses, or why it isn't asked for. A hit in level 1 would wait for
    nothing, one further out for what level 2 lacks; and what the other thread's lines push out may be the line. It sets
    out in the middle of a miss: the other thread's have set out by then, and none is done."""
    filling, behind = fills_first(evidence, curves.params), evidence.demand.behind
    if isinstance(filling, str):
        return filling
    wait, params = int(curves.params.half * curves.memory), curves.params

    def near(size: float) -> Times:
        return curves.bursts.hit_beside(1, filling, cpus, wait, size)[:, 0]

    if behind is None or levels_off(curves, near, behind.evictor_bytes) != 0:
        return "beside another thread a line didn't stay in level 2; run again at a quieter time"
    found: dict[int, list[Times]] = {1: [], params.fills * filling.entries: []}
    for _ in range(params.beside_rounds):
        for count, times in found.items():
            times.append(curves.bursts.hit_beside(count, filling, cpus, wait, behind.evictor_bytes))
    one, many = (np.concatenate(each) for each in found.values())
    own = _delay_behind(curves, filling, behind) if filling.hint else math.inf
    return Beside(calm_level(many[:, 0]) - calm_level(one[:, 0]), curves.memory, calm_level(many[:, 1]), own)


def _delay_behind(curves: Curves, own: Filling, behind: Behind) -> float:
    """By how many cycles a hit in level 2 is slower behind as many prefetches as can be in flight than behind one."""
    times: dict[int, list[Times]] = {1: [], own.entries: []}
    for _ in range(curves.params.beside_rounds):
        for count, each in times.items():
            each.append(curves.bursts.hit_behind(count, 1, behind.evictor_bytes, own.hint))
    one, many = (calm_level(np.concatenate(each)) for each in times.values())
    return many - one


def fills_first(evidence: Evidence, params: Params) -> Filling | str:
    """How one thread can take all entries of level 1; or why it is not known."""
    behind = evidence.demand.behind
    if behind is None or not behind.in_level_two:
        return "no line was kept in level 2, so none can be asked for there"
    entries = _measured(evidence, params)
    if entries is not None and entries > 1:
        return Filling("", entries, evidence.demand.loads.curve.unit)
    own = _lacking(evidence, "l1", params)
    return own or "the number of entries is not known, and no prefetch was seen to lack one"


def first_shared(found: Beside | str, params: Params) -> Finding:
    """Whether level 1's pool is shared; a text says why that was not asked."""
    name = "mshr.l1.shared_by_smt"
    if isinstance(found, str):
        return decide.unresolved(name, "bool", found)
    method = "a hit in level 2 of one thread while another keeps as many misses under way as it can"
    if found.delay > params.waits * found.unit:
        return decide.chosen(name, True, "bool", f"{method} has to wait", "siblings")
    if found.later > params.half * found.unit:
        why = "another thread's prefetches left no lines, so they may have held nothing; run again"
        return decide.unresolved(name, "bool", why)
    if found.own <= params.waits * found.unit:
        return decide.unresolved(name, "bool", "prefetches leave entries to loads of the same thread, too")
    if found.delay < params.free * found.unit:
        return decide.chosen(name, False, "bool", f"{method} does not wait", "siblings")
    return decide.unresolved(name, "bool", f"{method} waits a little, but not for a miss; run again")


# -- level 2: prefetches of all threads at once ------------------------------------------------------------------------


def _together(curves: Curves, filling: Filling, cpus: Sequence[int]) -> Together:
    """Prefetches of all threads, on either side of where a shared pool runs out, and of where private ones do."""
    last, next_to = filling.entries, curves.params.next_to
    part = last // len(cpus)
    around = (max(part - 1, 1), part + next_to), (last - 1, last + next_to)
    numbers = sorted({number for pair in around for number in pair})
    samples: dict[int, list[Times]] = {number: [] for number in numbers}
    for _ in range(curves.params.thread_rounds):
        for number in curves.rng.permutation(numbers):
            samples[int(number)].append(curves.bursts.together(int(number), filling, cpus))
    at_part, at_all = (calm_level(np.stack(samples[more])) - calm_level(np.stack(samples[few])) for few, more in around)
    return Together(len(cpus), filling.height, at_part, at_all, filling.maybe_first)


def _hints_of_second(curves: Curves, evidence: Evidence) -> set[str]:
    """Hints whose prefetches take no entry of level 1: a hit in level 2 does not wait behind as many as can be in
    flight. What limits them is level 2."""
    behind, own = evidence.demand.behind, _lacking(evidence, "l2", curves.params)
    if own is None or behind is None or not behind.in_level_two:
        return set()
    return {own.hint} if _delay_behind(curves, own, behind) < curves.params.free * curves.memory else set()


def fills_second(evidence: Evidence, sharing: int, of_second: set[str], params: Params) -> Filling | str:
    """How one thread can take all entries of level 2 with prefetches, of which one more waits or is dropped; or why
    there are none. So many threads are `sharing` level 1's entries; hints `of_second` take none of those."""
    own = _lacking(evidence, "l2", params)
    if own is not None and (own.hint in of_second or _second_limits(evidence, own.entries, sharing, params)):
        return own
    if sharing == 1 and (any_hint := own or _lacking(evidence, "l1", params)) is not None:
        return replace(any_hint, maybe_first=True)
    if own is None:
        return "no prefetch was seen to lack an entry of this level"
    return "what limits level-2 prefetches may be level 1"


def _second_limits(evidence: Evidence, entries: int, threads: int, params: Params) -> bool:
    """Whether it is level 2 that has just so many `entries` for prefetches, and not level 1, which they may need as
    well: more than level 1 has for prefetches; or as many as loads find, where a hit in level 2 finds more. `threads`
    share level 1's: a thread's part of those must not run out where its part of level 2's does."""
    passed, loads, first = _measured(evidence, params), evidence.demand.loads, _lacking(evidence, "l1", params)
    if entries > (first.entries if first is not None else passed or entries):
        return True
    if passed is None or passed <= entries or not loads.certain or loads.last != entries:
        return False
    return threads == 1 or passed // threads > entries // threads + params.next_to


def second_shared(found: Together | str, params: Params) -> Finding:
    """Whether level 2's pool is shared; a text says why that was not asked."""
    name = "mshr.l2.shared_by_smt"
    if isinstance(found, str):
        return decide.unresolved(name, "bool", found)
    threads = f"prefetches of {found.threads} threads"
    if found.at_part > params.half * found.height:
        how = f"{threads} run out as soon as all of them together hold as many as one alone can"
        return decide.chosen(name, True, "bool", how, "siblings")
    if found.maybe_first:
        why = "one thread alone may run out of level 1, so that level 2 may have enough for several and yet be shared"
        return decide.unresolved(name, "bool", why)
    if found.at_part < params.private * found.height < found.at_all:
        how = f"{threads} each have as many in flight as one alone"
        return decide.chosen(name, False, "bool", how, "siblings")
    why = f"{found.threads} threads at once run out a little earlier than one, but not as of a shared pool; run again"
    return decide.unresolved(name, "bool", why)


# -- what one thread alone shows ---------------------------------------------------------------------------------------


def _measured(evidence: Evidence, params: Params) -> int | None:
    demand = l1_demand(evidence, params)
    return demand.value if demand.outcome == "measured" and isinstance(demand.value, int) else None


def _lacking(evidence: Evidence, level: str, params: Params) -> Filling | None:
    """Prefetches into `level` of which one more than there are entries waits, or else is dropped: those before hold all
    entries just as well."""
    for dropped in (False, True):
        for own in evidence.prefetching:
            asked = own.kept if dropped and own.dropped_when_full(params) else None if dropped else own.phase
            if own.fills == level and asked is not None and asked.certain and asked.last > 1:
                return Filling(own.hint, asked.last, asked.curve.height, own.warmed, dropped)
    return None
