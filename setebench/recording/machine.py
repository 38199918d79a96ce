"""A machine that notes what another one answers, and one that answers the same again. Both offer what that machine
does: every method asks either the machine or the journal."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count, Counting, CountsEvents
from setebench.errors import SetebenchError, UnsupportedError
from setebench.loops.protocol import RunsLoops
from setebench.loops.records import Loop, Policy
from setebench.machine import (
    BindsMemory,
    BusyTime,
    CountsBusyTime,
    CountsCpuTime,
    Difference,
    Facts,
    Machine,
    PrefetcherSwitch,
    Region,
    SwitchesPrefetchers,
    Ticks,
    numbers_of,
)
from setebench.probe import Placements, Probe, placement_table
from setebench.recording.document import (
    MOST_JOURNAL_BYTES,
    MOST_TICKS,
    Call,
    Recording,
    damaged,
    journal_and_ticks,
    packed,
)

_SHOWN = 120  # characters of a question in a message
_CALL_BYTES = 64  # of a call in the journal, but for its answer


class Asked(ABC):
    """The methods that every machine has. `inner` is the machine that answers, None where the journal does."""

    facts: Facts
    inner: Any = None

    @abstractmethod
    def ask(self, method: str, asked: object, kind: Any, call: Callable[[], Any]) -> Any:
        """The answer, of type `kind`, to a call of the machine's, or to the same one in the journal."""

    @abstractmethod
    def ticks(self, method: str, asked: object, call: Callable[[], list[Ticks]]) -> list[Ticks]:
        """As `ask`, of runs."""

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        """See `setebench.machine.Machine.allocate`."""
        return self.region("allocate", size, page_size, lambda: self.inner.allocate(size, page_size, populate=populate))

    def region(self, method: str, size: int, page_size: int, give: Callable[[], Region]) -> Region:
        """Memory: the machine's own, or with the addresses of then. A machine gives what was asked for, rounded up to
        its pages; a plug-in may give more, but hardly twice as much."""
        given: list[Region] = []

        def call() -> tuple[int, int]:
            given.append(give())
            return given[0].address, given[0].size

        address, actual = self.ask(method, [size, page_size], tuple[int, int], call)
        if address < 0 or not size <= actual <= 2 * size + page_size:
            raise damaged(f"a region of {actual} bytes for {size} is impossible")
        return given[0] if given else Region(address, actual, page_size, self.facts.line_size)

    def release(self, region: Region) -> None:
        """See `setebench.machine.Machine.release`."""
        if self.inner is not None:
            self.inner.release(region)

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        """See `setebench.machine.Machine.link`."""
        if self.inner is not None:
            self.inner.link(region, addresses)

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        """See `setebench.machine.Machine.run`."""
        asked = _checksum(probe, cpu, warmup)
        (ticks,) = self.ticks("run", asked, lambda: [self.inner.run(probe, placements, cpu=cpu, warmup=warmup)])
        self._fits(ticks, probe, placements, warmup)
        return ticks

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        """See `setebench.machine.Machine.run_together`."""

        def call() -> list[Ticks]:
            found = self.inner.run_together(probes, placements, warmup=warmup)
            return [found[cpu] for cpu in probes]

        asked = [_checksum(probe, cpu, warmup) for cpu, probe in probes.items()]
        found = dict(zip(probes, self.ticks("run_together", asked, call), strict=True))
        for cpu, ticks in found.items():
            self._fits(ticks, probes[cpu], placements, warmup)
        return found

    def _fits(self, ticks: Ticks, probe: Probe, placements: Placements, warmup: int) -> None:
        if self.inner is None:
            rows = max(0, len(placement_table(probe, placements)) - warmup)
            if ticks.shape != (rows, probe.intervals):
                raise other_question(f"other repetitions of the probe {probe}")

    def close(self) -> None:  # noqa: B027
        """The machine belongs to whoever opened it."""


# -- what not every machine offers ------------------------------------------------------------------------------------


def _method(name: str, kind: Any) -> Callable[..., Any]:
    """A method whose answer is of that kind and depends on nothing but what it is given."""

    def method(self: Asked, *given: Any, **named: Any) -> Any:
        return self.ask(name, [*given, *named.values()], kind, lambda: getattr(self.inner, name)(*given, **named))

    return method


class _Binds(Asked):
    def allocate_on(self, size: int, page_size: int, node: int) -> Region:
        """See `setebench.machine.BindsMemory`."""
        return self.region("allocate_on", size, page_size, lambda: self.inner.allocate_on(size, page_size, node))

    def node_of(self, region: Region, offset: int) -> int | None:
        """See `setebench.machine.BindsMemory`."""
        return self.ask("node_of", offset, int | None, lambda: self.inner.node_of(region, offset))


