"""What a machine answers, kept in a result file, so that inference can be run on it later without the machine.

A recorder stands before a machine and notes every answer; a replay gives the same answers to the same calls. A scenario
draws at random from its seed, so with the same ticks it makes the same calls; a replay refuses any others. What is read
from a file is not trusted: a scenario takes memory in proportion to what a machine claims of itself.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from itertools import chain
from types import FunctionType, SimpleNamespace
from typing import Any, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count, CountsEvents
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops.records import RunsLoops
from setebench.machine import (
    BindsMemory,
    Facts,
    Machine,
    Region,
    SwitchesPrefetchers,
    Ticks,
)
from setebench.probe import Probe

EVIDENCE_PREFIX = "recording."
MOST_TICKS = 1 << 26  # half a gigabyte, twice what the longest scenario answers on a CPU of today
MOST_JOURNAL_BYTES = 1 << 25  # unpacked; a call takes some thirty
MOST_NAMED = 1 << 14  # CPUs in all lists of them, twice Linux's limit; scenarios go through pairs of CPUs

CAPABILITIES = (BindsMemory, SwitchesPrefetchers, CountsEvents, RunsLoops)
"""Protocols of methods that not every machine has; a recording names them."""


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """A call of a machine's method: its name, a checksum of the arguments, and the answer, or why it was refused. Of
    runs the answer is the shapes of the ticks, of memory its address and size."""

    method: str
    arguments: int
    answer: Any = None
    refusal: str | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a result file keeps, compressed (bzip2), in base64 as JSON has bytes: the `journal` of calls (`Noted`, as
    JSON) in their order, and the `ticks` of all runs in sequence, as little-endian int64. `capabilities` are the
    optional methods that the machine has."""

    facts: Facts
    capabilities: tuple[str, ...]
    journal: bytes
    ticks: bytes


def recording_of(evidence: Mapping[str, Any], scenario: str) -> Recording:
    """The recording of a scenario in a document's evidence. Raises `UsageError` for none, or a damaged one."""
    record = evidence.get(f"{EVIDENCE_PREFIX}{scenario}")
    if record is None:
        raise UsageError(f"it holds no recording of {scenario}; record one with --raw, or characterize -o FILE")
    try:
        return msgspec.convert(record, type=Recording)
    except msgspec.ValidationError as error:
        raise UsageError(f"its recording of {scenario} is damaged: {error}; measure again") from error


