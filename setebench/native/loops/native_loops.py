"""The compiled loops on this CPU: prepared, timed in turn, described, and held against references."""

from __future__ import annotations

import itertools
import os
import re
import resource
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops import HINTS, LOOP_NAMES, Loop, Policy, Stream
from setebench.native.loops import dense, irregular
from setebench.native.loops._loops import Operands, Version
from setebench.native.loops.prepared import RESIDENT_BYTES, Memory, Prepared, Size
from setebench.native.memory import SMALL_PAGE, available_bytes
from setebench.native.prefetchers import NativeSwitches
from setebench.native.threads import own_cpus

Builder = Callable[[Memory, np.random.Generator, Size], Prepared]

BUILDERS: dict[str, Builder] = {
    "matmul": dense.matmul,
    "spmv": irregular.spmv,
    "triad": dense.triad,
    "stencil": dense.stencil,
    "strided": dense.strided,
    "hash_join": irregular.hash_join,
    "tree_search": irregular.tree_search,
    "list": irregular.list_,
}

TIMED_BYTES = 64 << 20
"""What a loop goes through unless its name says otherwise: more than most last caches leave to a core. A line comes
again behind all others."""

LEAST_BYTES = 4096
"""The smallest size that has some iterations of every loop."""

CHECKED_BYTES = 8 << 20
CHECKED_KEYS = 1 << 15
"""Several passes of every loop, and a second to check."""

BUILDING_FACTOR = 6
"""Memory that building a loop takes for a moment, beside its bytes: a tree's keys in three orders."""

RESIDENT_TICKS = 300_000
"""Of one run on data in L1, about 0.1 ms."""

UNDISTURBED_TRIES = 6
"""Runs in which the kernel let another program onto the CPU are done again, this often at most. Half of all runs end so
where another program wants the CPU all the time and a run is as long as a slice of its scheduler."""

RESIDENT_ROUNDS = 15
MEASURED_ROUNDS = 9
"""Of a loop on its own data, without prefetches: some 10 ms."""

DISTANCES_CHECKED = ((0, 0), (1, 0), (0, 7), (3, 16), (16, 3), (8, 8))
"""Distances of the L1 and the L2 stage; each order of the two, which pipelined searches treat differently."""

