"""Events by the names that users ask for: roles, events of PMUs, what the kernel itself counts."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from setebench.counters.roles import ROLES, Scope
from setebench.errors import UnsupportedError, UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native.perf.attributes import Attributes, Type
from setebench.native.perf.encode import Encoder, plan_of
from setebench.native.perf.messages import Request, Situation, explain, read_situation
from setebench.native.perf.plans import SYSTEM_EVENTS, SYSTEM_PLANS, Plan, countable
from setebench.native.perf.sysfs import core_pmus
from setebench.native.perf.tables import events_for, why_none

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


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be asked for, its meaning, and the `reason` why it can't be counted here; "" where it can."""

    wanted: Wanted
    meaning: str
    reason: str = ""


class Resolver:
    """Events of the processor that a tree of system files describes (default: this one), by its table where there is
    one, and by the kernel's names and formats."""

    def __init__(self, tree: Tree | None = None, situation: Situation | None = None) -> None:
        tree = tree or Tree(Path("/"))
        self.situation = situation or read_situation(tree)
        self._processor = read_processor(tree)
        self._specs = events_for(self._processor)
        self._encoder = Encoder(self.situation.pmus, self._specs)

    def named(self, names: Sequence[str]) -> tuple[Wanted, ...]:
        """What is to be counted under each name, in their order, each name once.

        Raises `UsageError` for names that are neither roles nor events, for none, and for more than `MOST_EVENTS`."""
        once = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        if not once:
            raise UsageError("no event is named; see 'setebench counters list'")
        if len(once) > MOST_EVENTS:
            raise UsageError(f"{len(once)} events are asked for at once; at most {MOST_EVENTS} can be")
        return tuple(self.of_role(name) if name in ROLES else self.of_text(name) for name in once)

    def of_role(self, name: str) -> Wanted:
        """The event that plays a role; a plan with a reason where there is none."""
        role, spec = ROLES[name], self._specs.get(name)
        if name in SYSTEM_PLANS:
            text = f"software/{SYSTEM_EVENTS[name].name.lower().replace('_', '-')}/"
            return Wanted(name=name, event=text, unit=role.unit, plan=SYSTEM_PLANS[name])
        if not core_pmus(self.situation.pmus):
            no_pmu = explain(errno.ENOENT, Request(attributes=Attributes(type=Type.RAW)), self.situation)
            plan = Plan(role=name, reason=no_pmu)
        elif spec is None:
            plan = Plan(role=name, reason=why_none(self._processor, name))
        else:
            plan = plan_of(name, spec, self.situation.pmus)
        event, scope = (spec.text, spec.scope) if spec else ("", role.scope)
        return Wanted(name=name, event=event, unit=role.unit, scope=scope, plan=plan)

    def of_text(self, text: str) -> Wanted:
        """The event that `text` names (`cpu/event=0x48,umask=0x1/`, `r0148`, a name that the kernel lists).

        Raises `UsageError` for text that names none."""
        try:
            encoded = self._encoder.encode(text)
        except UnsupportedError as error:
            return Wanted(name=text, event=text, plan=Plan(role=text, reason=str(error)))
        plan = Plan(role=text, terms=encoded.terms)
        scope = Scope.THREAD if all(term.cpus is None for term in encoded.terms) else Scope.SOCKET
        return Wanted(name=text, event=text, unit=encoded.unit or "events", scope=scope, plan=plan)

    def offers(self, everything: bool) -> Iterator[Offer]:
        """What this machine offers: every role, and with `everything` also the events that its kernel names. Opens each
        event and closes it again; counts nothing."""
        found = [(self.of_role(role.name), role.meaning) for role in ROLES.values()]
        for pmu in self.situation.pmus.values() if everything else ():
            for name, event in pmu.events.items():
                found.append((self.of_text(f"{pmu.name}/{name}/"), f"named by the kernel: {event.text}"))
        for wanted, meaning in found:
            yield Offer(wanted=wanted, meaning=meaning, reason=countable(wanted.plan, self.situation).reason)


def split_names(text: str) -> list[str]:
    """Names in a list with commas; those within the slashes of an event are its own: `cycles,cpu/event=1,umask=2/`.

    Raises `UsageError` for a slash without its fellow."""
    names = [name.strip() for name in _NAME.findall(text) if name.strip()]
    if "".join(",".join(names).split()) != "".join(text.strip(", ").split()):
        raise UsageError(f"{text!r} is no list of events: a slash or a comma too many or too few")
    return names