def without_recordings(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence that people read."""
    return {name: each for name, each in evidence.items() if not name.startswith(EVIDENCE_PREFIX)}


# -- the methods of machines ------------------------------------------------------------------------------------------


@cache
def _kinds(protocol: Any) -> dict[str, Any]:
    """The methods that a protocol has, with what they return."""
    own = {name: each for name, each in vars(protocol).items() if isinstance(each, FunctionType) and name[0] != "_"}
    return {name: get_type_hints(each)["return"] for name, each in own.items() if name != "close"}


def _method(name: str, kind: Any) -> Callable[..., Any]:
    """A method of which every answer passes through the machine's `answer`: with what kind of thing is answered, what
    identifies the arguments, and how the machine behind it, `inner`, is called."""

    def method(self: Any, *given: Any, **named: Any) -> Any:
        call = [_plain(each) for each in (*given, *([dict(sorted(named.items()))] if named else []))]
        return self.answer(name, kind, call, lambda: getattr(self.inner, name)(*given, **named))

    @contextmanager
    def context(self: Any, *given: Any) -> Iterator[Any]:
        with ExitStack() as stack:
            call, opened = [_plain(each) for each in given], []
            self.answer(
                name, bool | None, call, lambda: opened.append(stack.enter_context(getattr(self.inner, name)(*given)))
            )
            yield SimpleNamespace(read=lambda: self.answer("read", dict[str, Count], call, lambda: opened[0].read()))

    return context if get_origin(kind) is AbstractContextManager else method


def _plain(argument: Any) -> Any:
    """What identifies an argument. Addresses are left out: those follow from the seed and the regions."""
    if isinstance(argument, Region):
        return argument.size
    if isinstance(argument, Probe):
        names = f"{[base.name for base in argument.bases]}".encode()
        return zlib.crc32(np.ascontiguousarray(argument.rows).tobytes(), zlib.crc32(names))
    if isinstance(argument, Mapping):
        return [[getattr(key, "name", key), _plain(each)] for key, each in argument.items()]
    if isinstance(argument, np.ndarray):
        return argument.size
    return sorted(argument) if isinstance(argument, (set, frozenset)) else argument


def _with(kind: type, capabilities: Collection[str]) -> Any:
    """The class with the methods of these capabilities."""
    protocols = [Machine, *(each for each in CAPABILITIES if each.__name__ in capabilities)]
    methods = {name: _method(name, each) for protocol in protocols for name, each in _kinds(protocol).items()}
    return type(kind.__name__, (kind,), {**methods, "close": lambda _self: None})


def recorder_of(machine: Machine) -> Any:
    """A recorder with the capabilities of the machine."""
    return _with(Recorder, [each.__name__ for each in CAPABILITIES if isinstance(machine, each)])(machine)


def replay_of(recording: Recording) -> Any:
    """A replay with the capabilities of the recorded machine. Raises `UsageError` for a damaged recording."""
    return _with(Replay, recording.capabilities)(recording)


# -- noting, and answering again --------------------------------------------------------------------------------------


class Recorder:
    """A machine that notes what another one answers. It copies ticks between runs, never while one goes on."""

    def __init__(self, machine: Machine) -> None:
        self.inner, self.facts = machine, machine.facts
        self._journal: list[bytes] = []
        self._ticks: list[bytes] = []

    def answer(self, name: str, kind: Any, call: list[Any], perform: Callable[[], Any]) -> Any:
        """Call the machine, and note its answer."""
        if kind is type(None):
            return perform()
        try:
            found = perform()
        except UnsupportedError as error:
            self._journal.append(msgspec.json.encode(Noted(name, _checksum(call), None, str(error))))
            raise
        self._journal.append(msgspec.json.encode(Noted(name, _checksum(call), self._kept(found))))
        return found

    def _kept(self, found: Any) -> Any:
        """What the journal says of an answer; ticks are kept beside it."""
        if isinstance(found, Region):
            return found.address, found.size
        if isinstance(found, np.ndarray):
            self._ticks.append(np.asarray(found, "<i8").tobytes())
            return found.shape
        if isinstance(found, dict) and any(isinstance(each, np.ndarray) for each in found.values()):
            return [[cpu, self._kept(each)] for cpu, each in found.items()]
        return found

    def recording(self) -> Recording:
        """Everything so far."""
        return Recording(
            facts=self.facts,
            capabilities=tuple(sorted(each.__name__ for each in CAPABILITIES if isinstance(self.inner, each))),
            journal=bz2.compress(b"[" + b",".join(self._journal) + b"]"),
            ticks=bz2.compress(b"".join(self._ticks)),
        )


class Replay:
    """A machine that answers as a recording says, as long as the calls are the same."""

    def __init__(self, recording: Recording) -> None:
        facts = recording.facts
        named = [*facts.cpus, *chain.from_iterable(facts.siblings), *facts.nodes]
        sizes = (facts.line_size, *facts.page_sizes)
        if not facts.cpus or len(named) > MOST_NAMED or any(size & (size - 1) for size in sizes):
            raise _damaged("its machine is impossible")
        try:
            journal = msgspec.json.decode(_unpacked(recording.journal, MOST_JOURNAL_BYTES), type=list[Noted])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _damaged(str(error)) from error
        ticks = _unpacked(recording.ticks, 8 * MOST_TICKS)
        self.inner, self.facts, self._journal, self._at = None, recording.facts, iter(journal), 0
        self._ticks = np.frombuffer(ticks[: len(ticks) // 8 * 8], dtype="<i8").astype(np.int64, copy=False)

    def answer(self, name: str, kind: Any, call: list[Any], perform: Callable[[], Any]) -> Any:
        """The answer of then."""
        if kind is type(None):
            return None
        noted = next(self._journal, None)
        if noted is None or (noted.method, noted.arguments) != (name, _checksum(call)):
            what = f"{name.replace('_', ' ')} {call}"[:120]
            raise SetebenchError(f"the recording has no answer to {what}: this version has other probes; measure again")
        if noted.refusal is not None:
            raise UnsupportedError(noted.refusal)
        shapes = {Region: tuple[int, int], Ticks: tuple[int, int], dict[int, Ticks]: list[tuple[int, tuple[int, int]]]}
        try:
            found: Any = msgspec.convert(noted.answer, shapes.get(kind, kind))
        except msgspec.ValidationError as error:
            raise _damaged(str(error)) from error
        if kind is Region:
            (address, actual), (size, page_size) = found, call[:2]
            if address < 0 or not size <= actual <= 2 * size + page_size:  # a plug-in may round up, but hardly so far
                raise _damaged(f"a region of {actual} bytes for {size} is impossible")
            return Region(address, actual, page_size, self.facts.line_size)
        if kind == Ticks:
            return self._taken(*found)
        return {cpu: self._taken(*shape) for cpu, shape in found} if kind == dict[int, Ticks] else found

    def _taken(self, rows: int, columns: int) -> NDArray[np.int64]:
        size = rows * columns
        if rows < 0 or columns < 0 or size > len(self._ticks) - self._at:
            raise _damaged("its runs are of impossible size")
        self._at += size
        return self._ticks[self._at - size : self._at].reshape(rows, columns).copy()


def _checksum(call: list[Any]) -> int:
    return zlib.crc32(msgspec.json.encode(call, enc_hook=lambda number: number.item()))


def _damaged(why: str) -> UsageError:
    return UsageError(f"the recording is damaged: {why}")


# -- bytes ------------------------------------------------------------------------------------------------------------


def _unpacked(packed: bytes, most: int) -> bytes:
    try:
        stream = bz2.BZ2Decompressor()
        data = stream.decompress(packed, most + 1)
    except (OSError, MemoryError) as error:
        raise _damaged(str(error)) from error
    if len(data) > most or not stream.eof:
        raise _damaged("it is cut short or too long")
    return data
