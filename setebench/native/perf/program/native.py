"""This CPU's events by name, and counting programs on it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from setebench.counters.roles import ROLES, Scope
from setebench.errors import UnsupportedError
from setebench.host.processor import Processor, read_processor
from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Type
from setebench.native.perf.encode import Encoder, plan_of
from setebench.native.perf.messages import Request, Situation, explain, read_situation
from setebench.native.perf.plans import Plan
from setebench.native.perf.program.opened import Counters, Target, open_counters
from setebench.native.perf.program.run import Programs
from setebench.native.perf.program.wanted import Wanted, wanted
from setebench.native.perf.sysfs import core_pmus
from setebench.native.perf.tables import EventSpec, events_for, why_none


class NativeResolver:
    """Events of the processor that a tree of system files describes, by its table where there is one, and by the
    kernel's names and formats. See `wanted.Resolver`."""

    def __init__(self, tree: Tree, situation: Situation) -> None:
        self.situation = situation
        self._processor: Processor = read_processor(tree)
        self._specs = events_for(self._processor)
        self._encoder = Encoder(situation.pmus, self._specs)

    def of_role(self, name: str) -> Wanted:
        """See `Resolver.of_role`."""
        role = ROLES[name]
        spec = self._specs.get(name)
        if spec is None or not core_pmus(self.situation.pmus):
            plan = Plan(role=name, reason=self._why_none(name))
            return Wanted(name=name, unit=role.unit, scope=role.scope, plan=plan, event=_spec_text(spec))
        plan = plan_of(name, spec, self.situation.pmus)
        return Wanted(name=name, event=_spec_text(spec), unit=role.unit, scope=spec.scope, plan=plan)

    def of_text(self, text: str) -> Wanted:
        """See `Resolver.of_text`."""
        try:
            encoded = self._encoder.encode(text)
        except UnsupportedError as error:
            return Wanted(name=text, event=text, plan=Plan(role=text, reason=str(error)))
        plan = Plan(role=text, terms=encoded.terms)
        scope = Scope.THREAD if all(term.cpus is None for term in encoded.terms) else Scope.SOCKET
        return Wanted(name=text, event=text, unit=encoded.unit or "events", scope=scope, plan=plan)

    def _why_none(self, role: str) -> str:
        if not core_pmus(self.situation.pmus):
            return explain(errno.ENOENT, Request(attributes=Attributes(type=Type.RAW)), self.situation)
        return why_none(self._processor, role)


def _spec_text(spec: EventSpec | None) -> str:
    """The event as users may write it themselves; a sum has a plus."""
    if spec is None:
        return ""
    return " + ".join(
        f"{spec.pmu}/{','.join(f'{term}={value:#x}' for term, value in code.terms.items())}/" for code in spec.codes
    )


def native_resolver() -> NativeResolver:
    """Of this machine."""
    return NativeResolver(Tree(Path("/")), read_situation())


class NativeEvents:
    """Events of one target, to be opened as often as they are wanted."""

    def __init__(self, names: Sequence[str], target: Target) -> None:
        """Raises `UsageError` as `wanted` does."""
        resolver = native_resolver()
        self._situation, self._target = resolver.situation, target
        self._wanted = wanted(names, resolver)

    @property
    def names(self) -> tuple[str, ...]:
        """Each once, in the order in which they were asked for."""
        return tuple(each.name for each in self._wanted)

    def open(self) -> Counters:
        """Counters at rest."""
        return open_counters(self._wanted, self._target, _perf, self._situation)


def native_programs() -> Programs:
    """Counting programs on this machine."""
    return Programs(_perf, read_situation())
