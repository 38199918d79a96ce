"""Events opened for threads and everything that they start, or for whole CPUs, and read one by one.

Each event has a descriptor of its own, so that one that finds no free counter keeps no other from counting; the times
enabled and running of each are kept beside its count. A read of an inherited event is the sum over all threads and
processes that inherited it, those that have ended too (perf_event_open(2), `inherit`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from setebench.counters.protocol import Count
from setebench.native.perf import _perf
from setebench.native.perf.attributes import EVERYBODY, THIS_THREAD, Attributes, Type
from setebench.native.perf.messages import Request, Situation, explain, no_counter, user_only
from setebench.native.perf.plans import REFUSALS, Term, user_form
from setebench.native.perf.program.wanted import Wanted

FOR_REGIONS = "it was counted for regions only, as asked by --regions-only"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events: threads by number (0: the calling one), with all that they start later where `inherit` is set.
    `on_exec`: from their next exec on. With `cpu` whatever runs on that CPU instead."""

    threads: tuple[int, ...] = (THIS_THREAD,)
    inherit: bool = False
    on_exec: bool = False
    cpu: int | None = None

    def requests(self, term: Term, without_kernel: bool) -> Iterator[Request]:
        """What is asked of the kernel for a term; not counting at first."""
        of_cpus = term.cpus is not None or self.cpu is not None
        flags = {"inherit": self.inherit and not of_cpus, "enable_on_exec": self.on_exec and not of_cpus}
        event = msgspec.structs.replace(term.attributes, disabled=True, **flags)
        if of_cpus:
            for cpu in (self.cpu or 0,) if term.cpus is None else term.cpus:
                yield Request(attributes=event, pid=EVERYBODY, cpu=cpu)
        else:
            for thread in self.threads:
                yield Request(attributes=user_form(event) if without_kernel else event, pid=thread)


class Descriptor(NamedTuple):
    """One open event: `factor` of the unit each count is; `on_exec`: it begins to count by itself."""

    fd: int
    factor: float
    on_exec: bool


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The descriptors of one name. `user_only`: the kernel's own part is left out, as this process has no right to it.
    With a `reason` there are none; without one and without descriptors it was left to regions."""

    wanted: Wanted
    descriptors: tuple[Descriptor, ...] = ()
    user_only: bool = False
    reason: str = ""


class Counters:
    """Open events of one target, in the order of the names asked for. Close it, or use it as a context."""

    def __init__(self, opened: Sequence[Opened], situation: Situation) -> None:
        self.opened = tuple(opened)
        self._situation = situation

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Let all events count that do not wait for an exec."""
        for descriptor in self._now():
            _perf.enable(descriptor.fd)

    def stop(self) -> None:
        """Let all events of `start` rest; their counts stay."""
        for descriptor in self._now():
            _perf.disable(descriptor.fd)

    def _now(self) -> Iterator[Descriptor]:
        return (each for opened in self.opened for each in opened.descriptors if not each.on_exec)

    def leave_to_regions(self) -> None:
        """Close what takes a counter of a PMU and follows threads: these count for their regions alone, and have the
        counters that the same events of the whole program would take."""
        left = []
        for each in self.opened:
            software = all(term.attributes.type == Type.SOFTWARE for term in each.wanted.plan.terms)
            if not each.reason and not software and each.wanted.of_threads:
                _close_all(each.descriptors)
                each = msgspec.structs.replace(each, descriptors=())
            left.append(each)
        self.opened = tuple(left)

    def read(self) -> dict[str, Count]:
        """Counts since the events began, by name, never scaled up; None with a reason where there is none."""
        return {each.wanted.name: self._read(each) for each in self.opened}

    def _read(self, opened: Opened) -> Count:
        name = opened.wanted.name
        if opened.reason or not opened.descriptors:
            return Count(role=name, reason=opened.reason or FOR_REGIONS)
        parts = []
        for descriptor in opened.descriptors:
            reading = _perf.read_values(descriptor.fd, 1)
            if reading is None:
                return Count(role=name, reason=no_counter(self._situation))
            parts.append((reading.values[0] * descriptor.factor, reading.enabled, reading.running))
        return summed(name, parts, self._situation)

    def close(self) -> None:
        """Close every descriptor. May be called twice."""
        opened, self.opened = self.opened, ()
        for each in opened:
            _close_all(each.descriptors)


def summed(name: str, parts: Iterable[tuple[float, int, int]], situation: Situation) -> Count:
    """A count of parts with their times enabled and running; none where the event never had a counter."""
    value, enabled, running = (sum(each) for each in zip(*parts, strict=True))
    if enabled and not running:
        return Count(role=name, reason=no_counter(situation), enabled=int(enabled))
    return Count(role=name, value=round(value), enabled=int(enabled), running=int(running))


def _close_all(descriptors: Iterable[Descriptor]) -> None:
    """Close them all, also where the kernel complains of one."""
    for descriptor in descriptors:
        with suppress(_perf.PerfError):
            _perf.close(descriptor.fd)


def open_counters(names: Sequence[Wanted], target: Target, situation: Situation) -> Counters:
    """Open what is wanted for the target, all still at rest. What can't be opened has a reason, and raises nothing."""
    return Counters([_opened(each, target, situation) for each in names], situation)


def _opened(wanted: Wanted, target: Target, situation: Situation) -> Opened:
    """The events of one name: all of them, in one form, or none."""
    terms = wanted.plan.terms
    if not terms:
        return Opened(wanted=wanted, reason=wanted.plan.reason)
    found = _open_all(terms, target, user_only=False)
    user_form_only = False
    follows = target.cpu is None and wanted.of_threads and not any(term.attributes.exclude_kernel for term in terms)
    if isinstance(found, tuple) and found[0] in REFUSALS and follows:
        if any(term.in_kernel for term in terms):
            return Opened(wanted=wanted, reason=user_only(situation))
        second = _open_all(terms, target, user_only=True)
        if isinstance(second, list):
            found, user_form_only = second, True
    if isinstance(found, tuple):
        return Opened(wanted=wanted, reason=explain(*found, situation))
    reason = "" if found else "every thread ended before it could be counted"
    return Opened(wanted=wanted, descriptors=tuple(found), user_only=user_form_only, reason=reason)


def _open_all(terms: Iterable[Term], target: Target, *, user_only: bool) -> list[Descriptor] | tuple[int, Request]:
    """Descriptors, or errno and the request that got it; then nothing stays open."""
    opened: list[Descriptor] = []
    for term in terms:
        for request in target.requests(term, user_only):
            try:
                fd = _perf.open_event(request.attributes, request.pid, request.cpu)
            except _perf.PerfError as error:
                if error.errno == errno.ESRCH and len(target.threads) > 1:
                    continue  # a thread that ended since it was listed
                _close_all(opened)
                return error.errno or 0, request
            opened.append(Descriptor(fd, term.factor, request.attributes.enable_on_exec))
    return opened


def of_thread(attributes: Attributes, user_only: bool) -> Attributes:
    """The event for a thread that opens it for itself and alone."""
    event = user_form(attributes) if user_only else attributes
    return msgspec.structs.replace(event, disabled=False, inherit=False, enable_on_exec=False)
