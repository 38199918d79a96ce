"""Events opened for threads and everything that they start, or for whole CPUs, and read one by one.

Each event has a descriptor of its own, so that one that finds no free counter keeps no other from counting; the times
enabled and running of each are kept beside its count. A read of an inherited event is the sum over all threads and
processes that inherited it, those that have ended too (perf_event_open(2), `inherit`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from setebench.counters.protocol import Count
from setebench.native.perf.attributes import Attributes, Type
from setebench.native.perf.kernel import EVERYBODY, THIS_THREAD, Kernel, PerfError
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

    @property
    def counts(self) -> bool:
        """Whether anything is counted under this name."""
        return not self.reason


class Counters:
    """Open events of one target, in the order of the names asked for. Close it, or use it as a context."""

    def __init__(self, opened: Sequence[Opened], kernel: Kernel, situation: Situation) -> None:
        self.opened = tuple(opened)
        self._kernel = kernel
        self._situation = situation

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Let all events count that do not wait for an exec."""
        for fd in self._now():
            self._kernel.enable(fd)

    def leave_to_regions(self) -> None:
        """Close what takes a counter of a PMU and follows threads: these count for their regions alone, and have the
        counters that the same events of the whole program would take."""
        self.opened = tuple(self._left(each) for each in self.opened)

    def _left(self, opened: Opened) -> Opened:
        software = all(term.attributes.type == Type.SOFTWARE for term in opened.wanted.plan.terms)
        if opened.reason or software or not opened.wanted.of_threads:
            return opened
        close_all(self._kernel, opened.descriptors)
        return msgspec.structs.replace(opened, descriptors=())

    def stop(self) -> None:
        """Let all events of `start` rest; their counts stay."""
        for fd in self._now():
            self._kernel.disable(fd)

    def read(self) -> dict[str, Count]:
        """Counts since the events began, by name, never scaled up; None with a reason where there is none."""
        return {each.wanted.name: self._read(each) for each in self.opened}

    def close(self) -> None:
        """Close every descriptor. May be called twice."""
        opened, self.opened = self.opened, ()
        for each in opened:
            close_all(self._kernel, each.descriptors)

    def _now(self) -> Iterator[int]:
        for each in self.opened:
            yield from (descriptor.fd for descriptor in each.descriptors if not descriptor.on_exec)

    def _read(self, opened: Opened) -> Count:
        name = opened.wanted.name
        if opened.reason or not opened.descriptors:
            return Count(role=name, reason=opened.reason or FOR_REGIONS)
        value: float = 0  # whole as long as all factors are
        enabled = running = 0
        for descriptor in opened.descriptors:
            reading = self._kernel.read_values(descriptor.fd, 1)
            if reading is None:
                return Count(role=name, reason=no_counter(self._situation))
            value += reading.values[0] * descriptor.factor
            enabled, running = enabled + reading.enabled, running + reading.running
        return counted(name, value, (enabled, running), self._situation)


def counted(name: str, value: float, times: tuple[int, int], situation: Situation) -> Count:
    """A count with its times enabled and running; none where the event never had a counter."""
    enabled, running = times
    if enabled and not running:
        return Count(role=name, reason=no_counter(situation), enabled=enabled)
    return Count(role=name, value=round(value), enabled=enabled, running=running)


def close_all(kernel: Kernel, descriptors: Sequence[Descriptor]) -> None:
    """Close them all, also where the kernel complains of one."""
    for descriptor in descriptors:
        with suppress(PerfError):
            kernel.close(descriptor.fd)


def open_counters(names: Sequence[Wanted], target: Target, kernel: Kernel, situation: Situation) -> Counters:
    """Open what is wanted for the target, all still at rest. What can't be opened has a reason, and raises nothing."""
    opened: list[Opened] = []
    try:
        for each in names:
            opened.append(_Opening(each, target, kernel, situation).result())
    except BaseException:
        Counters(opened, kernel, situation).close()
        raise
    return Counters(opened, kernel, situation)


class _Opening:
    """Opens the events of one name: all of them, in one form, or none."""

    def __init__(self, wanted: Wanted, target: Target, kernel: Kernel, situation: Situation) -> None:
        self._wanted, self._target, self._kernel, self._situation = wanted, target, kernel, situation
        self._descriptors: list[Descriptor] = []

    def result(self) -> Opened:
        terms = self._wanted.plan.terms
        if not terms:
            return Opened(wanted=self._wanted, reason=self._wanted.plan.reason)
        try:
            refusal = self._open_all(user_only=False)
            if refusal is None:
                return self._opened(user_only=False)
            if refusal[0] not in REFUSALS or not self._may_leave_kernel_out():
                return self._refused(*refusal)
            if any(term.in_kernel for term in terms):
                return Opened(wanted=self._wanted, reason=user_only(self._situation))
            second = self._open_all(user_only=True)
            return self._opened(user_only=True) if second is None else self._refused(*refusal)
        except BaseException:
            self._undo()
            raise

    def _may_leave_kernel_out(self) -> bool:
        terms = self._wanted.plan.terms
        whole = self._target.cpu is not None or not self._wanted.of_threads
        return not whole and not any(term.attributes.exclude_kernel for term in terms)

    def _open_all(self, user_only: bool) -> tuple[int, Request] | None:
        """None, or errno and the request that got it; then nothing stays open."""
        for term in self._wanted.plan.terms:
            for request in self._requests(term, user_only):
                try:
                    fd = self._kernel.open_event(request.attributes, request.pid, request.cpu)
                except PerfError as error:
                    if error.errno == errno.ESRCH and len(self._target.threads) > 1:
                        continue  # a thread that ended since it was listed
                    self._undo()
                    return error.errno or 0, request
                self._descriptors.append(Descriptor(fd, term.factor, request.attributes.enable_on_exec))
        return None

    def _requests(self, term: Term, without_kernel: bool) -> Iterator[Request]:
        target = self._target
        if term.cpus is not None or target.cpu is not None:
            event = at_rest(term.attributes, inherit=False, on_exec=False)
            for cpu in (target.cpu or 0,) if term.cpus is None else term.cpus:
                yield Request(attributes=event, pid=EVERYBODY, cpu=cpu)
            return
        event = at_rest(term.attributes, inherit=target.inherit, on_exec=target.on_exec)
        event = user_form(event) if without_kernel else event
        for thread in target.threads:
            yield Request(attributes=event, pid=thread)

    def _opened(self, user_only: bool) -> Opened:
        if not self._descriptors:
            return Opened(wanted=self._wanted, reason="every thread ended before it could be counted")
        return Opened(wanted=self._wanted, descriptors=tuple(self._descriptors), user_only=user_only)

    def _refused(self, number: int, request: Request) -> Opened:
        return Opened(wanted=self._wanted, reason=explain(number, request, self._situation))

    def _undo(self) -> None:
        close_all(self._kernel, self._descriptors)
        self._descriptors.clear()


def at_rest(attributes: Attributes, *, inherit: bool, on_exec: bool) -> Attributes:
    """The event, not counting at first, with these flags."""
    return msgspec.structs.replace(attributes, disabled=True, inherit=inherit, enable_on_exec=on_exec)
