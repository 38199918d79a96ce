"""Counting one piece of work under several roles: which of them can be counted, and in as many runs as that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from setebench.counters.protocol import Count, CountsEvents
from setebench.counters.roles import ROLES, Quantity
from setebench.errors import UnsupportedError
from setebench.machine import Machine

Timed = TypeVar("Timed")


def hardware_roles(machine: Machine) -> dict[str, str]:
    """The roles that the machine knows an event of, but the kernel's own, each with "" or why it can't be counted.

    Raises `UnsupportedError` for a machine that counts no events."""
    if not isinstance(machine, CountsEvents):
        raise UnsupportedError(f"{machine.facts.name} counts no events")
    return {role: why for role, why in machine.event_roles().items() if ROLES[role].quantity is not Quantity.SYSTEM}


def countable(machine: Machine, roles: Iterable[str]) -> tuple[str, ...]:
    """Those of the roles that the machine can count. Raises `UnsupportedError` where it can count none of them."""
    wanted, offered = tuple(roles), hardware_roles(machine)
    found = tuple(role for role in wanted if offered.get(role, "missing") == "")
    if not found:
        why = next((offered[role] for role in wanted if offered.get(role)), "it has no hardware events")
        raise UnsupportedError(f"{machine.facts.name} can count none of these events: {why}")
    return found


def counted(
    machine: Machine, roles: Sequence[str], run: Callable[[], Timed], before: Callable[[], object] = lambda: None
) -> tuple[dict[str, Count], list[Timed]]:
    """Counts of these roles over one `run` for each group that fits at once, and what the runs return. The work, and
    what goes uncounted `before` it, must be the same in all of them."""
    assert isinstance(machine, CountsEvents)
    counts: dict[str, Count] = {}
    ticks = []
    for group in machine.event_groups(roles):
        before()
        with machine.count_events(group) as counting:
            ticks.append(run())
            found = counting.read()
        counts |= {role: found[role] for role in group}
    return counts, ticks
