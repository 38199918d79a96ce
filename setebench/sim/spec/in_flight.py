"""How many misses a machine can have in flight, as its file says."""

from __future__ import annotations

from setebench.sim import spec


def demand_in_flight(machine: spec.Machine, number: int) -> int:
    """Most misses of level `number` (1 or 2) that one thread's loads can have in flight."""
    core = machine.core
    if core.blocking_load:
        return 1
    limits = [level.mshr_demand_limit or level.mshr_entries for level in machine.levels[:number]]
    return min(limit for limit in (*limits, core.load_queue, core.reorder_window) if limit)


def prefetches_in_flight(machine: spec.Machine, number: int) -> int | None:
    """Most misses of level `number` (1 or 2) that one thread's software prefetches can have in flight, over all hints;
    0 where nothing limits them, None where no hint reaches the level."""
    ways = _through_first(machine, number)
    if not ways:
        return None
    if machine.core.blocking_prefetch:
        return 1
    first, second = (level.mshr_prefetch_limit or level.mshr_entries for level in machine.levels[:2])
    limits = [[first]] if number == 1 else [[second, first * through] for through in ways]
    most = [min(filter(None, each), default=0) for each in limits]
    return 0 if 0 in most else max(most)


def what_hides_demand(machine: spec.Machine, number: int) -> str:
    """What lets no more misses of one thread's loads come to level `number` (1 or 2) than it has entries for, so that
    their number doesn't show; "" where it does. Loads that wait for each other are one at a time, which shows."""
    core = machine.core
    if core.blocking_load:
        return ""
    first, own = (
        machine.levels[index].mshr_demand_limit or machine.levels[index].mshr_entries for index in (0, number - 1)
    )
    if own == 0 or own >= min(core.load_queue, core.reorder_window):
        return "the load queue or the reorder window"
    return "level 1" if number == 2 and 0 < first <= own else ""


def what_hides_prefetches(machine: spec.Machine, number: int) -> str:
    """The same of software prefetches: level 1, where no hint gets past it and it has no more entries for them."""
    first, own = (level.mshr_prefetch_limit or level.mshr_entries for level in machine.levels[:2])
    hides = number == 2 and False not in _through_first(machine, 2) and first > 0 and (first <= own or own == 0)
    return "level 1" if hides and not machine.core.blocking_prefetch else ""


def sharing_shows(machine: spec.Machine, number: int) -> bool:
    """Whether it makes a difference to the threads of a core if they share the miss entries of level `number` (1 or 2):
    together they must be able to have more requests there than it has entries. What comes to level 2 by way of an entry
    of level 1, which they share, is no more than there are of those."""
    first, own = machine.levels[0], machine.levels[number - 1]
    each = max(demand_in_flight(machine, number), prefetches_in_flight(machine, number) or 0)
    together = machine.core.threads_per_core * each
    if number == 2 and first.mshr_shared_by_smt and False not in _through_first(machine, 2):
        together = min(together, first.mshr_entries or together)
    return together > own.mshr_entries > 0


def _through_first(machine: spec.Machine, number: int) -> set[bool]:
    """Of the hints whose lines reach level `number`, whether they take an entry of level 1."""
    every = machine.software_prefetch.lower_hint_takes_l1_entry
    reaching = (hint for hint in machine.software_prefetch.hints.values() if hint.fills in ("l1", "l2")[:number])
    return {every or hint.fills == "l1" for hint in reaching}


def working_hints(machine: spec.Machine) -> dict[str, spec.Hint]:
    """The software-prefetch hints that do something."""
    return {name: hint for name, hint in machine.software_prefetch.hints.items() if hint.fills != "none"}
