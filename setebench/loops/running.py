"""Running loops on any machine: by its own means where it has them, else as traces."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import cycles_per_tick
from setebench.loops.params import TraceParams
from setebench.loops.protocol import RunsLoops
from setebench.loops.records import LINE_BYTES, LOOP_NAMES, Loop, Policy
from setebench.loops.shapes import shape, sized
from setebench.loops.traces import Span, extent_bytes, moved_bytes, passed_bytes, trace
from setebench.machine import Machine, Region, SwitchesPrefetchers
from setebench.probe import Base, Probe
from setebench.scenario import Context

PAGE_BYTES = 4096
"""The smallest page, in which addresses meet in the same set of level 1."""

Ticks = NDArray[np.int64]


def loops_of(machine: Machine) -> AbstractContextManager[RunsLoops]:
    """The machine's loops: its own (`RunsLoops`), else traces, whose memory goes back at the context's end."""
    if isinstance(machine, RunsLoops):
        return nullcontext(machine)
    return closing(TracedLoops(machine))


class TracedLoops:
    """`RunsLoops` for a machine that runs probes only. `loop` may be given for a loop of one's own."""

    def __init__(self, machine: Machine, own: Sequence[Loop] = ()) -> None:
        self._machine = machine
        self._own = {loop.name: loop for loop in own}
        self._memories: dict[str, _Memory] = {}
        self._cycles_per_tick = 0.0

    def close(self) -> None:
        """Give the memory of all loops back."""
        for memory in self._memories.values():
            self._machine.release(memory.region)
        self._memories = {}

    def loop_names(self) -> tuple[str, ...]:
        """See `RunsLoops`."""
        return (*LOOP_NAMES, *self._own)

    def describe_loop(self, name: str) -> Loop:
        """See `RunsLoops`. The cycles are those of the loop without prefetches on a few lines of each stream.

        A name may have a size: `hash_join@256K`."""
        loop = self._loop(name)
        rng, rounds = np.random.default_rng(1), TraceParams().described_rounds
        ticks = [self._run(loop, (Policy(),), _How(rounds, rng, folded=folded)) for folded in (True, False)]
        work, own = (float(np.median(each)) * self._clock() / loop.iterations for each in ticks)
        return msgspec.structs.replace(loop, cycles_per_iteration=work, measured_cycles=own)

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> Ticks:
        """See `RunsLoops`."""
        return self._run(self._loop(name), policies, _How(rounds, np.random.default_rng((seed, 0x100B)), cpu))

    def check_loop(self, name: str) -> None:
        """A trace computes nothing that could be wrong; raises `UsageError` for an unknown name."""
        self._loop(name)

    # -- running -----------------------------------------------------------------------------------------------------

    def _loop(self, name: str) -> Loop:
        plain, _, size = name.partition("@")
        loop = self._own[plain] if plain in self._own else shape(plain)
        return sized(loop, name, size) if size else loop

    def _clock(self) -> float:
        if not self._cycles_per_tick:
            self._cycles_per_tick = cycles_per_tick(Context(machine=self._machine))
        return self._cycles_per_tick

    def _run(self, loop: Loop, policies: Sequence[Policy], how: _How) -> Ticks:
        if any(policy.compiler for policy in policies):
            raise UnsupportedError(
                f"{self._machine.facts.name}: a trace isn't compiled, so no compiler adds prefetches"
            )
        sizes, rng = self._machine.facts.access_sizes, how.rng
        spans = [_span(loop, policy, sizes, how.folded) for policy in policies]
        seed = int(rng.integers(1 << 62))
        probes = [
            trace(loop, policy, span, np.random.default_rng(seed)) for policy, span in zip(policies, spans, strict=True)
        ]
        # data that nobody has passed yet warm up in a round of their own
        extra = int(how.folded or loop.name not in self._memories)
        memory = self._memory(loop)
        ticks = np.empty((extra + how.rounds, len(policies)), dtype=np.int64)
        for row in ticks:
            for which in rng.permutation(len(policies)):
                places = {
                    Base(stream.name): memory.place(loop, number, spans[which], rng)
                    for number, stream in enumerate(loop.streams)
                }
                with self._switched(policies[which].hardware, how.cpu):
                    ticks_of = self._machine.run(probes[which], places, cpu=how.cpu)[0, 0]
                    row[which] = round(ticks_of * loop.iterations / spans[which].timed)
        return ticks[extra:]

    def _switched(self, hardware: bool, cpu: int | None) -> AbstractContextManager[None]:
        if hardware:
            return nullcontext()
        machine = self._machine
        switches = machine.prefetcher_switches() if isinstance(machine, SwitchesPrefetchers) else ()
        if not isinstance(machine, SwitchesPrefetchers) or not switches:
            raise UnsupportedError(f"{machine.facts.name}: its hardware prefetchers can't be switched off")
        cpus = [machine.facts.cpus[0] if cpu is None else cpu]
        return machine.prefetchers_off([switch.name for switch in switches], cpus)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _memory(self, loop: Loop) -> _Memory:
        """One region for all streams, in the machine's largest pages, as programs get them for large arrays."""
        if loop.name not in self._memories:
            spare = passed_bytes_most(loop) + TraceParams().gap_bytes
            begins, size = [], 0
            for number, stream in enumerate(loop.streams):
                # streams that begin at pages would all share a set of level 1: each is a line further than the last
                begins.append(size + number * LINE_BYTES % PAGE_BYTES)
                needed = extent_bytes(loop, stream) + spare + PAGE_BYTES
                size += -(-needed // PAGE_BYTES) * PAGE_BYTES
            region = self._machine.allocate(size, max(self._machine.facts.page_sizes))
            self._memories[loop.name] = _Memory(region, begins, [0] * len(begins))
            self._warm(loop, self._memories[loop.name])
        return self._memories[loop.name]

    def _warm(self, loop: Loop, memory: _Memory) -> None:
        """Go once through what is accessed in random order, where a cache may hold it: runs that touch a few lines each
        would bring it there too late."""
        where = Base("stream")
        for number, stream in enumerate(loop.streams):
            extent = extent_bytes(loop, stream)
            if passed_bytes(stream, Span(lead=0, timed=1, access_sizes=()), 0) or extent > TraceParams().warmed_bytes:
                continue
            body = Probe().load(where)
            probe = Probe().start().repeat(max(1, extent // LINE_BYTES), body, advance=LINE_BYTES).stop()
            self._machine.run(probe, {where: memory.region.address + memory.begins[number]})


@dataclass(frozen=True)
class _How:
    """How often policies run, by which draws, on which CPU, and whether on a few lines of each stream only."""

    rounds: int
    rng: np.random.Generator
    cpu: int | None = None
    folded: bool = False


@dataclass
class _Memory:
    """Where a loop's streams lie in its region, and how far runs have come in each, in bytes."""

    region: Region
    begins: list[int]
    passed: list[int]

    def place(self, loop: Loop, number: int, span: Span, rng: np.random.Generator) -> int:
        """Where a stream begins in the next run: behind what the run before passed, or moved at random."""
        stream = loop.streams[number]
        first = self.region.address + self.begins[number]
        if span.folded:
            return self.region.address + number * LINE_BYTES
        extent = extent_bytes(loop, stream)
        passes = passed_bytes(stream, span, span.ahead)
        if not passes:
            return first + int(rng.integers(0, moved_bytes(loop, stream) // LINE_BYTES + 1)) * LINE_BYTES
        if passed_bytes(stream, span, span.furthest) > extent:  # goes round within the probe
            return first
        begin = self.passed[number] % extent
        # not back to the begin: what this time round falls between two runs is passed the next time, so that lines come
        # again behind as many others as the working set has
        self.passed[number] = begin + passes + TraceParams().gap_bytes
        return first + begin // LINE_BYTES * LINE_BYTES


def passed_bytes_most(loop: Loop) -> int:
    """What the longest run passes of any of a loop's streams."""
    params = TraceParams()
    span = Span(lead=params.most_lead, timed=max(loop.iterations, params.most_lead), access_sizes=(8,))
    return max(passed_bytes(stream, span, params.most_lead // 2) for stream in loop.streams)


def _span(loop: Loop, policy: Policy, access_sizes: tuple[int, ...], folded: bool) -> Span:
    """What is timed are whole turns: iterations that nobody prefetched for leave time for all their prefetches, so that
    those a distance later are fast, and leave time for few; a pass of half a turn would be either."""
    furthest, params = policy.furthest, TraceParams()
    steps = max(stream.steps for stream in loop.streams)
    lead = min(params.most_lead, params.lead + furthest * (steps - 1 + params.lead_distances))
    timed = max(loop.iterations, min(params.most_lead, params.timed_distances * furthest))
    return Span(lead=lead, timed=timed, access_sizes=access_sizes, ahead=furthest, folded=folded)
