"""Loops as probes: every access, prefetch and dependency of some iterations, for machines that have no loops of their
own (simulated ones, plug-ins).

A probe holds iterations before the clock starts, which bring prefetches and hardware prefetchers into their steady
state, and the timed ones. All lie in one table made by numpy, and the same probe runs again and again on other
addresses, by its placements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.loops.params import TraceParams
from setebench.loops.records import LINE_BYTES, Loop, Policy, Stream
from setebench.probe import HINTS, Base, InstructionAddress, Kind, Probe
from setebench.probe.table import COLUMNS

Ints = NDArray[np.int64]
ELEMENT_BYTES = 8
"""The narrowest access, which every machine has: a double or a pointer."""

ACCESS_BYTES = (64, 32, 16, 8)
"""Widths of accesses, the widest first: a stream takes the widest that the machine has and an access may be."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Which iterations a probe holds: `lead` before the clock starts, then `timed` ones; `access_sizes` are those that
    the machine has. `folded` streams stay within a few lines each, so that all of them fit level 1. `furthest` is how
    many iterations ahead any of the policies compared may prefetch, `ahead` how many this one does."""

    lead: int
    timed: int
    access_sizes: tuple[int, ...]
    furthest: int = 256
    ahead: int = 0
    folded: bool = False

    @property
    def iterations(self) -> int:
        """Iterations of the probe, timed or not."""
        return self.lead + self.timed


@dataclass(frozen=True)
class _Operation:
    """The same operation of every iteration: offsets in bytes, shape (iterations,), and the operation (of the same or
    an earlier iteration) whose value its address needs, as its number in the iteration and how many iterations ago."""

    kind: Kind
    base: int = -1
    offsets: Ints | None = None
    size: int = 0
    variant: int = 0
    count: int = 0
    after: tuple[int, int] | None = None


def trace(loop: Loop, policy: Policy, span: Span, rng: np.random.Generator) -> Probe:
    """The probe of a loop with a prefetch policy: one interval, one base per stream, named as the streams are.

    Two calls with generators of the same state and other policies go through the same addresses."""
    writer = _Writer(loop, policy, span, rng)
    for number in range(len(loop.streams)):
        writer.accesses(number)
    for number, stream in enumerate(loop.streams):
        if stream.prefetched and policy.stages:
            writer.prefetches(number)
    writer.add(_Operation(Kind.ADD, count=max(1, round(loop.cycles_per_iteration))))
    return _probe(writer.operations, loop, span)


def extent_bytes(loop: Loop, stream: Stream) -> int:
    """Bytes that the machine must have for a stream: what it says, or an equal part of the working set."""
    least = max(int(stream.bytes_per_iteration), abs(stream.stride_bytes), LINE_BYTES)
    return max(least, stream.extent_bytes or loop.working_set_bytes // len(loop.streams))


def moved_bytes(loop: Loop, stream: Stream) -> int:
    """By how much at most a stream in random order is moved from run to run, so that each goes to lines of its own."""
    return extent_bytes(loop, stream) // TraceParams().moved_part


def passed_bytes(stream: Stream, span: Span, furthest: int) -> int:
    """How far a stream that goes straight on comes in one probe, with prefetches of up to `furthest` iterations ahead;
    0 for a stream in random order."""
    if stream.pattern == "sequential":
        step = stream.bytes_per_iteration
    elif stream.pattern == "strided":
        step = abs(stream.stride_bytes) * stream.accesses_per_iteration
    else:
        return 0
    return math.ceil(step * (span.iterations + furthest)) + LINE_BYTES


class _Writer:
    """Writes the operations of one loop's iteration."""

    def __init__(self, loop: Loop, policy: Policy, span: Span, rng: np.random.Generator) -> None:
        self.operations: list[_Operation] = []
        self._loop = loop
        self._policy = policy
        self._span = span
        self._furthest = policy.furthest
        self._names = [stream.name for stream in loop.streams]
        self._loads: dict[tuple[int, int], int] = {}  # (stream, step) -> number of its latest load
        seeds = rng.integers(0, 1 << 62, len(loop.streams))
        self._random = [self._elements(stream, int(seed)) for stream, seed in zip(loop.streams, seeds, strict=True)]

    def add(self, operation: _Operation) -> int:
        """Append an operation and return its number."""
        self.operations.append(operation)
        return len(self.operations) - 1

    # -- addresses ---------------------------------------------------------------------------------------------------

    def _elements(self, stream: Stream, seed: int) -> Ints:
        """Random offsets for every iteration, access and step, shape (iterations, accesses, steps), in all of the
        stream's extent but the part by which placements move them."""
        if stream.pattern in ("sequential", "strided"):
            return np.zeros((0, 0, 0), dtype=np.int64)
        lines = max(1, (extent_bytes(self._loop, stream) - moved_bytes(self._loop, stream)) // LINE_BYTES)
        # counted from the last iteration backwards, so that a longer lead leaves the timed iterations their addresses
        count = self._span.timed + 2 * TraceParams().most_lead
        shape = (count, _accesses(stream), stream.steps)
        return np.random.default_rng(seed).integers(0, lines, shape) * LINE_BYTES

    def _offsets(self, number: int, access: int, shift: int, step: int = 0) -> Ints:
        """Offsets of an access of the iteration `shift` ahead, for every iteration; shape (iterations,)."""
        stream = self._loop.streams[number]
        i = np.arange(self._span.iterations, dtype=np.int64) + shift
        if stream.pattern == "sequential":
            offsets = (i * stream.bytes_per_iteration).astype(np.int64) + access * self._access_bytes(stream)
        elif stream.pattern == "strided":
            offsets = (i * _accesses(stream) + access) * stream.stride_bytes
        else:
            offsets = self._random[number][i - self._span.lead + TraceParams().most_lead, access, step]
        if self._span.folded:
            return offsets % LINE_BYTES
        extent = extent_bytes(self._loop, stream) // LINE_BYTES * LINE_BYTES
        return offsets % extent if passed_bytes(stream, self._span, self._span.furthest) > extent else offsets

    def _access_bytes(self, stream: Stream) -> int:
        each = stream.bytes_per_iteration / _accesses(stream)
        fitting = [size for size in ACCESS_BYTES if size in self._span.access_sizes and size <= each]
        return fitting[0] if fitting else ELEMENT_BYTES

    # -- accesses ----------------------------------------------------------------------------------------------------

    def accesses(self, number: int) -> None:
        """The loads and stores of a stream; the steps of a lookup are those of different lookups where it is
        prefetched."""
        stream = self._loop.streams[number]
        for access in range(_accesses(stream)):
            for step in range(stream.steps):
                self._access(number, access, step)

    def _access(self, number: int, access: int, step: int) -> None:
        stream = self._loop.streams[number]
        behind = step * self._furthest if stream.prefetched else 0
        offsets = self._offsets(number, access, -behind, step)
        size = self._access_bytes(stream)
        if stream.writes and stream.pattern == "sequential":
            self.add(_Operation(Kind.STORE, number, offsets, size=size))
            return
        after = self._needed(number, step, behind)
        load = self.add(_Operation(Kind.LOAD, number, offsets, size=size, after=after))
        self._loads[number, step] = load
        if stream.writes:
            self.add(_Operation(Kind.STORE, number, offsets, size=size))

    def _needed(self, number: int, step: int, behind: int) -> tuple[int, int] | None:
        """What the address of a load of that step needs, `behind` iterations after its lookup began."""
        stream = self._loop.streams[number]
        if stream.pattern == "chase":
            own = self._loads.get((number, 0))
            return (own, 0) if own is not None else (len(self.operations), 1)
        if step:
            return (self._loads[number, step - 1], self._furthest if stream.prefetched else 0)
        if stream.via:
            return (self._loads[self._names.index(stream.via), 0], behind)
        return None

    # -- prefetches --------------------------------------------------------------------------------------------------

    def prefetches(self, number: int) -> None:
        """The prefetches of a stream, furthest stage first."""
        for _, distance, hint in self._policy.parts:
            self._stage(number, distance, HINTS.index(hint))

    def _stage(self, number: int, distance: int, hint: int) -> None:
        stream = self._loop.streams[number]
        if stream.pattern == "sequential":
            for line in range(max(1, math.ceil(stream.lines_per_iteration))):
                offsets = self._offsets(number, 0, distance) + (0 if self._span.folded else line * LINE_BYTES)
                self._prefetch(number, offsets, hint, None)
            return
        for access in range(_accesses(stream)):
            for step in range(stream.steps):
                # the iteration whose step is due `distance` iterations from now
                offsets = self._offsets(number, access, distance - step * self._furthest, step)
                self._prefetch(number, offsets, hint, self._known(number, step, distance))

    def _known(self, number: int, step: int, distance: int) -> tuple[int, int] | None:
        """What a prefetch's address needs: the step before, or an index that is loaded ahead for it."""
        stream = self._loop.streams[number]
        if step:
            return (self._loads[number, step - 1], self._furthest - distance)
        if not stream.via:
            return None
        source = self._names.index(stream.via)
        offsets = self._offsets(source, 0, distance)
        size = self._access_bytes(self._loop.streams[source])
        return (self.add(_Operation(Kind.LOAD, source, offsets, size=size)), 0)

    def _prefetch(self, number: int, offsets: Ints, hint: int, after: tuple[int, int] | None) -> None:
        more = math.ceil(self._loop.streams[number].address_cycles) - 1
        if more > 0:
            self.add(_Operation(Kind.NOP, count=more))
        self.add(_Operation(Kind.PREFETCH, number, offsets, variant=hint, after=after))


def _accesses(stream: Stream) -> int:
    return max(1, round(stream.accesses_per_iteration))


def _probe(operations: list[_Operation], loop: Loop, span: Span) -> Probe:
    """All iterations, with the clock started behind the lead. Each operation on memory has one instruction address in
    all iterations, as in a loop."""
    each = len(operations)
    accesses = [k for k, operation in enumerate(operations) if operation.base >= 0]
    rows = np.zeros((span.iterations, each, len(COLUMNS)), dtype=np.int64)
    for k, operation in enumerate(operations):
        _fill(rows[:, k], operation, accesses.index(k) if k in accesses else -1, each)
    table = rows.reshape(-1, len(COLUMNS))
    begin = span.lead * each
    table[begin:, 7][table[begin:, 7] >= begin] += 1  # rows behind the start move down by one
    before, behind = Probe().start(), Probe().stop()
    packed = table[:begin].tobytes() + before.packed + table[begin:].tobytes() + behind.packed
    addresses = tuple(InstructionAddress(f"{loop.name}.{k}") for k in accesses)
    return Probe(packed, tuple(Base(stream.name) for stream in loop.streams), addresses)


def _fill(rows: Ints, operation: _Operation, address: int, each: int) -> None:
    """Write one operation's column of rows, shape (iterations, columns), with the number of its instruction address."""
    rows[:, 0] = int(operation.kind)
    rows[:, 1] = operation.base
    if operation.offsets is not None:
        rows[:, 2] = operation.offsets
    rows[:, 3:6] = (operation.size, operation.variant, operation.count)
    rows[:, 6] = address
    rows[:, 7] = -1
    if operation.after is not None:
        source, ago = operation.after
        needed = (np.arange(len(rows)) - ago) * each + source
        rows[:, 7] = np.where(needed >= 0, needed, -1)
    rows[:, 8] = -1