HINTS_CHECKED = (("t0", "t1"), ("nta", "t2"))
_NAME = re.compile(r"(?P<loop>\w+?)(@(?P<count>\d+)(?P<unit>[KMG]?))?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class NativeLoops:
    """The loops, one of them prepared at a time. `hints` are those that the CPU has.

    A name may have a size, `hash_join@256K`: what it goes through in all, in bytes, K, M or G."""

    def __init__(self, hints: Sequence[str], switches: NativeSwitches, cycles_per_tick: Callable[[], float]) -> None:
        """`switches` are those of the hardware prefetchers, `cycles_per_tick` measures the clock's rate now."""
        self._hints, self._switches, self._cycles_per_tick = tuple(hints), switches, cycles_per_tick
        self._kept: tuple[str, Prepared, Memory] | None = None
        self._pass = 0

    def names(self) -> tuple[str, ...]:
        """See `RunsLoops.loop_names`; without sizes."""
        return LOOP_NAMES if available_bytes() > BUILDING_FACTOR * TIMED_BYTES else ()

    def describe(self, name: str) -> Loop:
        """See `RunsLoops.describe_loop`. The cost of a prefetch's address is measured too, all streams together."""
        loop, size = _parsed(name)
        plain, prefetching = self._resident_cycles(loop, size, (Policy(), Policy(l1_distance=4)))
        prepared = self._prepared(name)
        lines = sum(stream.lines_per_iteration for stream in prepared.streams if stream.prefetched)
        cost = max(0.0, (prefetching - plain) / lines)
        ticks = float(np.median(self.run(name, (Policy(),), MEASURED_ROUNDS, 1)))
        iterations = prepared.pass_iterations * prepared.repeats
        return Loop(
            name=name,
            streams=tuple(_with_cost(stream, cost) for stream in prepared.streams),
            cycles_per_iteration=plain,
            working_set_bytes=prepared.bytes,
            iterations=iterations,
            unit=prepared.unit,
            dependent=prepared.dependent,
            measured_cycles=ticks * self._cycles_per_tick() / iterations,
            page_bytes=SMALL_PAGE,
        )

    def run(self, name: str, policies: Sequence[Policy], rounds: int, seed: int) -> NDArray[np.int64]:
        """See `RunsLoops.run_loop`, on the CPU that the calling thread is pinned to."""
        prepared = self._prepared(name)
        versions = [self._version(name, policy) for policy in policies]
        _check_distances(prepared, policies)
        operands = Operands(prepared.addresses, prepared.sizes)
        runs = [partial(self._timed, operands, prepared, *each) for each in zip(versions, policies, strict=True)]
        hardware = np.array([policy.hardware for policy in policies], dtype=bool)
        rng = np.random.default_rng(seed)
        ticks = np.array([self._in_turn(runs, hardware, rng) for _ in range(1 + rounds)], dtype=np.int64)
        return ticks[1:]  # the first round warmed code and pages

    def check(self, name: str) -> None:
        """See `RunsLoops.check_loop`, on data of 8 MiB."""
        policies = [
            Policy(l1_distance=near, l2_distance=far, l1_hint=l1_hint, l2_hint=l2_hint)
            for near, far in DISTANCES_CHECKED
            for l1_hint, l2_hint in HINTS_CHECKED
        ]
        compiled = [Policy(compiler=True)] if self.compiles(name) else []
        for policy, wrong in self.differing(name, [*policies, *compiled]):
            raise SetebenchError(f"loop {name} is wrong in {wrong} numbers with {policy}: this build can't be trusted")

    def differing(self, name: str, policies: Sequence[Policy]) -> list[tuple[Policy, int]]:
        """Policies with which the loop's result isn't the one computed apart, and in how many numbers."""
        loop, _ = _parsed(name)
        memory = Memory()
        try:
            prepared = BUILDERS[loop](memory, np.random.default_rng(1), Size(bytes=CHECKED_BYTES, keys=CHECKED_KEYS))
            wrong = [(policy, self._wrong(name, prepared, policy)) for policy in policies]
        finally:
            memory.release()
        return [(policy, count) for policy, count in wrong if count]

    def compiles(self, name: str) -> bool:
        """Whether there is a version with the compiler's own prefetches."""
        return bool(self._compiled(name).address)

    def close(self) -> None:
        """Give back the memory of the loop that is prepared."""
        if self._kept is not None:
            self._kept[2].release()
            self._kept = None

    def _compiled(self, name: str) -> Version:
        return Version(_number(name), 0, 0, True)

    def _version(self, name: str, policy: Policy) -> Version:
        if policy.compiler:
            version = self._compiled(name)
            if not version.address:
                raise UnsupportedError("the compiler of this build has no option for prefetches of its own; gcc has")
            return version
        stages = ((policy.l1_distance, policy.l1_hint), (policy.l2_distance, policy.l2_hint))
        for distance, hint in stages:
            if distance and hint not in self._hints:
                raise UnsupportedError(f"this CPU has no prefetch {hint}; it has {', '.join(self._hints) or 'none'}")
        l1_hint, l2_hint = (1 + HINTS.index(hint) if distance else 0 for distance, hint in stages)
        return Version(_number(name), l1_hint, l2_hint)

    def _prepared(self, name: str) -> Prepared:
        if self._kept is None or self._kept[0] != name:
            self.close()
            loop, size = _parsed(name)
            memory = Memory()
            self._kept = (name, BUILDERS[loop](memory, np.random.default_rng(1), Size(bytes=size)), memory)
            self._pass = 0
        return self._kept[1]

    def _hardware_off(self) -> AbstractContextManager[None]:
        """Every switch of this CPU's prefetchers off. Raises `UnsupportedError` where they can't be used."""
        cpu = min(own_cpus())
        return self._switches.off([switch.name for switch in self._switches.offered(cpu)], (cpu,))

    def _in_turn(
        self, runs: Sequence[Callable[[], int]], hardware: NDArray[np.bool_], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Ticks of one round: those that need hardware prefetchers and those that need them off, one after the other in
        an order drawn anew, for switching takes milliseconds and leaves its mark in the caches."""
        ticks = np.empty(len(runs), dtype=np.int64)
        for on in rng.permutation([True, False]):
            chosen = [which for which in rng.permutation(len(runs)) if hardware[which] == on]
            if chosen:
                with nullcontext() if on else self._hardware_off():
                    ticks[chosen] = [_uninterrupted(runs[which]) for which in chosen]
        return ticks

    def _timed(self, operands: Operands, prepared: Prepared, version: Version, policy: Policy) -> int:
        """Ticks of going through the next part of the data."""
        distances = (policy.l1_distance, policy.l2_distance)
        first = prepared.begin(self._pass)
        self._pass += 1
        lead = prepared.lead(first, max(distances))
        return operands.run(version, first, prepared.pass_iterations, *distances, prepared.repeats, *lead)[0]

    def _wrong(self, name: str, prepared: Prepared, policy: Policy) -> int:
        """Numbers of the result that aren't the reference's."""
        _check_distances(prepared, [policy])
        version, operands = self._version(name, policy), Operands(prepared.addresses, prepared.sizes)
        expected, each = prepared.reference(), prepared.pass_iterations
        sums = [
            operands.run(version, first, each, policy.l1_distance, policy.l2_distance)[1]
            for first in range(0, prepared.iterations, each)
        ]
        found = prepared.outcome(sums)
        if expected.dtype.kind == "f":  # sums in another order
            return int((~np.isclose(found, expected, rtol=1e-9, atol=0)).sum())
        return int((found != expected).sum())

    def _resident_cycles(self, loop: str, size: int, policies: Sequence[Policy]) -> list[float]:
        """Core cycles of an iteration on data in L1 with each policy."""
        memory, resident = Memory(), Size(bytes=max(size, RESIDENT_BYTES), resident=True)
        try:
            prepared = BUILDERS[loop](memory, np.random.default_rng(1), resident)
            runs = [self._passes(prepared, self._version(loop, policy), policy) for policy in policies]
            return self._cycles_of(runs, prepared.pass_iterations)
        finally:
            memory.release()

    def _passes(self, prepared: Prepared, version: Version, policy: Policy) -> Callable[[int], int]:
        """Ticks of going through the next part of the data, so many times."""
        operands, distances = Operands(prepared.addresses, prepared.sizes), (policy.l1_distance, policy.l2_distance)
        numbers = itertools.count()

        def run(passes: int) -> int:
            first = prepared.begin(next(numbers))
            return operands.run(version, first, prepared.pass_iterations, *distances, passes)[0]

        return run

    def _cycles_of(self, runs: Sequence[Callable[[int], int]], iterations: int) -> list[float]:
        """Cycles of an iteration: medians of rounds, in which the runs and the calibration of the clock take turns."""
        first = runs[0](1)
        passes = 1 + RESIDENT_TICKS // min(first, runs[0](1))
        cycles = np.empty((RESIDENT_ROUNDS, len(runs)))
        for row in cycles:
            rate = self._cycles_per_tick() / (passes * iterations)
            for which, run in enumerate(runs):
                run(1)
                row[which] = _uninterrupted(partial(run, passes)) * rate
        return [float(middle) for middle in np.median(cycles, axis=0)]


def _with_cost(stream: Stream, cycles: float) -> Stream:
    return msgspec.structs.replace(stream, address_cycles=cycles) if stream.prefetched else stream


def _uninterrupted(run: Callable[[], int]) -> int:
    """What the first run returned in which no other program got the CPU, or else the last of some."""
    ticks = 0
    for _ in range(UNDISTURBED_TRIES):
        before = _interruptions()
        ticks = run()
        if _interruptions() == before:
            break
        os.sched_yield()  # to begin the next run with a new slice of time
    return ticks


def _interruptions() -> int:
    """How often the kernel has taken the CPU from the calling thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _parsed(name: str) -> tuple[str, int]:
    """The loop of that name, and the bytes that it goes through.

    Raises `UsageError` for an unknown loop or too small a size, `UnsupportedError` where there is no memory for it."""
    match = _NAME.fullmatch(name)
    if match is None or match["loop"] not in BUILDERS:
        raise UsageError(f"unknown loop {name!r}; one of {', '.join(LOOP_NAMES)}, or with a size, as in hash_join@256K")
    size = int(match["count"]) * _UNITS[match["unit"]] if match["count"] else TIMED_BYTES
    if size < LEAST_BYTES:
        raise UsageError(f"{name!r} is too small: a loop goes through {LEAST_BYTES} bytes at least")
    needed, available = BUILDING_FACTOR * size, available_bytes()
    if needed > available:
        raise UnsupportedError(
            f"{name!r} takes {needed >> 20} MiB of memory while it is prepared, and {available >> 20} MiB are available"
        )
    return match["loop"], size


def _number(name: str) -> int:
    """Of the loop, as the compiled versions have it."""
    return LOOP_NAMES.index(_parsed(name)[0])


def _check_distances(prepared: Prepared, policies: Sequence[Policy]) -> None:
    farthest = max((max(policy.l1_distance, policy.l2_distance) for policy in policies), default=0)
    if farthest > prepared.largest_distance:
        raise UsageError(
            f"this loop prefetches up to {prepared.largest_distance} {prepared.unit} ahead, not {farthest}"
        )
