"""How a role is counted: which events, on which CPUs, and what one count is of the role's unit.

The roles of the system (time on a CPU, page faults, context switches, migrations) are the kernel's own software events
and exist everywhere. Context switches and migrations happen inside the kernel: opened without the kernel's part, the
only form that an ordinary user may open at perf_event_paranoid 2, they read 0 whatever happens. Such a form is never
used. Page faults of the program and time on a CPU are right in both forms.
"""

from __future__ import annotations

import errno

import msgspec

from setebench.native.perf import _perf
from setebench.native.perf.attributes import EVERYBODY, Attributes, Software, Type
from setebench.native.perf.messages import Request, Situation, explain, user_only

REFUSALS = (errno.EACCES, errno.EPERM)


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a role. `cpus`: where an event of everybody is opened; None for an event that follows threads.
    `factor`: how many of the role's unit one count is. `pmu` is the name of its PMU: events of one PMU may be in one
    group."""

    attributes: Attributes
    pmu: str
    cpus: tuple[int, ...] | None = None
    factor: float = 1.0

    @property
    def in_kernel(self) -> bool:
        """Whether the event counts nothing without the kernel's part."""
        event = self.attributes
        return event.type == Type.SOFTWARE and event.config in (Software.CONTEXT_SWITCHES, Software.CPU_MIGRATIONS)

    @property
    def is_clock(self) -> bool:
        """Whether it is a clock of the kernel's: as a member of a group these stand still from the second time on that
        the group is switched on (seen on Linux 6.18)."""
        event = self.attributes
        return event.type == Type.SOFTWARE and event.config in (Software.CPU_CLOCK, Software.TASK_CLOCK)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A role as the sum of its terms, or without terms the `reason` why it can't be counted."""

    role: str
    terms: tuple[Term, ...] = ()
    reason: str = ""


SYSTEM_EVENTS = {
    "task_clock": Software.TASK_CLOCK,
    "page_fault": Software.PAGE_FAULTS,
    "context_switch": Software.CONTEXT_SWITCHES,
    "cpu_migration": Software.CPU_MIGRATIONS,
}
SYSTEM_PLANS = {
    role: Plan(role=role, terms=(Term(attributes=Attributes(type=Type.SOFTWARE, config=event), pmu="software"),))
    for role, event in SYSTEM_EVENTS.items()
}
"""Roles that every kernel counts."""


def user_form(attributes: Attributes) -> Attributes:
    """The event without the kernel's and the hypervisor's part."""
    return msgspec.structs.replace(attributes, exclude_kernel=True, exclude_hv=True)


def countable(plan: Plan, situation: Situation) -> Plan:
    """The plan with every event in a form that the kernel opens here and that counts; without terms, and with the
    reason, where there is none. Events are opened and closed again; nothing is counted."""
    terms = []
    for term in plan.terms:
        form = _openable(term, situation)
        if isinstance(form, str):
            return Plan(role=plan.role, reason=form)
        terms.append(msgspec.structs.replace(term, attributes=form))
    return msgspec.structs.replace(plan, terms=tuple(terms))


def _openable(term: Term, situation: Situation) -> Attributes | str:
    """The event's attributes in the first form that opens, or the reason why none does."""
    form = term.attributes
    number = _tried(term, form)
    if number in REFUSALS and term.cpus is None and not form.exclude_kernel:
        # where this form is refused, too, something else than the kernel's part is in the way
        form = user_form(form)
        number = _tried(term, form)
        if number == 0 and term.in_kernel:
            return user_only(situation)
    return explain(number, request_of(term, form), situation) if number else form


def request_of(term: Term, attributes: Attributes) -> Request:
    """What is asked of the kernel for a term."""
    if term.cpus is None:
        return Request(attributes=attributes)
    return Request(attributes=attributes, pid=EVERYBODY, cpu=term.cpus[0] if term.cpus else -1)


def _tried(term: Term, attributes: Attributes) -> int:
    """0 where the event opens, else errno."""
    request = request_of(term, msgspec.structs.replace(attributes, disabled=True))
    try:
        _perf.close(_perf.open_event(request.attributes, request.pid, request.cpu))
    except _perf.PerfError as error:
        return error.errno or errno.EINVAL
    return 0
