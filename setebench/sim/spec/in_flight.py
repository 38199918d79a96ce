"""How many misses a machine can have in flight, as its file says."""

from __future__ import annotations

from setebench.sim import spec


def demand_in_flight(machine: spec.Machine, number: int) -> tuple[int, str]:
    """Most misses of level `number` (1 or 2) that one thread's loads can have in flight, and what lets no more come
    there than the level has entries for, so that their number doesn't show ("" where it does: loads that wait for each
    other are one at a time, which shows)."""
    core = machine.core
    if core.blocking_load:
        return 1, ""
    entries = [level.mshr_demand_limit or level.mshr_entries for level in machine.levels[:number]]
    queue = min(core.load_queue, core.reorder_window)
    by = "level 1" if number == 2 and 0 < entries[0] <= entries[1] else ""
    if not 0 < entries[-1] < queue:
        by = "the load queue or the reorder window"
    return min(limit for limit in (*entries, queue) if limit), by


def prefetches_in_flight(machine: spec.Machine, number: int) -> tuple[int | None, str]:
    """The same of software prefetches, over all hints: 0 where nothing limits them, None where no hint reaches the
    level. Level 1 hides the entries of level 2 where no hint gets past it and it has no more entries for them."""
    through = _through_first(machine, number)
    if not through or machine.core.blocking_prefetch:
        return 1 if through else None, ""
    first, second = (level.mshr_prefetch_limit or level.mshr_entries for level in machine.levels[:2])
    if number == 1:
        return first, ""
    most = [min(filter(None, (second, first * each)), default=0) for each in through]
    hidden = False not in through and first > 0 and (first <= second or second == 0)
    return 0 if 0 in most else max(most), "level 1" if hidden else ""


def sharing_shows(machine: spec.Machine, number: int) -> bool:
    """Whether it makes a difference to the threads of a core if they share the miss entries of level `number` (1 or 2):
    together they must be able to have more requests there than it has entries. What comes to level 2 by way of an entry
    of level 1, which they share, is no more than there are of those."""
    first, own = machine.levels[0], machine.levels[number - 1]
    each = max(demand_in_flight(machine, number)[0], prefetches_in_flight(machine, number)[0] or 0)
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
