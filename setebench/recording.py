"""What a machine answers, kept in a result file, so that inference can be run on it later without the machine.

A recorder stands before a machine and notes every answer; a replay gives the same answers to the same calls. A scenario
draws at random from its seed, so with the same ticks it makes the same calls; a replay refuses any others. What is read
from a file is not trusted: a scenario takes memory in proportion to what a machine claims of itself.
"""

from __future__ import annotations

import base64
import bz2
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count, CountsEvents
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops.records import RunsLoops
from setebench.machine import (
    BindsMemory,
    BusyTime,
    ComparesNumbers,
    CountsBusyTime,
    CountsCpuTime,
    Difference,
    Facts,
    HoldsNumbers,
    Machine,
    PrefetcherSwitch,
    Region,
    SwitchesPrefetchers,
    numbers_of,
)
from setebench.probe import Probe, placement_table

EVIDENCE_PREFIX = "recording."
MOST_TICKS = 1 << 26  # half a gigabyte, twice what the longest scenario answers on a CPU of today
MOST_JOURNAL_BYTES = 1 << 25  # unpacked; a call takes some thirty
MOST_MEMORY_BYTES = 1 << 46  # 64 TiB, what the largest servers of today hold
MOST_CPUS = 1 << 13  # what Linux is built for at most
MOST_PAGE_BYTES = 1 << 34  # a power of two above any page, or line, that an architecture has had


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """A call of a machine's method: its name, a checksum of the arguments, and the answer, or why it was refused. Of
    runs the answer is the shapes of the ticks, of memory its address and size."""

    method: str
    arguments: int
    answer: Any = None
    refusal: str | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a result file keeps, compressed (bzip2) and in base64: the `journal` of calls (`Noted`, as JSON) in their
    order, and the `ticks` of all runs in sequence, as little-endian int64. `capabilities` are the optional methods that
    the machine has."""

    facts: Facts
    capabilities: tuple[str, ...]
    journal: str
    ticks: str


def recording_of(evidence: Mapping[str, Any], scenario: str) -> Recording:
    """The recording of a scenario in a document's evidence. Raises `UsageError` for none, or a damaged one."""
    record = evidence.get(f"{EVIDENCE_PREFIX}{scenario}")
    if record is None:
        raise UsageError(f"it holds no recording of {scenario}; record one with --raw, or characterize -o FILE")
    if isinstance(record, dict) and "calls" in record:
        raise UsageError(f"its recording of {scenario} is of an earlier version with other probes; measure again")
    try:
        return msgspec.convert(record, type=Recording)
    except msgspec.ValidationError as error:
        raise UsageError(f"its recording of {scenario} is damaged: {error}") from error


