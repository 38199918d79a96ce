"""One load point: a pointer chase over flushed lines while other threads read memory at a set rate.

After Helm and Taura 2019, 4.3.1: each loading thread reads four independent lines, then executes a number of
no-operations. All threads start together. Lines are flushed before use, so every one comes from memory, whatever the
caches hold. The chase is a paired sample; a sample during which a load ended is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from setebench.experiments.calibrate import reference
from setebench.experiments.memory import MemoryParams, scattered
from setebench.experiments.paired import paired
from setebench.experiments.streams.budget import Budget
from setebench.machine import Region, Ticks, run_on
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import PairsParams
from setebench.stats.pairs import ticks as located_ticks


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which load points are measured, for how long, and over how much memory."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)  # no-operations: full load to 1 %
    fast_delays: tuple[int, ...] = (0, 16, 64, 256, 1024)  # the same with --fast
    threads: int = 64  # loading threads at most, unless the user wants more: points take longer with more threads
    fewest_points: int = 9  # load points measured whatever the budget: those of --fast, and full load by fewer threads

    fewest_rounds: int = 4  # rounds measured whatever the budget; fewer leave no quantile of quiet ones
    seconds: float = 4.0  # time budget of all rounds (see `Budget`)
    samples: int = 32  # chases per point and round; their mean is good to a few percent
    fewest_samples: int = 12  # the same on a slow machine: eight must be undisturbed
    point_fraction: float = 0.005  # share of the budget that a point may take in a round: 27 points, six rounds

    chased_bytes: int = 32 << 20  # memory that chased lines are drawn from
    stream_bytes: int = 1 << 20  # bytes of each of the four streams of a loading thread
    stagger_lines: int = 5  # lines between the streams' offsets in a page: else they would share cache sets
    least_steps: int = 32  # groups of four lines of a loading thread at least, or its bracket adds to its time
    first_steps: int = 128  # the same before the thread's pace is known
    spare: float = 1.5  # planned duration of a load over that of the chase, which more load slows down
    tries: int = 3  # attempts to make a load outlast the chase, which takes longer the higher the load is
    least_lasting: float = 0.6  # share of a point's samples in which the load must last as long as the chase
    ceiling_cycles: float = 32000.0  # most that an access can cost: it waits for those of all loading threads
    least_rounds: int = 2  # rounds in which a point's load must have lasted, or the point is left out

    precise: float = 0.1  # largest half width of a measured latency without load, relative; a wider one gives a bound
    run_to_run: float = 0.03  # relative doubt: 1.9 times the spread of latency between distant runs of two seconds


PARAMS = Params()

STREAMS = 4
"""Independent lines that a loading thread reads between two delays, each from its own stream."""

WHOLE = 4
"""Number of the timed interval that encloses a whole paired sample with one question."""


class Step(NamedTuple):
    """A load point: number of loading threads, and of no-operations (`delay`) that each runs after every four lines."""

    threads: int
    delay: int


class Reading(NamedTuple):
    """A load point in one round: latency in ns, and GB/s of all reads from memory; NaN where the load did not last."""

    ns: float
    gigabytes: float


class LoadedChase:
    """A pointer chase, and threads on the CPUs `loaders` that read memory meanwhile; it holds the memory of all."""

    def __init__(self, context: Context, loaders: tuple[int, ...]) -> None:
        self._context, self._machine, self._loaders = context, context.machine, loaders
        facts = self._facts = context.machine.facts
        self._line, page = context.line_size, min(facts.page_sizes)
        room = facts.memory_bytes // (4 * STREAMS * max(len(loaders), 1))
        self._bytes = min(PARAMS.stream_bytes, room // page * page)
        self._apart = self._bytes + PARAMS.stagger_lines * self._line
        self._steps: dict[Step, int] = {}
        self._regions: list[Region] = []
        try:
            self._regions.append(context.allocate(min(PARAMS.chased_bytes, facts.memory_bytes // 4), page))
            for _ in loaders:
                self._regions.append(context.allocate(STREAMS * self._apart + 2 * page, page))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free the memory of the chase and of all loading threads."""
        for region in self._regions:
            self._machine.release(region)

    def measure(self, step: Step, budget: Budget) -> Reading:
        """Measure the chase at the load `step` within the `budget`; repeat with a longer load if it ended too early."""
        found = Reading(float("nan"), float("nan"))
        for _ in range(PARAMS.tries):
            found = self._once(step, budget)
            if np.isfinite(found.ns):
                break
        return found

    def _once(self, step: Step, budget: Budget) -> Reading:
        cpu, loaders = self._context.own_cpu, self._loaders[: step.threads]
        count = self._steps.get(step, PARAMS.first_steps)
        moved = count * STREAMS * len(loaders) + MemoryParams().lines
        affordable = budget.bytes(PARAMS.point_fraction) / (2 * moved * self._line)
        samples = int(np.clip(affordable, PARAMS.fewest_samples, PARAMS.samples))
        chased = scattered(self._context, self._regions[0], MemoryParams().lines, samples)
        before = chased.flushed(MemoryParams().settle) + chased.translated()
        before = before.barrier() if loaders else before
        probes = {
            cpu: before.start(WHOLE, dither=False).paired(reference(self._context).work, chased.chase).stop(WHOLE)
        }
        probes |= {each: self._load(each, step, count) for each in loaders}
        places = dict(chased.places)
        for number, each in enumerate(loaders):
            shift = number * STREAMS * PARAMS.stagger_lines * self._line % min(self._facts.page_sizes)
            places[Base(f"load{each}")] = np.full(samples, self._regions[1 + number].address + shift)
        ticks = run_on(self._machine, probes, places)
        budget.spend(2 * samples * moved * self._line)
        loads = np.array([ticks[each][:, 0] for each in loaders]).reshape(len(loaders), samples)
        return self._reading(step, ticks[cpu], loads)

    def _load(self, cpu: int, step: Step, count: int) -> Probe:
        """Return a loader's probe: flush lines, meet at a barrier, then read four lines and pause, `count` times."""
        base, probe, body = Base(f"load{cpu}"), Probe(), Probe()
        for number in range(STREAMS):
            line = base + number * self._apart
            probe, body = probe.repeat(count, Probe().flush(line), advance=self._line), body.load(line)
        body = body.nop(step.delay) if step.delay else body
        probe = probe.fence().wait(MemoryParams().settle).fence().barrier()
        return probe.start(0, dither=False).repeat(count, body, advance=self._line).stop(0)

    def _reading(self, step: Step, chase: Ticks, loads: Ticks) -> Reading:
        """Return the reading of samples in which all loads lasted; `loads`: their ticks, shape (loaders, samples)."""
        lines, count = MemoryParams().lines, self._steps.get(step, PARAMS.first_steps)
        lasted = (loads >= chase[:, WHOLE]).all(axis=0)
        if len(loads):
            wanted = PARAMS.spare * np.median(chase[:, WHOLE]) / max(np.median(loads, axis=1).min(), 1.0) * count
            self._steps[step] = int(np.clip(wanted, PARAMS.least_steps, self._bytes // self._line))
        if lasted.mean() < PARAMS.least_lasting:
            return Reading(float("nan"), float("nan"))
        timed = paired(self._context, chase[lasted, :WHOLE], lines)
        own = located_ticks(timed, params=PairsParams(ceiling_cycles=PARAMS.ceiling_cycles))
        moved = count * STREAMS / np.median(loads[:, lasted], axis=1)
        per_second = self._facts.ticks_per_second
        rate = (lines / own + float(moved.sum())) * self._line * per_second / 1e9
        return Reading(own / lines / per_second * 1e9, rate)
