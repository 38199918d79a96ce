"""A loop's misses in the machine's queues, line by line: how long an iteration takes with a prefetch policy.

Nothing is in here but the measured table: latencies, the number of misses in flight, TLBs, what hints do, and the
hardware prefetchers that were found. Time passes by dataflow: every access gets its miss entry when one is free, its
line when the level that has it delivers, and what needs it goes on then. How much of that a core overlaps by itself is
no parameter of the memory system; it is fitted to what an iteration takes (`advisor.fit`).
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

from setebench.loops.hardware import Hardware, Watched
from setebench.loops.rates import Rates
from setebench.loops.records import LINE_BYTES, Loop, Policy, Stream

WARM, TIMED, LEAST_TIMED, MANY_LINES = 24, 48, 6, 300
"""Iterations before time is counted, iterations counted, and lines beyond which fewer are."""


class Pool:
    """Entries that are held for a while: a heap of when each is free again."""

    def __init__(self, entries: float) -> None:
        self._entries = max(1, int(min(entries, 512)))
        self._free: list[float] = []

    def when(self, t: float) -> float:
        """When an entry is had by what asks at t."""
        return t if len(self._free) < self._entries else max(t, self._free[0])

    def hold(self, until: float) -> None:
        """Hold the entry that is free first."""
        if len(self._free) < self._entries:
            heapq.heappush(self._free, until)
        else:
            heapq.heapreplace(self._free, until)


@dataclass(frozen=True, kw_only=True)
class Core:
    """What a core overlaps: `window` iterations at once, nothing behind a missing load (`blocking`), nothing before an
    operation begins (`in_order`), and so many page walks at a time."""

    window: float = 8.0
    blocking: bool = False
    in_order: bool = False
    walkers: int = 2


@dataclass
class _State:
    """Where lines are and when: of each stream the lines in level 1, 2 and 3 with their arrivals."""

    levels: tuple[dict[tuple[int, int], float], ...] = field(default_factory=lambda: ({}, {}, {}))


class Queues:
    """One pass of a loop with a policy."""

    def __init__(self, loop: Loop, policy: Policy, rates: Rates, core: Core) -> None:
        self._loop, self._policy, self._rates, self._core = loop, policy, rates, core
        self._near, self._far, self._third = _State().levels
        self._demand = (Pool(rates.demand[0]), Pool(max(rates.demand[1], rates.prefetch[1])))
        self._software = (Pool(rates.prefetch[0]), Pool(rates.prefetch[1]))
        self._walks = Pool(core.walkers)
        self._hardware = Hardware(rates.prefetchers, loop)
        self._touched: dict[tuple[int, int], int] = {}
        self._touches = 0
        self._clock = 0.0
        self._latest = 0.0
        self._furthest = max(policy.l1_distance, policy.l2_distance)
        self._rng = random.Random(len(loop.streams))
        self._sources: dict[tuple[int, int], float] = {}

    def cycles(self) -> float:
        """Cycles per iteration in the steady state."""
        lines = sum(stream.lines_per_iteration for stream in self._loop.streams)
        timed = int(max(LEAST_TIMED, min(TIMED, MANY_LINES / lines)))
        warm = min(WARM, timed) + self._furthest * self._steps()
        done: list[float] = []
        begin = 0.0
        extra = 1.0 + self._instructions() / self._loop.cycles_per_iteration
        window = self._core.window / extra
        for i in range(warm + timed):
            if i == warm:
                begin = max(self._clock, done[-1] if done else 0.0)
            oldest = i - window
            if oldest >= 0 and not self._core.blocking:
                self._clock = max(self._clock, _between(done, oldest))
            self._latest = self._clock
            self._iteration(i)
            self._clock += self._loop.cycles_per_iteration + self._instructions()
            done.append(max(self._latest, self._clock, done[-1] if done else 0.0))
        # a line that is long under way as the timed part begins may come after its end, but its work takes time
        work = self._loop.cycles_per_iteration + self._instructions()
        return max(work, (max(self._clock, done[-1]) - begin) / timed)

    def _steps(self) -> int:
        return max(stream.steps for stream in self._loop.streams)

    def _instructions(self) -> float:
        """Cycles of the instructions of prefetching."""
        own = sum(stream.address_cycles * max(1.0, stream.lines_per_iteration) for stream in self._loop.prefetched)
        return self._policy.stages * own * self._rates.prefetch_cycles

    # -- one iteration -----------------------------------------------------------------------------------------------

    def _iteration(self, i: int) -> None:
        for number, stream in enumerate(self._loop.streams):
            if stream.steps > 1 or stream.pattern == "chase":
                self._dependent(number, stream, i)
            else:
                for line in self._lines(number, stream, i):
                    self._load(number, line, self._clock)
        if not self._policy.stages:
            return
        for number, stream in enumerate(self._loop.streams):
            if stream.prefetched:
                self._prefetches(number, stream, i)

    def _dependent(self, number: int, stream: Stream, i: int) -> None:
        """Accesses of which each needs the one before: of one lookup, or of the iteration before."""
        ready = self._chain if stream.pattern == "chase" else self._clock
        for step in range(stream.steps):
            behind = step * self._furthest if stream.prefetched else 0
            if behind:
                ready = self._clock  # the step before was another iteration's work
            for line in self._lines(number, stream, i - behind, step):
                ready = self._load(number, line, max(self._clock, ready))
                if self._core.in_order:
                    self._clock = max(self._clock, ready)
        if stream.pattern == "chase":
            self._chain = ready

    _chain = 0.0

    def _lines(self, number: int, stream: Stream, i: int, step: int = 0) -> range:
        """The lines that a stream touches in an iteration for the first time, as numbers of its own."""
        if stream.pattern == "sequential":
            return range(
                math.ceil(i * stream.bytes_per_iteration / LINE_BYTES),
                math.ceil((i + 1) * stream.bytes_per_iteration / LINE_BYTES),
            )
        each = max(1, round(stream.accesses_per_iteration))
        if stream.pattern == "strided":
            step_lines = max(1, abs(stream.stride_bytes) // LINE_BYTES)
            if abs(stream.stride_bytes) < LINE_BYTES:
                lines = stream.stride_bytes * each / LINE_BYTES
                return range(math.ceil(i * lines), math.ceil((i + 1) * lines))
            return range(i * each * step_lines, (i + 1) * each * step_lines, step_lines)
        first = (i * stream.steps + step) * each
        return range(first, first + each)

    # -- accesses ----------------------------------------------------------------------------------------------------

    def _load(self, number: int, line: int, t: float) -> float:
        t = self._translate(number, line, t)
        at = (number, line)
        if at in self._near:
            done = max(t + self._rates.latency[0], self._near[at])
            missed = self._near[at] > t
        else:
            start = self._demand[0].when(t)
            done, _ = self._level_two(at, start, "load", self._demand[1])
            self._demand[0].hold(done)
            self._near[at] = done
            missed = True
            if self._core.in_order:
                self._clock = max(self._clock, start)
        if self._core.blocking and missed:
            self._clock = max(self._clock, done)
        self._train(1, at, missed, "load", t)
        self._latest = max(self._latest, done)
        return done

    def _level_two(self, at: tuple[int, int], t: float, cause: str, pool: Pool) -> tuple[float, float]:
        """(when a line that level 1 lacks is there, when it had its entry)."""
        if at in self._far:
            done = max(t + self._rates.latency[1], self._far[at])
            self._train(2, at, False, cause, t)
            return done, t
        start = pool.when(t)
        done = start + self._below(at, start)
        pool.hold(done)
        self._far[at] = done
        self._train(2, at, True, cause, start)
        return done, start

    def _below(self, at: tuple[int, int], t: float) -> float:
        """Cycles that a line takes from below level 2."""
        if at in self._third:
            return max(self._rates.latency[2], self._third[at] - t)
        if at not in self._sources:
            self._sources[at] = self._rates.source(at[0], self._rng.random())
        return self._sources[at]

    def _translate(self, number: int, line: int, t: float) -> float:
        """Page walks: the first touch of a line pays its page's, later ones what has been displaced since."""
        own = self._rates.walks[number]
        if not own.first:
            return t
        at = (number, line)
        self._touches += 1
        since = self._touches - self._touched.get(at, -(10**9))
        self._touched[at] = self._touches
        cost = own.first if since > 10**8 else own.again if since > own.entries else 0.0
        if not cost:
            return t
        start = self._walks.when(t)
        self._walks.hold(start + cost)
        return start + cost

    # -- prefetches --------------------------------------------------------------------------------------------------

    def _prefetches(self, number: int, stream: Stream, i: int) -> None:
        policy = self._policy
        for distance, hint in ((policy.l2_distance, policy.l2_hint), (policy.l1_distance, policy.l1_hint)):
            if not distance:
                continue
            for step in range(stream.steps):
                for line in self._lines(number, stream, i + distance - step * self._furthest, step):
                    self._prefetch(number, line, self._rates.fills.get(hint, "l1"))

    def _prefetch(self, number: int, line: int, fills: str) -> None:
        own = self._rates.walks[number]
        at = (number, line)
        if at in self._near or (fills != "l1" and at in self._far):
            return
        if own.survives < 1 and self._rng.random() >= own.survives:
            return
        t = self._translate(number, line, self._clock)
        pool = self._software[1 if fills == "l2" else 0]
        start = t if fills == "l3" else pool.when(t)
        if self._rates.drops and start > t:
            return
        if fills == "l3":
            self._third.setdefault(at, t + self._below(at, t))
        elif fills == "l2":
            _, start = self._level_two(at, t, "prefetch", self._software[1])
        else:
            done, _ = self._level_two(at, start, "prefetch", self._software[1])
            self._software[0].hold(done)
            self._near[at] = done
            self._train(1, at, True, "prefetch", start)
        self._latest = max(self._latest, start)
        if self._core.in_order:
            self._clock = max(self._clock, start)

    # -- hardware prefetchers ----------------------------------------------------------------------------------------

    def _train(self, level: int, at: tuple[int, int], missed: bool, cause: str, t: float) -> None:
        if level not in self._hardware.levels:
            return
        for line, fills in self._hardware.asked(Watched(level, at[0], at[1], missed, cause)):
            target = (at[0], line)
            if target in self._far and (fills != "l1" or target in self._near):
                continue
            if target not in self._far:
                start = self._demand[1].when(t)
                if start > t:
                    continue  # dropped
                self._far[target] = start + self._below(target, start)
                self._demand[1].hold(self._far[target])
            if fills == "l1" and line >= 0:
                self._near[target] = max(t + self._rates.latency[1], self._far[target])


def _between(times: list[float], index: float) -> float:
    """Time at a fractional index."""
    low = int(index)
    part = index - low
    return times[low] if low + 1 >= len(times) else times[low] * (1 - part) + times[low + 1] * part
