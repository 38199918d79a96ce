"""How many misses a machine can have in flight, as its file says."""

from __future__ import annotations

from setebench.sim import spec


def demand_in_flight(machine: spec.Machine, number: int) -> int:
    """Most misses of level `number` (1 or 2) that one thread's loads can have in flight."""
    core = machine.core
    if core.blocking_load:
        return 1
    limits = [_entries(level, level.mshr_demand_limit) for level in machine.levels[:number]]
    return min(limit for limit in (*limits, core.load_queue, core.reorder_window) if limit)


def prefetches_in_flight(machine: spec.Machine, number: int) -> int | None:
    """Most misses of level `number` (1 or 2) that one thread's software prefetches can have in flight, over all hints;
    0 where nothing limits them, None where no hint reaches the level."""
    found = [_hint_in_flight(machine, hint, number) for hint in working_hints(machine).values()]
    known = [entries for entries in found if entries is not None]
    if not known:
        return None
    if machine.core.blocking_prefetch:
        return 1
    return 0 if 0 in known else max(known)


def what_hides_demand(machine: spec.Machine, number: int) -> str:
    """What lets no more misses of one thread's loads come to level `number` (1 or 2) than it has entries for, so that
    their number doesn't show; "" where it does. Loads that wait for each other are one at a time, which shows."""
    core, first, own = machine.core, machine.levels[0], machine.levels[number - 1]
    if core.blocking_load:
        return ""
    entries = _entries(own, own.mshr_demand_limit)
    if entries == 0 or entries >= min(core.load_queue, core.reorder_window):
        return "the load queue or the reorder window"
    if number == 2 and 0 < _entries(first, first.mshr_demand_limit) <= entries:
        return "level 1"
    return ""


def what_hides_prefetches(machine: spec.Machine, number: int) -> str:
    """The same of software prefetches: level 1, where no hint gets past it and it has no more entries for them."""
    prefetch, first = machine.software_prefetch, machine.levels[0]
    levels = {hint.fills for hint in working_hints(machine).values()}
    past_first = "l2" in levels and not prefetch.lower_hint_takes_l1_entry
    own = machine.levels[1]
    entries, before = _entries(own, own.mshr_prefetch_limit), _entries(first, first.mshr_prefetch_limit)
    hides = number == 2 and not past_first and before > 0 and (before <= entries or entries == 0)
    return "level 1" if hides and not machine.core.blocking_prefetch else ""


def sharing_shows(machine: spec.Machine, number: int) -> bool:
    """Whether it makes a difference to the threads of a core if they share the miss entries of level `number` (1 or 2):
    together they must be able to have more requests there than it has entries. What comes to level 2 by way of an entry
    of level 1, which they share, is no more than there are of those."""
    first, own, prefetch = machine.levels[0], machine.levels[number - 1], machine.software_prefetch
    each = max(demand_in_flight(machine, number), prefetches_in_flight(machine, number) or 0)
    together = machine.core.threads_per_core * each
    past_first = any(hint.fills == "l2" for hint in prefetch.hints.values()) and not prefetch.lower_hint_takes_l1_entry
    if number == 2 and first.mshr_shared_by_smt and not past_first:
        together = min(together, first.mshr_entries or together)
    return together > own.mshr_entries > 0


def _hint_in_flight(machine: spec.Machine, hint: spec.Hint, number: int) -> int | None:
    if hint.fills not in ("l1", "l2")[:number]:
        return None
    first, second = (_entries(level, level.mshr_prefetch_limit) for level in machine.levels[:2])
    takes_first = hint.fills == "l1" or machine.software_prefetch.lower_hint_takes_l1_entry
    limits = [first] if number == 1 else [second, first if takes_first else 0]
    return min((limit for limit in limits if limit), default=0)


def _entries(level: spec.Level, limit: int) -> int:
    """Entries of a miss queue for one cause; 0 = no limit."""
    return limit or level.mshr_entries


def working_hints(machine: spec.Machine) -> dict[str, spec.Hint]:
    """The software-prefetch hints that do something."""
    return {name: hint for name, hint in machine.software_prefetch.hints.items() if hint.fills != "none"}
