"""The compiled loops on this CPU: prepared, timed in turn, described, and held against those without prefetches."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.loops import HINTS, LOOP_NAMES, Loop, Policy
from setebench.loops.shapes import DEFAULT_BYTES, RESIDENT, shape
from setebench.native.loops import _loops
from setebench.native.loops.data import Array, Memory, Prepared, prepare
from setebench.native.memory import SMALL_PAGE, available_bytes
from setebench.native.prefetchers import NativeSwitches
from setebench.native.threads import own_cpus

CHECKED = "8M"
"""Size at which results are compared: several passes of every loop, and a second to check."""

BUILDING_FACTOR = 6
"""Memory that building a loop takes meanwhile, beside its bytes: a tree's keys in three orders."""

UNDISTURBED_TRIES = 6
"""Runs in which the kernel let another program onto the CPU are done again, this often at most. Half of all runs end so
where another program wants the CPU all the time and a run is as long as a slice of its scheduler."""

DESCRIBED_ROUNDS = 9
"""Of a loop without prefetches, on data in L1 and on its own: some 10 ms."""

CHECKED_POLICIES = [
    Policy(l1_distance=near, l2_distance=far, l1_hint=l1_hint, l2_hint=l2_hint)
    for near, far in (
        (1, 0),
        (0, 7),
        (3, 16),
        (16, 3),
        (8, 8),
    )  # each order, which pipelined searches treat differently
    for l1_hint, l2_hint in (("t0", "t1"), ("nta", "t2"))
]


