"""A chase over flushed lines beside threads that read memory at a settable rate.

Helm and Taura 2019, 4.3.1: each loading thread uses four independent lines, then does nothing for a number of
no-operations. All threads start together. Lines are flushed before they are used, so every one comes from memory,
whatever caches hold; the chase is a paired sample, and one during which a load ended counts for nothing.
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
    """Load points are numbers of loading threads and of no-operations between four lines."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)  # full load to a percent
    fast_delays: tuple[int, ...] = (0, 16, 64, 256, 1024)  # the same with --fast
    threads: int = 64  # that load at most unless more are wanted: each point takes longer the more there are
    fewest_points: int = 9  # measured whatever the budget: those of --fast, and full load by fewer threads

    fewest_rounds: int = 4  # whatever the budget; fewer leave no quantile of quiet ones
    seconds: float = 4.0  # of `Budget`, for all rounds
    samples: int = 32  # chases of a point in a round; a mean of so many is good to some percent
    fewest_samples: int = 12  # the same where the machine takes long: eight must be undisturbed
    point_fraction: float = 0.005  # of the budget that a point may take in a round: 27 points six times

    chased_bytes: int = 32 << 20  # that chased lines are drawn from
    stream_bytes: int = 1 << 20  # of each of the four streams of a loading thread
    stagger_lines: int = 5  # streams at one place of a page each would fight for the same sets of the caches
    least_steps: int = 32  # of a loading thread, or its bracket is a part of what it takes
    first_steps: int = 128  # of a loading thread, before its pace is known
    spare: float = 1.5  # a load's time over that of the chase beside it, which slows down as the load grows
    tries: int = 3  # to make a load last: the chase takes longer the higher it is
    least_lasting: float = 0.6  # part of a point's samples in which the load must last as long as the chase
    ceiling_cycles: float = 32000.0  # most that an access can cost: as many threads as load wait before it
    least_rounds: int = 2  # in which a point must have lasted, or it is no figure

    precise: float = 0.1  # half width up to which latency without load is a value and no bound
    run_to_run: float = 0.03  # of latency: 1.9 times what it differs by between runs, of two seconds, that lie apart


PARAMS = Params()

STREAMS = 4
"""Independent lines that are used between two delays, each in memory of its own."""

WHOLE = 4
"""Number of the interval around a whole sample of one question."""


class Step(NamedTuple):
    """A load point: loading threads, and no-operations between four lines."""

    threads: int
    delay: int


class Reading(NamedTuple):
    """A load point in a round: latency in ns and GB/s of lines that were read from memory; NaN where the load did not
    last."""

    ns: float
    gigabytes: float


class LoadedChase:
    """The chase and its loading threads, with the memory of all."""

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
        """Give the memory back."""
        for region in self._regions:
            self._machine.release(region)

    def measure(self, step: Step, budget: Budget) -> Reading:
        """The chase beside that load; tried again where the load ended too early."""
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
        """A loading thread's lines out of all caches, a meeting, and `count` times four lines and a delay."""
        base, probe, body = Base(f"load{cpu}"), Probe(), Probe()
        for number in range(STREAMS):
            line = base + number * self._apart
            probe, body = probe.repeat(count, Probe().flush(line), advance=self._line), body.load(line)
        body = body.nop(step.delay) if step.delay else body
        probe = probe.fence().wait(MemoryParams().settle).fence().barrier()
        return probe.start(0, dither=False).repeat(count, body, advance=self._line).stop(0)

    def _reading(self, step: Step, chase: Ticks, loads: Ticks) -> Reading:
        """Of the samples in which all loads lasted; `loads` are their ticks, shape (loaders, samples)."""
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
