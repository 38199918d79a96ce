"""Loops as probes: every access, prefetch and dependency of some iterations, for machines that have no loops of their
own (simulated ones, plug-ins).

A probe holds iterations before the clock starts, which bring prefetches and hardware prefetchers into their steady
state, and the timed ones. All lie in one table made by numpy, and the same probe runs again and again on other
addresses, by its placements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import cycles_per_tick
from setebench.loops.protocol import RunsLoops
from setebench.loops.records import LINE_BYTES, Loop, Policy, Stream
from setebench.loops.shapes import LOOP_NAMES, RESIDENT, shape
from setebench.machine import Machine, Region, SwitchesPrefetchers
from setebench.probe import HINTS, Base, InstructionAddress, Kind, Probe
from setebench.probe.table import COLUMNS
from setebench.scenario import Context

Ints = NDArray[np.int64]
ELEMENT_BYTES = 8
"""The narrowest access, which every machine has: a double or a pointer."""

PAGE_BYTES = 4096
"""The smallest page, in which addresses meet in the same set of level 1."""


@dataclass(frozen=True, kw_only=True)
class TraceParams:
    """How loops run as probes."""

    lead: int = 32  # iterations before the clock starts, beside those of `turns`: any stream starts in so many
    turns: int = 3  # furthest distances before the clock: where prefetches drop, slow and fast stretches take turns
    timed: int = 128  # iterations timed at least; and two furthest distances, a slow stretch and a fast one
    most: int = 2048  # iterations before the clock, and timed ones, at most
    moved_part: int = 16  # a stream in random order moves by up to one of so many parts of it from run to run
    warmed_bytes: int = 32 << 20  # working sets up to so large are passed once before: of more, a cache keeps little
    rounds: int = 3  # passes of which the median describes a loop: it bears one that was disturbed


PARAMS = TraceParams()


def loops_of(machine: Machine) -> AbstractContextManager[RunsLoops]:
    """The machine's loops: its own (`RunsLoops`), else traces, whose memory goes back at the context's end."""
    if isinstance(machine, RunsLoops):
        return nullcontext(machine)
    return closing(TracedLoops(machine))


class TracedLoops:
    """`RunsLoops` for a machine that runs probes only. `own` may be loops of one's own."""

    def __init__(self, machine: Machine, own: Sequence[Loop] = ()) -> None:
        self._machine = machine
        self._own = {loop.name: loop for loop in own}
        self._regions: dict[str, tuple[Region, list[int]]] = {}
        self._cycles_per_tick = 0.0
        self._places = np.random.default_rng(1)  # one for all runs: none may find what another one left

    def close(self) -> None:
        """Give the memory of all loops back."""
        for region, _ in self._regions.values():
            self._machine.release(region)
        self._regions = {}

    def loop_names(self) -> tuple[str, ...]:
        """See `RunsLoops`."""
        return (*LOOP_NAMES, *self._own)

    def describe_loop(self, name: str) -> Loop:
        """See `RunsLoops`."""
        loop = self._loop(name)
        self._cycles_per_tick = self._cycles_per_tick or cycles_per_tick(Context(machine=self._machine))
        sizes = (f"{name.partition('@')[0]}@{RESIDENT}", name)
        work, now = (
            float(np.median(self.run_loop(each, (Policy(),), PARAMS.rounds))) * self._cycles_per_tick for each in sizes
        )
        return msgspec.structs.replace(
            loop, cycles_per_iteration=work / loop.iterations, measured_cycles=now / loop.iterations
        )

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """See `RunsLoops`."""
        if any(policy.compiler for policy in policies):
            raise UnsupportedError(
                f"{self._machine.facts.name}: a trace isn't compiled, so no compiler adds prefetches"
            )
        loop, rng = self._loop(name), np.random.default_rng((seed, 0x100B))
        spans = [Span.of(policy) for policy in policies]
        probes = [trace(loop, policy, span, seed) for policy, span in zip(policies, spans, strict=True)]
        region, begins = self._memory(loop)
        ticks = np.empty((rounds, len(policies)), dtype=np.int64)
        for row in ticks:
            for which in rng.permutation(len(policies)):
                places = {
                    Base(stream.name): region.address
                    + begin
                    + int(self._places.integers(0, _room(stream, loop, spans[which]) // LINE_BYTES + 1)) * LINE_BYTES
                    for stream, begin in zip(loop.streams, begins, strict=True)
                }
                with self._switched(policies[which].hardware, cpu):
                    taken = self._machine.run(probes[which], places, cpu=cpu)[0, 0]
                row[which] = round(taken * loop.iterations / spans[which].timed)
        return ticks

    def check_loop(self, name: str) -> None:
        """A trace computes nothing that could be wrong; raises `UsageError` for an unknown name."""
        self._loop(name)

    def _loop(self, name: str) -> Loop:
        return self._own[name] if name in self._own else shape(name)

    def _switched(self, hardware: bool, cpu: int | None) -> AbstractContextManager[None]:
        if hardware:
            return nullcontext()
        machine = self._machine
        switches = machine.prefetcher_switches() if isinstance(machine, SwitchesPrefetchers) else ()
        if not isinstance(machine, SwitchesPrefetchers) or not switches:
            raise UnsupportedError(f"{machine.facts.name}: its hardware prefetchers can't be switched off")
        cpus = [machine.facts.cpus[0] if cpu is None else cpu]
        return machine.prefetchers_off([switch.name for switch in switches], cpus)

    def _memory(self, loop: Loop) -> tuple[Region, list[int]]:
        """One region, in the machine's largest pages, as programs get them for large arrays, and where each stream
        begins in it. Data that a cache may hold are passed once, so that runs of a few lines find them there."""
        if loop.name not in self._regions:
            begins, size = [], 0
            for number, stream in enumerate(loop.streams):
                # streams that begin at pages would all share a set of level 1: each is a line further than the last
                begins.append(size + number * LINE_BYTES % PAGE_BYTES)
                size += ((_extent(stream, loop) + abs(stream.stride_bytes)) // PAGE_BYTES + 2) * PAGE_BYTES
            region = self._machine.allocate(size, max(self._machine.facts.page_sizes))
            self._regions[loop.name] = (region, begins)
            where = Base("stream")
            for stream, begin in zip(loop.streams, begins, strict=True):
                if loop.working_set_bytes <= PARAMS.warmed_bytes:
                    body = Probe().load(where)
                    probe = Probe().start().repeat(_extent(stream, loop) // LINE_BYTES, body, advance=LINE_BYTES).stop()
                    self._machine.run(probe, {where: region.address + begin})
        return self._regions[loop.name]


# -- one probe --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Span:
    """Which iterations a probe holds: `lead` before the clock starts, then `timed` ones."""

    lead: int
    timed: int

    @classmethod
    def of(cls, policy: Policy) -> Span:
        """What is timed are whole turns: iterations that nobody prefetched for leave time for all their prefetches, so
        that those a distance later are fast, and leave time for few; a pass of half a turn would be either."""
        furthest = policy.furthest
        return cls(
            lead=min(PARAMS.most, PARAMS.lead + PARAMS.turns * furthest),
            timed=min(PARAMS.most, max(PARAMS.timed, 2 * furthest)),
        )


@dataclass(frozen=True)
class _Operation:
    """The same operation of every iteration: offsets in bytes, shape (iterations,), and the operation (of the same or
    an earlier iteration) whose value its address needs, as its number in the iteration and how many iterations ago."""

    kind: Kind
    base: int = -1
    offsets: Ints | int = 0
    variant: int = 0
    count: int = 0
    after: tuple[int, int] | None = None


def trace(loop: Loop, policy: Policy, span: Span, seed: int) -> Probe:
    """The probe of a loop with a prefetch policy: one interval, one base per stream, named as the streams are. Calls
    with the same seed and other policies go through the same addresses."""
    body = _Body(loop, policy, span, seed)
    for number in range(len(loop.streams)):
        body.accesses(number)
    for number, stream in enumerate(loop.streams):
        if stream.prefetched:
            for _, distance, hint in policy.parts:
                body.prefetches(number, distance, HINTS.index(hint))
    body.add(_Operation(Kind.ADD, count=max(1, round(loop.cycles_per_iteration))))
    return _probe(body.operations, loop, span)


def _extent(stream: Stream, loop: Loop) -> int:
    """Bytes that the machine must have for a stream: what it says, or an equal part of the working set."""
    extent = stream.extent_bytes or loop.working_set_bytes // len(loop.streams)
    return max(LINE_BYTES, extent // LINE_BYTES * LINE_BYTES)


def _passed(stream: Stream, span: Span) -> int:
    """How far a regular stream comes in one probe, prefetches included."""
    return math.ceil(abs(stream.step_bytes) * (span.lead + 2 * span.timed)) + LINE_BYTES


def _room(stream: Stream, loop: Loop, span: Span) -> int:
    """By how many bytes at most a stream is moved from run to run, so that each goes to lines of its own: within a
    stride where it goes round within the probe."""
    if stream.regular:
        return max(0, _extent(stream, loop) - _passed(stream, span), abs(stream.stride_bytes) - LINE_BYTES)
    return _extent(stream, loop) // PARAMS.moved_part


class _Body:
    """The operations of one iteration."""

    def __init__(self, loop: Loop, policy: Policy, span: Span, seed: int) -> None:
        self.operations: list[_Operation] = []
        self._loop, self._furthest, self._span, self._seed = loop, policy.furthest, span, seed
        self._loads: dict[tuple[int, int], int] = {}  # (stream, step) -> number of its latest load

    def add(self, operation: _Operation) -> int:
        """Append an operation and return its number."""
        self.operations.append(operation)
        return len(self.operations) - 1

    def accesses(self, number: int) -> None:
        """The loads and stores of a stream. The steps of a lookup that is prefetched are those of different lookups, as
        far apart as the furthest prefetch."""
        stream = self._loop.streams[number]
        lag = self._furthest if stream.prefetched else 0
        for access in range(stream.accesses):
            for step in range(stream.steps):
                offsets = self._offsets(number, -step * lag, step, access)
                if not stream.writes or stream.pattern != "sequential":
                    after = self._needed(number, step, lag)
                    self._loads[number, step] = self.add(_Operation(Kind.LOAD, number, offsets, after=after))
                if stream.writes:
                    self.add(_Operation(Kind.STORE, number, offsets))

    def _needed(self, number: int, step: int, lag: int) -> tuple[int, int] | None:
        """The load whose value the address of this load is made of."""
        stream = self._loop.streams[number]
        if stream.pattern == "chase":
            own = self._loads.get((number, 0))
            return (len(self.operations), 1) if own is None else (own, 0)
        if step:
            return (self._loads[number, step - 1], lag)
        return (self._loads[self._number(stream.via), 0], 0) if stream.via else None

    def prefetches(self, number: int, distance: int, hint: int) -> None:
        """The prefetches of one stage for a stream, each for the access that is due `distance` iterations from now."""
        stream = self._loop.streams[number]
        if stream.pattern == "sequential":
            for line in range(max(1, math.ceil(stream.lines_per_iteration))):
                self._prefetch(number, self._offsets(number, distance) + line * LINE_BYTES, hint)
            return
        for access in range(stream.accesses):
            for step in range(stream.steps):
                offsets = self._offsets(number, distance - step * self._furthest, step, access)
                after = None
                if step:
                    after = (self._loads[number, step - 1], self._furthest - distance)
                elif stream.via:
                    via = self._number(stream.via)
                    after = (self.add(_Operation(Kind.LOAD, via, self._offsets(via, distance))), 0)
                self._prefetch(number, offsets, hint, after)

    def _prefetch(self, number: int, offsets: Ints, hint: int, after: tuple[int, int] | None = None) -> None:
        more = math.ceil(self._loop.streams[number].address_cycles) - 1
        if more > 0:
            self.add(_Operation(Kind.NOP, count=more))
        self.add(_Operation(Kind.PREFETCH, number, offsets, variant=hint, after=after))

    def _number(self, name: str) -> int:
        return [stream.name for stream in self._loop.streams].index(name)

    def _offsets(self, number: int, shift: int, step: int = 0, access: int = 0) -> Ints:
        """Offsets of an access of the iteration `shift` ahead, for every iteration; shape (iterations,)."""
        stream, span = self._loop.streams[number], self._span
        extent = _extent(stream, self._loop)
        i = np.arange(span.lead + span.timed, dtype=np.int64) + shift
        if not stream.regular:
            # counted from the first timed iteration, so that another lead leaves the timed ones their addresses
            rng = np.random.default_rng((self._seed, number, step, access))
            lines = max(1, (extent - _room(stream, self._loop, span)) // LINE_BYTES)
            drawn = rng.integers(0, lines, 4 * PARAMS.most)
            return np.asarray(drawn[i - span.lead + 2 * PARAMS.most] * LINE_BYTES, dtype=np.int64)
        offsets = (i * stream.step_bytes).astype(np.int64) + access * (stream.stride_bytes or ELEMENT_BYTES)
        if _passed(stream, span) <= extent:
            return offsets if stream.step_bytes > 0 else offsets + extent - LINE_BYTES
        # where it goes round it goes on a line further
        return (offsets + offsets // extent * LINE_BYTES) % extent


def _probe(operations: list[_Operation], loop: Loop, span: Span) -> Probe:
    """All iterations, with the clock started behind the lead. Each operation on memory has one instruction address in
    all iterations, as in a loop."""
    each = len(operations)
    accesses = [k for k, operation in enumerate(operations) if operation.base >= 0]
    column = {name: index for index, name in enumerate(COLUMNS)}
    rows = np.zeros((span.lead + span.timed, each, len(COLUMNS)), dtype=np.int64)
    rows[:, :, [column["ip"], column["after"], column["interval"]]] = -1
    for k, operation in enumerate(operations):
        own = rows[:, k]
        own[:, column["kind"]], own[:, column["base"]] = operation.kind, operation.base
        own[:, column["offset"]] = operation.offsets
        own[:, column["variant"]], own[:, column["count"]] = operation.variant, operation.count
        if operation.kind in (Kind.LOAD, Kind.STORE):
            own[:, column["size"]] = ELEMENT_BYTES
        if operation.base >= 0:
            own[:, column["ip"]] = accesses.index(k)
        if operation.after is not None:
            source, ago = operation.after
            needed = (np.arange(len(rows)) - ago) * each + source
            own[:, column["after"]] = np.where(needed >= 0, needed, -1)
    table, begin = rows.reshape(-1, len(COLUMNS)), span.lead * each
    after = table[begin:, column["after"]]
    after[after >= begin] += 1  # rows behind the start move down by one
    packed = table[:begin].tobytes() + Probe().start().packed + table[begin:].tobytes() + Probe().stop().packed
    addresses = tuple(InstructionAddress(f"{loop.name}.{k}") for k in accesses)
    return Probe(packed, tuple(Base(stream.name) for stream in loop.streams), addresses)