class NativeLoops:
    """The loops, one of them prepared at a time. `hints` are those that the CPU has."""

    def __init__(self, hints: Sequence[str], switches: NativeSwitches, cycles_per_tick: Callable[[], float]) -> None:
        """`switches` are those of the hardware prefetchers, `cycles_per_tick` measures the clock's rate now."""
        self._hints, self._switches, self._cycles_per_tick = tuple(hints), switches, cycles_per_tick
        self._ready: tuple[Prepared, Memory] | None = None
        self._pass = 0

    def names(self) -> tuple[str, ...]:
        """See `RunsLoops.loop_names`; without sizes."""
        return LOOP_NAMES if available_bytes() > BUILDING_FACTOR * DEFAULT_BYTES else ()

    def describe(self, name: str) -> Loop:
        """See `RunsLoops.describe_loop`."""
        cycles = []
        for size in (f"{name.partition('@')[0]}@{RESIDENT}", name):
            ticks = float(np.median(self.run(size, (Policy(),), DESCRIBED_ROUNDS, 1)))
            cycles.append(ticks * self._cycles_per_tick() / self._iterations(size))
        return msgspec.structs.replace(
            shape(name),
            cycles_per_iteration=cycles[0],
            measured_cycles=cycles[1],
            iterations=self._iterations(name),
            page_bytes=SMALL_PAGE,
        )

    def run(self, name: str, policies: Sequence[Policy], rounds: int, seed: int) -> NDArray[np.int64]:
        """See `RunsLoops.run_loop`, on the CPU that the calling thread is pinned to."""
        prepared = self._prepared(name)
        runs = [partial(self._timed, prepared, self._code(prepared, policy), policy) for policy in policies]
        hardware = np.array([policy.hardware for policy in policies], dtype=bool)
        rng = np.random.default_rng(seed)
        ticks = np.array([self._in_turn(runs, hardware, rng) for _ in range(1 + rounds)], dtype=np.int64)
        return ticks[1:]  # the first round warmed code and pages

    def check(self, name: str) -> None:
        """See `RunsLoops.check_loop`, on data of 8 MiB."""
        compiler = [Policy(compiler=True)] if _loops.version(0, 0, 0, True) else []
        with _data(f"{name.partition('@')[0]}@{CHECKED}") as prepared:
            expected = self.result(prepared, Policy())
            for policy in (*CHECKED_POLICIES, *compiler):
                if not np.array_equal(expected, self.result(prepared, policy)):
                    raise SetebenchError(f"loop {name} is wrong with {policy}: this build can't be trusted")

    def result(self, prepared: Prepared, policy: Policy) -> Array:
        """What a loop writes, or the sums that its passes return, when all of its data are gone through."""
        data, code, operands = prepared.data, self._code(prepared, policy), prepared.data.operands()
        written = None if data.written is None else data.arrays[data.written]
        before = None if written is None else written.copy()
        sums = []
        for number in range(prepared.passes):
            _set_pass(operands, number * prepared.each, prepared.each, policy)
            _loops.ticks(code, operands.ctypes.data)
            sums.append(operands[-1])
        if written is None:
            return np.array(sums)
        found = written[: data.compared].copy()
        written[:] = before
        return found

    def close(self) -> None:
        """Give back the memory of the loop that is prepared."""
        if self._ready is not None:
            self._ready[1].release()
            self._ready = None

    def _code(self, prepared: Prepared, policy: Policy) -> int:
        """The version that a policy needs. Raises `UsageError` for a distance beyond the loop's arrays,
        `UnsupportedError` for what the CPU or the compiler lacks."""
        if policy.furthest > prepared.data.largest_distance:
            most, unit = prepared.data.largest_distance, prepared.loop.unit
            raise UsageError(f"this loop prefetches up to {most} {unit} ahead, not {policy.furthest}")
        for _, _, hint in policy.parts:
            if hint not in self._hints:
                raise UnsupportedError(f"this CPU has no prefetch {hint}; it has {', '.join(self._hints) or 'none'}")
        hints = {level: 1 + HINTS.index(hint) for level, _, hint in policy.parts}
        number = LOOP_NAMES.index(prepared.loop.name.partition("@")[0])
        code = _loops.version(number, hints.get("l1", 0), hints.get("l2", 0), policy.compiler)
        if not code:
            raise UnsupportedError("the compiler of this build has no option for prefetches of its own; gcc has")
        return code

    def _prepared(self, name: str) -> Prepared:
        if self._ready is None or self._ready[0].loop.name != name:
            self.close()
            memory = Memory()
            self._ready = (_prepare(name, memory), memory)
            self._pass = 0
        return self._ready[0]

    def _iterations(self, name: str) -> int:
        prepared = self._prepared(name)
        return prepared.each * prepared.repeats

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

    def _timed(self, prepared: Prepared, code: int, policy: Policy) -> int:
        """Ticks of going through the next part of the data."""
        first, operands = prepared.begin(self._pass), prepared.data.operands()
        self._pass += 1
        _set_pass(operands, first, prepared.each, policy)
        return _loops.ticks(code, operands.ctypes.data, prepared.repeats, *prepared.lead(first, policy.furthest))


def _set_pass(operands: NDArray[np.int64], first: int, count: int, policy: Policy) -> None:
    """Write the last words of a loop's operands (loops.h)."""
    operands[-5:] = (first, count, policy.l1_distance, policy.l2_distance, 0)


def _prepare(name: str, memory: Memory) -> Prepared:
    """A loop with its data. Raises `UnsupportedError` where there is no memory for it."""
    loop = shape(name)
    needed, available = BUILDING_FACTOR * loop.working_set_bytes, available_bytes()
    if needed > available:
        raise UnsupportedError(
            f"{name!r} takes {needed >> 20} MiB of memory while it is prepared, and {available >> 20} MiB are available"
        )
    return prepare(loop, memory)


@contextmanager
def _data(name: str) -> Iterator[Prepared]:
    memory = Memory()
    try:
        yield _prepare(name, memory)
    finally:
        memory.release()


def _uninterrupted(run: Callable[[], int]) -> int:
    """What the first run returned in which no other program got the CPU, or else the last of some."""
    ticks = 0
    for _ in range(UNDISTURBED_TRIES):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        ticks = run()
        if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == before:
            break
        os.sched_yield()  # to begin the next run with a new slice of time
    return ticks