class _Numbers(Asked):
    holds_numbers = True

    def write_numbers(self, region: Region, numbers: NDArray[np.float64], first: int = 0) -> None:
        """See `setebench.machine.ComparesNumbers`."""
        if self.inner is not None:
            self.inner.write_numbers(region, numbers, first)

    def first_difference(self, region: Region, expected: NDArray[np.float64], first: int = 0) -> Difference | None:
        """See `setebench.machine.ComparesNumbers`."""

        def call() -> Difference | None:
            numbers = numbers_of(self.inner)
            assert numbers is not None
            return numbers.first_difference(region, expected, first)

        return self.ask("first_difference", [len(expected), first], Difference | None, call)


class _Switches(Asked):
    prefetcher_switches = _method("prefetcher_switches", tuple[PrefetcherSwitch, ...])

    @contextmanager
    def prefetchers_off(self, names: Collection[str], cpus: Collection[int]) -> Iterator[None]:
        """See `setebench.machine.SwitchesPrefetchers`."""
        with ExitStack() as off:
            asked = [sorted(names), sorted(cpus)]
            self.ask("prefetchers_off", asked, None, lambda: off.enter_context(self.inner.prefetchers_off(names, cpus)))
            yield


class _BusyTime(Asked):
    busy_time = _method("busy_time", BusyTime | None)


class _CpuTime(Asked):
    cpu_time = _method("cpu_time", tuple[float, float] | None)


class _Counting:
    """Counters of the machine, or of the journal."""

    def __init__(self, asked: Asked, roles: list[str], counting: Counting | None) -> None:
        self._asked, self._roles, self._counting = asked, roles, counting

    def read(self) -> dict[str, Count]:
        """See `Counting.read`."""

        def call() -> dict[str, Count]:
            assert self._counting is not None
            return self._counting.read()

        return self._asked.ask("read", self._roles, dict[str, Count], call)


class _Events(Asked):
    event_roles = _method("event_roles", dict[str, str])

    event_groups = _method("event_groups", tuple[tuple[str, ...], ...])

    @contextmanager
    def count_events(self, roles: Sequence[str]) -> Iterator[Counting]:
        """See `setebench.counters.protocol.CountsEvents`."""
        entered: list[Counting] = []
        with ExitStack() as stack:

            def enter() -> None:
                entered.append(stack.enter_context(self.inner.count_events(roles)))

            self.ask("count_events", list(roles), None, enter)
            yield _Counting(self, list(roles), entered[0] if entered else None)


class _Loops(Asked):
    loop_names = _method("loop_names", tuple[str, ...])

    describe_loop = _method("describe_loop", Loop)

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """See `RunsLoops`."""
        asked = [name, list(policies), rounds, cpu, seed]
        (ticks,) = self.ticks(
            "run_loop", asked, lambda: [self.inner.run_loop(name, policies, rounds, cpu=cpu, seed=seed)]
        )
        if ticks.shape != (rounds, len(policies)):
            raise other_question(f"other rounds of {name}")
        return ticks

    check_loop = _method("check_loop", None)


_CAPABILITIES: dict[str, tuple[type[Asked], Callable[[Any], bool]]] = {
    "memory nodes": (_Binds, lambda machine: isinstance(machine, BindsMemory)),
    "numbers": (_Numbers, lambda machine: numbers_of(machine) is not None),
    "prefetcher switches": (_Switches, lambda machine: isinstance(machine, SwitchesPrefetchers)),
    "busy time": (_BusyTime, lambda machine: isinstance(machine, CountsBusyTime)),
    "CPU time": (_CpuTime, lambda machine: isinstance(machine, CountsCpuTime)),
    "events": (_Events, lambda machine: isinstance(machine, CountsEvents)),
    "loops": (_Loops, lambda machine: isinstance(machine, RunsLoops)),
}
"""By name: the methods of each, and whether a machine has them."""


# -- noting, and answering again --------------------------------------------------------------------------------------


