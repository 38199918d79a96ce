"""Loops as probes: every access, prefetch and dependency of some iterations, for machines that have no loops of their
own (simulated ones, plug-ins).

A probe holds iterations before the clock starts, which bring prefetches and hardware prefetchers into their steady
state, and the timed ones. All lie in one table made by numpy, and the same probe runs again and again on other
addresses, by its placements.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.loops.records import LINE_BYTES, PAGE_BYTES, Loop, Policy, RunsLoops, Stream
from setebench.loops.shapes import NUMBER_BYTES, shape
from setebench.machine import Machine, Region
from setebench.probe import HINTS, Base, InstructionAddress, Kind, Probe
from setebench.probe.table import COLUMNS
from setebench.text import MEBI

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TraceParams:
    """How loops run as probes."""

    timed: int = 128  # iterations before the clock starts, and timed ones, at least; and two furthest distances
    drawn: int = 8192  # iterations after which a stream in random order begins again, more than any probe has
    warmed_bytes: int = 32 * MEBI  # working sets up to so large are passed once before: of more, a cache keeps little
    moved_part: int = 16  # a stream in random order moves by up to one of so many parts of it from run to run


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
        self._places = np.random.default_rng(1)  # one for all runs: none may find what another one left

    def close(self) -> None:
        """Give the memory of all loops back."""
        for region, _ in self._regions.values():
            self._machine.release(region)
        self._regions = {}

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """See `RunsLoops`."""
        loop, rng = self._own.get(name) or shape(name), np.random.default_rng((seed, 0x100B))
        timed = [max(PARAMS.timed, 2 * policy.furthest) for policy in policies]
        probes = [trace(loop, policy, each, seed) for policy, each in zip(policies, timed, strict=True)]
        region, begins = self._memory(loop)
        ticks = np.empty((rounds, len(policies)), dtype=np.int64)
        for row in ticks:
            for which in rng.permutation(len(policies)):
                places = {
                    Base(stream.name): region.address
                    + begin
                    + int(self._places.integers(0, _room(stream, timed[which]) // LINE_BYTES + 1)) * LINE_BYTES
                    for stream, begin in zip(loop.streams, begins, strict=True)
                }
                taken = self._machine.run(probes[which], places, cpu=cpu)[0, 0]
                row[which] = round(taken * loop.iterations / timed[which])
        return ticks

    def _memory(self, loop: Loop) -> tuple[Region, list[int]]:
        """One region, in the machine's largest pages, as programs get them for large arrays, and where each stream
        begins in it. Data that a cache may hold are passed once, so that runs of a few lines find them there."""
        if loop.name not in self._regions:
            begins, size = [], 0
            for number, stream in enumerate(loop.streams):
                # streams that begin at pages would all share a set of level 1: each is a line further than the last
                begins.append(size + number * LINE_BYTES % PAGE_BYTES)
                size += ((stream.extent_bytes + abs(stream.stride_bytes)) // PAGE_BYTES + 2) * PAGE_BYTES
            region = self._machine.allocate(size, max(self._machine.facts.page_sizes))
            self._regions[loop.name] = (region, begins)
            if loop.working_set_bytes <= PARAMS.warmed_bytes:
                passed = Probe().repeat(size // LINE_BYTES, Probe().load(Base("all")), advance=LINE_BYTES)
                self._machine.run(passed, {Base("all"): region.address})
        return self._regions[loop.name]


# -- one probe --------------------------------------------------------------------------------------------------------


def _passed(stream: Stream, timed: int) -> int:
    """How far a regular stream comes in one probe, prefetches included."""
    return int(stream.step_bytes * 3 * timed) + LINE_BYTES


def _room(stream: Stream, timed: int) -> int:
    """By how many bytes at most a stream is moved from run to run, so that each goes to lines of its own: within a
    stride where it goes round within the probe."""
    if stream.regular:
        return max(0, stream.extent_bytes - _passed(stream, timed), stream.stride_bytes - LINE_BYTES)
    return stream.extent_bytes // PARAMS.moved_part


def trace(loop: Loop, policy: Policy, timed: int, seed: int) -> Probe:
    """The probe of a loop with a prefetch policy: one interval of so many iterations behind as many that aren't timed,
    one base per stream, named as the streams are. What is timed are whole turns of two furthest distances: iterations
    that nobody prefetched for leave time for all their prefetches, so that those a distance later are fast, and leave
    time for few. Calls with the same seed and other policies go through the same addresses."""
    body = _Body(loop, timed, seed)
    for number, stream in enumerate(loop.streams):
        body.accesses(number, policy.furthest if stream.prefetched else 0)
    for number, stream in enumerate(loop.streams):
        for _, distance, hint in policy.parts if stream.prefetched else ():
            body.prefetches(number, distance, policy.furthest, HINTS.index(hint))
    body.add(Kind.ADD, count=max(1, round(loop.cycles_per_iteration)))
    return body.probe()


class _Body:
    """The operations of one iteration, each a table of COLUMNS for every iteration, shape (iterations, columns)."""

    def __init__(self, loop: Loop, timed: int, seed: int) -> None:
        self._operations: list[Ints] = []
        self._needs: list[tuple[int, int] | None] = []
        self._loop, self._timed, self._seed = loop, timed, seed
        self._loads: dict[tuple[int, int], int] = {}  # (stream, step) -> number of its load
        self._number = {stream.name: number for number, stream in enumerate(loop.streams)}

    def add(self, kind: Kind, needs: tuple[int, int] | None = None, **columns: Ints | int) -> int:
        """Append an operation and return its number. `needs` is the operation (of the same or an earlier iteration)
        whose value its address is made of, as its number in the iteration and how many iterations ago."""
        rows = np.zeros((2 * self._timed, len(COLUMNS)), dtype=np.int64)
        given = {"kind": kind, "base": -1, "ip": -1, "after": -1, "interval": -1, **columns}
        for name, value in given.items():
            rows[:, COLUMNS.index(name)] = value
        self._operations.append(rows)
        self._needs.append(needs)
        return len(self._operations) - 1

    def _touch(self, kind: Kind, number: int, shift: int, step: int, needs: tuple[int, int] | None, **more: int) -> int:
        """Append an operation on what the iteration `shift` ahead accesses of a stream."""
        return self.add(kind, needs, base=number, offset=self._offsets(number, shift, step), **more)

    def accesses(self, number: int, lag: int) -> None:
        """The loads and stores of a stream. The steps of a lookup that is prefetched are those of different lookups, as
        far apart (`lag`) as the furthest prefetch."""
        stream = self._loop.streams[number]
        for step in range(stream.steps):
            where = number, -step * lag, step
            if not stream.writes or stream.pattern != "sequential":
                needs = (self._loads[number, step - 1], lag) if step else None
                if stream.pattern == "chase":
                    needs = (len(self._operations), 1)
                elif stream.via and not step:
                    needs = (self._loads[self._number[stream.via], 0], 0)
                self._loads[number, step] = self._touch(Kind.LOAD, *where, needs, size=NUMBER_BYTES)
            if stream.writes:
                self._touch(Kind.STORE, *where, None, size=NUMBER_BYTES)

    def prefetches(self, number: int, distance: int, furthest: int, hint: int) -> None:
        """The prefetches of one stage for a stream, each for the access that is due `distance` iterations from now."""
        stream = self._loop.streams[number]
        for step in range(stream.steps):
            needs = (self._loads[number, step - 1], furthest - distance) if step else None
            if stream.via and not step:
                via = self._number[stream.via]
                needs = (self._touch(Kind.LOAD, via, distance, 0, None, size=NUMBER_BYTES), 0)
            self._touch(Kind.PREFETCH, number, distance - step * furthest, step, needs, variant=hint)

    def _offsets(self, number: int, shift: int, step: int) -> Ints:
        """Offsets of an access of the iteration `shift` ahead, for every iteration; shape (iterations,)."""
        stream, timed = self._loop.streams[number], self._timed
        i = np.arange(-timed, timed, dtype=np.int64) + shift
        if not stream.regular:
            # counted from the first timed iteration, so that another lead leaves the timed ones their addresses
            rng = np.random.default_rng((self._seed, number, step))
            lines = max(1, (stream.extent_bytes - _room(stream, timed)) // LINE_BYTES)
            return rng.integers(0, lines, PARAMS.drawn)[i % PARAMS.drawn] * LINE_BYTES
        offsets = ((i + timed) * stream.step_bytes).astype(np.int64)
        if _passed(stream, timed) <= stream.extent_bytes:
            return offsets
        # where it goes round it goes on a line further
        return (offsets + offsets // stream.extent_bytes * LINE_BYTES) % stream.extent_bytes

    def probe(self) -> Probe:
        """All iterations, with the clock started behind the lead. Each operation on memory has one instruction address
        in all iterations, as in a loop."""
        rows = np.stack(self._operations, axis=1)
        iterations, each, _ = rows.shape
        accesses = np.flatnonzero(rows[0, :, COLUMNS.index("base")] >= 0)
        rows[:, accesses, COLUMNS.index("ip")] = np.arange(len(accesses))
        for k, needs in enumerate(self._needs):
            if needs is not None:
                needed = (np.arange(iterations) - needs[1]) * each + needs[0]
                rows[:, k, COLUMNS.index("after")] = np.where(needed >= 0, needed, -1)
        table, begin = rows.reshape(-1, len(COLUMNS)), self._timed * each
        after = table[begin:, COLUMNS.index("after")]
        after[after >= begin] += 1  # rows behind the start move down by one
        packed = table[:begin].tobytes() + Probe().start().packed + table[begin:].tobytes() + Probe().stop().packed
        addresses = tuple(InstructionAddress(f"{self._loop.name}.{k}") for k in accesses)
        return Probe(packed, tuple(Base(stream.name) for stream in self._loop.streams), addresses)
