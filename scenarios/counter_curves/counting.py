"""Counting one piece of work under several roles: in as many runs as there are groups of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from setebench.counters.metrics import Measurement
from setebench.counters.protocol import LARGEST_COUNT, Count, CountsEvents
from setebench.errors import UnsupportedError
from setebench.machine import Ticks
from setebench.scenario import Context


def countable(context: Context, roles: Sequence[str]) -> tuple[str, ...]:
    """Those of the roles that the machine can count.

    Raises `UnsupportedError` where it can count none of them."""
    machine = context.machine
    if not isinstance(machine, CountsEvents):
        raise UnsupportedError(f"{machine.facts.name} counts no events")
    offered = machine.event_roles()
    found = tuple(role for role in roles if offered.get(role, "missing") == "")
    if not found:
        why = next((offered[role] for role in roles if offered.get(role)), "it knows no event for them")
        raise UnsupportedError(f"{machine.facts.name} can count none of {', '.join(roles)}: {why}")
    return found


def counted(context: Context, roles: Sequence[str], run: Callable[[], Ticks]) -> tuple[dict[str, Count], list[Ticks]]:
    """Counts of these roles over one `run` each, and the ticks of the runs. The work is the same in all of them."""
    machine = context.machine
    assert isinstance(machine, CountsEvents)
    counts: dict[str, Count] = {}
    ticks = []
    for group in machine.event_groups(roles):
        with machine.count_events(group) as counting:
            ticks.append(run())
            counts |= {role: count for role, count in counting.read().items() if role in group}
    return {role: _whole(count) for role, count in counts.items()}, ticks


def _whole(count: Count) -> Count:
    """A count that wrapped is none."""
    if count.value is None or 0 <= count.value < LARGEST_COUNT:
        return count
    return Count(role=count.role, reason=f"{count.role} wrapped")


def number(counts: dict[str, Count], role: str) -> float | None:
    """A count as a number; None where there is none, or where it had its counter for a part of the time."""
    objection = Measurement(counts=counts, seconds=1.0).objection(role)
    return None if objection else float(counts[role].value or 0)