class Recorder(Asked):
    """A machine that notes what another one answers. It copies ticks between runs, never while one goes on.

    Nothing is noted from the answer on that would make the recording larger than `most_ticks`, or longer than one may
    be: inference ends there for want of an answer, where a larger file would be refused as a whole."""

    def __init__(self, machine: Machine, most_ticks: int = MOST_TICKS) -> None:
        self.inner, self.facts = machine, machine.facts
        self._left, self._bytes = most_ticks, MOST_JOURNAL_BYTES
        self._journal: list[bytes] = []
        self._ticks: list[NDArray[Any]] = []

    def ask(self, method: str, asked: object, kind: Any, call: Callable[[], Any]) -> Any:
        """Ask the machine, and note its answer."""
        try:
            answer = call()
        except UnsupportedError as error:
            self._note(Call(method, _number(asked), None, str(error)), [])
            raise
        self._note(Call(method, _number(asked), None if kind is None else answer), [])
        return answer

    def ticks(self, method: str, asked: object, call: Callable[[], list[Ticks]]) -> list[Ticks]:
        """Ask the machine, and note its ticks."""
        try:
            found = call()
        except UnsupportedError as error:
            self._note(Call(method, _number(asked), None, str(error)), [])
            raise
        self._note(Call(method, _number(asked), [each.shape for each in found]), found)
        return found

    def _note(self, call: Call, ticks: list[Ticks]) -> None:
        line = msgspec.json.encode(call)
        self._left -= sum(each.size for each in ticks)
        self._bytes -= len(line) + 1
        if self._left < 0 or self._bytes < _CALL_BYTES:
            self._left = -1
            return
        self._journal.append(line)
        for each in ticks:
            # half the memory where they fit, as ticks of an interval do unless the machine was stopped
            narrow = each.size > 0 and each.min() >= -(1 << 31) and each.max() < 1 << 31
            self._ticks.append(np.array(each, dtype=np.int32 if narrow else np.int64))

    def recording(self) -> Recording:
        """Everything so far."""
        return Recording(
            facts=self.facts,
            capabilities=tuple(name for name, (kind, _) in _CAPABILITIES.items() if isinstance(self, kind)),
            journal=packed([b"[", b",".join(self._journal), b"]"]),
            ticks=packed(each.astype("<i8").tobytes() for each in self._ticks),
        )


class Replay(Asked):
    """A machine that answers as a recording says, as long as it is asked the same."""

    def __init__(self, recording: Recording) -> None:
        self.facts = recording.facts
        journal, self._ticks = journal_and_ticks(recording)
        self._journal, self._at = iter(journal), 0

    def _next(self, method: str, asked: object) -> Call:
        call = next(self._journal, None)
        if call is None or (call.method, call.asked) != (method, _number(asked)):
            raise other_question(f"{method.replace('_', ' ')} {asked}")
        if call.refusal is not None:
            raise UnsupportedError(call.refusal)
        return call

    def ask(self, method: str, asked: object, kind: Any, call: Callable[[], Any]) -> Any:
        """The answer of then."""
        answer = self._next(method, asked).answer
        try:
            return None if kind is None else msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            raise damaged(str(error)) from error

    def ticks(self, method: str, asked: object, call: Callable[[], list[Ticks]]) -> list[Ticks]:
        """The ticks of then."""
        try:
            shapes = msgspec.convert(self._next(method, asked).answer, list[tuple[int, int]])
        except msgspec.ValidationError as error:
            raise damaged(str(error)) from error
        found = []
        for rows, columns in shapes:
            size = rows * columns
            if rows < 0 or columns < 0 or size > len(self._ticks) - self._at:
                raise damaged("its runs are of impossible size")
            found.append(self._ticks[self._at : self._at + size].reshape(rows, columns).copy())
            self._at += size
        return found


Kind = TypeVar("Kind", bound=type[Asked])


def _with(kind: Kind, names: Collection[str]) -> Kind:
    """The class with the methods of these capabilities."""
    mixed = [_CAPABILITIES[name][0] for name in _CAPABILITIES if name in names]
    made: Any = type(kind.__name__, (kind, *mixed), {})
    return made


def recorder_of(machine: Machine, most_ticks: int = MOST_TICKS) -> Recorder:
    """A recorder with the capabilities of the machine."""
    return _with(Recorder, [name for name, (_, has) in _CAPABILITIES.items() if has(machine)])(machine, most_ticks)


def replay_of(recording: Recording) -> Replay:
    """A replay with the capabilities of the recorded machine."""
    return _with(Replay, recording.capabilities)(recording)


def other_question(what: str) -> SetebenchError:
    """What is raised where a recording has no answer to `what`."""
    shown = what if len(what) < _SHOWN else f"{what[: _SHOWN - 1]}…"
    return SetebenchError(f"the recording has no answer to {shown}: this version asks otherwise; measure again")


def _number(asked: object) -> int:
    """A number that identifies what was asked."""
    return asked if isinstance(asked, int) else zlib.crc32(msgspec.json.encode(asked))


def _checksum(probe: Probe, cpu: int | None, warmup: int) -> int:
    """A number that identifies a probe. Addresses are left out: those follow from the seed and the regions."""
    head = f"{cpu} {warmup} {[base.name for base in probe.bases]}".encode()
    return zlib.crc32(np.ascontiguousarray(probe.rows).tobytes(), zlib.crc32(head))