def without_recordings(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence that people read."""
    return {name: each for name, each in evidence.items() if not name.startswith(EVIDENCE_PREFIX)}


# -- the methods of machines ------------------------------------------------------------------------------------------

TICKS, TOGETHER, UNRECORDED, CONTEXT = "ticks", "ticks by CPU", "unrecorded", "context"
"""Kinds of answers that are no plain values. Nothing is noted of what is unrecorded; a context may be refused."""

EVERY = {"allocate": Region, "release": UNRECORDED, "link": UNRECORDED, "run": TICKS, "run_together": TOGETHER}
CAPABILITIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "memory nodes": (BindsMemory, {"allocate_on": Region, "node_of": int | None}),
    "numbers": (
        (HoldsNumbers, ComparesNumbers),
        {"write_numbers": UNRECORDED, "first_difference": Difference | None},
    ),
    "prefetcher switches": (
        SwitchesPrefetchers,
        {"prefetcher_switches": tuple[PrefetcherSwitch, ...], "prefetchers_off": CONTEXT},
    ),
    "busy time": (CountsBusyTime, {"busy_time": BusyTime | None}),
    "CPU time": (CountsCpuTime, {"cpu_time": tuple[float, float] | None}),
    "events": (
        CountsEvents,
        {"event_roles": dict[str, str], "event_groups": tuple[tuple[str, ...], ...], "count_events": CONTEXT},
    ),
    "loops": (
        RunsLoops,
        {"loop_names": tuple[str, ...], "run_loop": TICKS},
    ),
}
"""Methods of every machine with what they answer; and those of capabilities, with the protocol of each."""


class Call(NamedTuple):
    """A call of a method: what kind its answer is of, and the arguments."""

    method: str
    kind: Any
    given: tuple[Any, ...]
    named: dict[str, Any]

    def plain(self) -> Any:
        """What identifies the arguments. Addresses are left out: those follow from the seed and the regions."""
        cpu, warmup = self.named.get("cpu"), self.named.get("warmup", 0)
        if self.kind is Region:
            return [*self.given, *self.named.values()][:2]
        if self.method == "run":
            return _checksum(self.given[0], cpu, warmup)
        if self.method == "run_together":
            return [_checksum(probe, cpu, warmup) for cpu, probe in self.given[0].items()]
        return [_plain(each) for each in (*self.given, *self.named.values())]

    def rows(self) -> int:
        """How many rows of ticks a run gives."""
        if self.method == "run_loop":
            return int(self.given[2])
        probe = self.given[0] if self.kind == TICKS else next(iter(self.given[0].values()))
        return max(0, len(placement_table(probe, self.given[1])) - int(self.named.get("warmup", 0)))


def _plain(argument: Any) -> Any:
    """What identifies an argument, without addresses."""
    if isinstance(argument, Region):
        return argument.size
    if isinstance(argument, np.ndarray):
        return len(argument)
    return sorted(argument) if isinstance(argument, set) else argument


def _checksum(probe: Probe, cpu: int | None, warmup: int) -> int:
    head = f"{cpu} {warmup} {[base.name for base in probe.bases]}".encode()
    return zlib.crc32(np.ascontiguousarray(probe.rows).tobytes(), zlib.crc32(head))


def _number(plain: Any) -> int:
    return plain if isinstance(plain, int) else zlib.crc32(msgspec.json.encode(plain))


class Answering:
    """A machine of which every answer passes through `answer`; `inner` is the machine behind it, None in a replay."""

    facts: Facts
    inner: Any = None

    def answer(self, call: Call, perform: Callable[[], Any]) -> Any:
        """What the machine answers, or answered."""
        raise NotImplementedError

    def close(self) -> None:
        """The machine belongs to whoever opened it."""


def _method(name: str, kind: Any) -> Callable[..., Any]:
    """A method that calls the machine, or takes the answer from the journal."""

    def target(self: Answering) -> Callable[..., Any]:
        machine = numbers_of(self.inner) if name in CAPABILITIES["numbers"][1] else self.inner
        found: Callable[..., Any] = getattr(machine, name)
        return found

    def method(self: Answering, *given: Any, **named: Any) -> Any:
        return self.answer(Call(name, kind, given, named), lambda: target(self)(*given, **named))

    @contextmanager
    def context(self: Answering, *given: Any) -> Iterator[Any]:
        with ExitStack() as stack:
            opened: list[Any] = []
            arguments = tuple(sorted(each) if name == "prefetchers_off" else list(each) for each in given)
            entering = Call(name, None, arguments, {})
            self.answer(entering, lambda: opened.append(stack.enter_context(target(self)(*given))))
            reading = Call("read", dict[str, Count], arguments, {})
            yield SimpleNamespace(read=lambda: self.answer(reading, lambda: opened[0].read()))

    return context if kind == CONTEXT else method


def _with(kind: type[Answering], capabilities: Collection[str]) -> Any:
    """The class with the methods of these capabilities."""
    kinds = dict(EVERY)
    for name, (_, own) in CAPABILITIES.items():
        kinds |= own if name in capabilities else {}
    methods: dict[str, Any] = {name: _method(name, each) for name, each in kinds.items()}
    return type(kind.__name__, (kind,), methods | ({"holds_numbers": True} if "numbers" in capabilities else {}))


def recorder_of(machine: Machine) -> Any:
    """A recorder with the capabilities of the machine."""
    return _with(Recorder, _capabilities(machine))(machine)


def replay_of(recording: Recording) -> Any:
    """A replay with the capabilities of the recorded machine. Raises `UsageError` for a damaged recording."""
    return _with(Replay, recording.capabilities)(recording)


def _capabilities(machine: Machine) -> tuple[str, ...]:
    return tuple(name for name, (protocol, _) in CAPABILITIES.items() if isinstance(machine, protocol))


# -- noting, and answering again --------------------------------------------------------------------------------------


class Recorder(Answering):
    """A machine that notes what another one answers. It copies ticks between runs, never while one goes on.

    Nothing is noted from the answer on that would make the recording larger than one that can be read: inference ends
    there for want of an answer."""

    def __init__(self, machine: Machine) -> None:
        self.inner, self.facts = machine, machine.facts
        self._ticks_left, self._bytes_left = MOST_TICKS, MOST_JOURNAL_BYTES
        self._journal: list[bytes] = []
        self._ticks: list[NDArray[Any]] = []

    def answer(self, call: Call, perform: Callable[[], Any]) -> Any:
        """Call the machine, and note its answer."""
        if call.kind == UNRECORDED:
            return perform()
        noted, arrays = Noted(call.method, _number(call.plain())), []
        try:
            found = perform()
        except UnsupportedError as error:
            self._note(msgspec.structs.replace(noted, refusal=str(error)), [])
            raise
        if call.kind in (TICKS, TOGETHER):
            arrays = [found] if call.kind == TICKS else [found[cpu] for cpu in call.given[0]]
            answer: Any = [each.shape for each in arrays]
        else:
            answer = (found.address, found.size) if call.kind is Region else found if call.kind else None
        self._note(msgspec.structs.replace(noted, answer=answer), arrays)
        return found

    def _note(self, noted: Noted, ticks: list[NDArray[Any]]) -> None:
        line = msgspec.json.encode(noted)
        self._ticks_left -= sum(each.size for each in ticks)
        self._bytes_left -= len(line) + 1
        if min(self._ticks_left, self._bytes_left) >= 0:
            self._journal.append(line)
            # half the memory where they fit, as ticks of an interval do unless the machine was stopped
            narrow = [bool(each.size and abs(each).max() < 1 << 31) for each in ticks]
            self._ticks += [np.array(each, (np.int64, np.int32)[few]) for each, few in zip(ticks, narrow, strict=True)]

    def recording(self) -> Recording:
        """Everything so far."""
        return Recording(
            facts=self.facts,
            capabilities=_capabilities(self.inner),
            journal=_packed([b"[", b",".join(self._journal), b"]"]),
            ticks=_packed(each.astype("<i8").tobytes() for each in self._ticks),
        )


class Replay(Answering):
    """A machine that answers as a recording says, as long as the calls are the same."""

    def __init__(self, recording: Recording) -> None:
        _check_facts(recording.facts)
        try:
            journal = msgspec.json.decode(_unpacked(recording.journal, MOST_JOURNAL_BYTES), type=list[Noted])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _damaged(str(error)) from error
        ticks = _unpacked(recording.ticks, 8 * MOST_TICKS)
        self.facts, self._journal, self._at = recording.facts, iter(journal), 0
        self._ticks = np.frombuffer(ticks[: len(ticks) // 8 * 8], dtype="<i8").astype(np.int64, copy=False)

    def answer(self, call: Call, perform: Callable[[], Any]) -> Any:
        """The answer of then."""
        if call.kind == UNRECORDED:
            return None
        plain, noted = call.plain(), next(self._journal, None)
        if noted is None or (noted.method, noted.arguments) != (call.method, _number(plain)):
            raise _unanswered(f"{call.method.replace('_', ' ')} {plain}")
        if noted.refusal is not None:
            raise UnsupportedError(noted.refusal)
        runs = call.kind in (TICKS, TOGETHER)
        kind: Any = list[tuple[int, int]] if runs else tuple[int, int] if call.kind is Region else call.kind
        try:
            found: Any = msgspec.convert(noted.answer, kind) if kind else None
        except msgspec.ValidationError as error:
            raise _damaged(str(error)) from error
        if call.kind is Region:
            return self._region(*found, *plain)
        if not runs:
            return found
        arrays = [self._taken(*shape) for shape in found]
        if {len(each) for each in arrays} != {call.rows()}:
            raise _unanswered(f"other repetitions of {call.given[0]}")
        return arrays[0] if call.kind == TICKS else dict(zip(call.given[0], arrays, strict=False))

    def _region(self, address: int, actual: int, size: int, page_size: int) -> Region:
        """A machine rounds up to its pages; a plug-in may give more, but hardly twice as much."""
        if address < 0 or not size <= actual <= 2 * size + page_size:
            raise _damaged(f"a region of {actual} bytes for {size} is impossible")
        return Region(address, actual, page_size, self.facts.line_size)

    def _taken(self, rows: int, columns: int) -> NDArray[np.int64]:
        size = rows * columns
        if rows < 0 or columns < 0 or size > len(self._ticks) - self._at:
            raise _damaged("its runs are of impossible size")
        self._at += size
        return self._ticks[self._at - size : self._at].reshape(rows, columns).copy()


def _unanswered(what: str) -> SetebenchError:
    return SetebenchError(f"the recording has no answer to {what[:120]}: this version has other probes; measure again")


def _damaged(why: str) -> UsageError:
    return UsageError(f"the recording is damaged: {why}")


# -- bytes ------------------------------------------------------------------------------------------------------------


def _packed(parts: Iterable[bytes]) -> str:
    """All parts, one after the other; they are never all in memory at their full width."""
    stream = bz2.BZ2Compressor()
    compressed = [stream.compress(part) for part in parts]
    return base64.b64encode(b"".join([*compressed, stream.flush()])).decode()


def _unpacked(text: str, most: int) -> bytes:
    try:
        stream = bz2.BZ2Decompressor()
        data = stream.decompress(base64.b64decode(text, validate=True), most + 1)
    except (ValueError, OSError, MemoryError) as error:
        raise _damaged(str(error)) from error
    if len(data) > most or not stream.eof:
        raise _damaged("it is cut short or too long")
    return data


def _check_facts(facts: Facts) -> None:
    sizes = (facts.line_size, *facts.page_sizes)
    cpus = max(len(facts.cpus), sum(map(len, facts.siblings)), len(facts.nodes))
    possible = (
        all(0 < size <= MOST_PAGE_BYTES and not size & (size - 1) for size in sizes)
        and 0 < len(facts.cpus) <= cpus <= MOST_CPUS
        and 0 <= facts.memory_bytes <= MOST_MEMORY_BYTES
        and all(math.isfinite(rate) and rate > 0 for rate in (facts.ticks_per_second, facts.lines_per_second))
    )
    if not possible:
        raise _damaged("its machine is impossible")
