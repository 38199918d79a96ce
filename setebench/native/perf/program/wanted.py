"""Events by the names that users ask for: roles, events of PMUs, what the kernel itself counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from setebench.counters.roles import ROLES, Scope
from setebench.errors import UsageError
from setebench.native.perf.attributes import Software
from setebench.native.perf.plans import SYSTEM_PLANS, Plan

MOST_EVENTS = 16
"""Asked for at once: as many as a program that marks regions has room for (`setebench.h`). No PMU counts as many."""


_NAME = re.compile(r"(?:mem:0x[0-9a-fA-F]+/\d|[^,/]|/[^/]*/)+")
"""One event of a list. A breakpoint's length follows a single slash (`mem:0x7f00/8:w`)."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be counted under `name`: the sum of the terms of `plan`. `event` is its text for people."""

    name: str
    plan: Plan
    event: str = ""
    unit: str = "events"
    scope: Scope = Scope.THREAD

    @property
    def of_threads(self) -> bool:
        """Whether its events follow threads, rather than counting whatever runs on some CPUs."""
        return all(term.cpus is None for term in self.plan.terms)


class Resolver(Protocol):
    """What knows the events of this CPU."""

    def of_role(self, name: str) -> Wanted:
        """The event that plays a role which needs a PMU; a plan with a reason where there is none."""
        ...

    def of_text(self, text: str) -> Wanted:
        """The event that `text` names (`cpu/event=0x48,umask=0x1/`, `r0148`, a name that the kernel lists).

        Raises `UsageError` for text that names none."""
        ...


def wanted(names: Sequence[str], resolver: Resolver) -> tuple[Wanted, ...]:
    """What is to be counted under each name, in their order, each name once.

    Raises `UsageError` for names that are neither roles nor events, for none, and for more than `MOST_EVENTS`."""
    once = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not once:
        raise UsageError("no event is named; see 'setebench counters list'")
    if len(once) > MOST_EVENTS:
        raise UsageError(f"{len(once)} events are asked for at once; at most {MOST_EVENTS} can be")
    return tuple(_of_name(name, resolver) for name in once)


def _of_name(name: str, resolver: Resolver) -> Wanted:
    if name in SYSTEM_PLANS:
        return system_event(name)
    return resolver.of_role(name) if name in ROLES else resolver.of_text(name)


def system_event(role: str) -> Wanted:
    """The kernel's own event of a role in `SYSTEM_PLANS`."""
    plan = SYSTEM_PLANS[role]
    config = Software(plan.terms[0].attributes.config)
    text = f"software/{config.name.lower().replace('_', '-')}/"
    return Wanted(name=role, event=text, unit=ROLES[role].unit, plan=plan)


def split_names(text: str) -> list[str]:
    """Names in a list with commas; those within the slashes of an event are its own: `cycles,cpu/event=1,umask=2/`.

    Raises `UsageError` for a slash without its fellow."""
    names = [name.strip() for name in _NAME.findall(text) if name.strip()]
    if "".join(",".join(names).split()) != "".join(text.strip(", ").split()):
        raise UsageError(f"{text!r} is no list of events: a slash or a comma too many or too few")
    return names
