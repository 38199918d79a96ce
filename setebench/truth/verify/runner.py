"""Runs trials on a machine and answers in cycles, in the same way on every machine.

No overhead is assumed: a load that hits the first level and one that misses every cache are timed by the same stub
beside the trials, and a line's latency lies between them as its ticks do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.machine import Machine, Region
from setebench.probe import Base, Probe
from setebench.truth.verify.families import CHASED, HERE, PAGE, SPAN, TARGET, THERE, Surroundings, Trial


@dataclass(frozen=True)
class Params:
    """How trials are run."""

    spreads: float = 4.0  # how far above the middle half of repetitions, in its widths, one was hit by a stall
    chain: int = 4000  # chained additions that give cycles per tick
    controls: int = 64  # loads of each kind of control
    repetitions: tuple[int, int] = (16, 256)  # the fewest and the most of a line
    around: int = 16  # repetitions where lines are chased on a clock that needs few
    chases: int = 4  # random ones of a trial
    exact: int = 48  # repetitions on a clock without steps and noise: what prefetchers learn shows in as many
    apart: float = 4.0  # standard errors of a line's mean between the first two levels: how sure a level is to be
    region_bytes: int = 32 << 20
    timed: tuple[int, int] = (8, 2)  # repetitions of a time, and of one that is long: many steps are a mean already
    long: int = 4096  # lines of a chase, or units


PARAMS = Params()
Cycles = tuple[float, ...]
"""A machine's answer: for each target the cycles from load to use, or the one time of a trial, in cycles a unit."""


def mean(ticks: NDArray[np.int64], step: float) -> float:
    """The mean without stalls: without what lies further above the median than some times the middle half is wide, and
    than two steps of the clock, so that a coarse clock's two values both count."""
    low, middle, high = np.percentile(ticks, (25, 50, 75))
    return float(ticks[ticks <= middle + max(PARAMS.spreads * (high - low), 2 * step)].mean())


class Runner:
    """A machine that trials are run on. `repetitions` is how often a line is timed, without it as often as the first
    controls say; a clock that is `exact` needs no more than show what prefetchers learn from one to the next."""

    def __init__(self, machine: Machine, around: Surroundings, seed: int, exact: int | None = None) -> None:
        self._machine, self._around, self._exact = machine, around, exact is not None
        self._rng = np.random.default_rng([seed, 1])
        self._regions: dict[tuple[str, int], Region] = {}
        spread = self._calibrate()
        if exact is not None:
            self.repetitions = min(exact, PARAMS.exact)
            return
        first, second, *_ = around.latencies  # until a line's mean parts the first two levels
        needed = (PARAMS.apart * spread / max((second - first) / 2, 1.0)) ** 2
        self.repetitions = int(np.clip(np.ceil(needed), *PARAMS.repetitions))

    def answers(self, trials: dict[int, Trial]) -> dict[int, Cycles]:
        """What the machine gives for each trial, on new random places beside new controls; nothing for one that it
        can't run."""
        self._calibrate()
        found = {}
        for number, trial in trials.items():
            try:
                found[number] = self._levels(trial) if trial.targets else self._time(trial)
            except UnsupportedError:
                continue
        return found

    def _calibrate(self) -> float:
        """Time controls: in ticks an empty interval and the clock's step; cycles of the core per tick, and cycles of
        latency per tick, by the stub's times of a hit and of a miss of everything. Returns the spread of hits, in
        cycles."""
        places = self._places(self._region(PAGE), PARAMS.controls)
        body = Probe().flush(HERE).fence().wait(round(2 * self._around.latencies[-1])).fence("l")
        hit = self._run(body.load(HERE).fence().start().load(HERE).stop(), places)
        miss = self._run(body.start().load(HERE).stop(), places)
        empty = self._run(Probe().fence().start().stop(), PARAMS.controls)
        added = self._run(Probe().fence().start().add(PARAMS.chain).stop(), PARAMS.controls)
        gaps = np.diff(np.unique(np.concatenate([hit, miss, empty, added])))
        self._step = step = float(gaps.min()) if len(gaps) else 1.0
        self._empty = mean(empty, step)
        self._cycles_per_tick = PARAMS.chain / max(mean(added, step) - self._empty, 1.0)
        first, *_, memory = self._around.latencies
        self._latency_per_tick = (memory - first) / max(mean(miss, step) - mean(hit, step), step)
        return float(np.std(hit[hit <= np.percentile(hit, 90)])) * self._latency_per_tick

    # -- running ---------------------------------------------------------------------------------------------------

    def _run(self, probe: Probe, places: dict[Base, NDArray[np.int64]] | int) -> NDArray[np.int64]:
        return self._machine.run(probe, places, cpu=self._machine.facts.own_cpu, warmup=1)[:, 0]

    def _region(self, page_size: int, use: str = "places") -> Region:
        """Memory for places, for chases that must not hold a place, or for streams. Streams compute with what is there,
        and a pointer read as a number is a subnormal one, for which each operation takes a hundred cycles longer."""
        size = page_size if page_size in self._machine.facts.page_sizes else PAGE
        if (use, size) not in self._regions:
            self._regions[use, size] = self._machine.allocate(PARAMS.region_bytes, size)
        return self._regions[use, size]

    def _places(self, region: Region, count: int) -> dict[Base, NDArray[np.int64]]:
        """Random places for each repetition, a row more for the warm-up: one in the first half, behind which all that a
        trial reaches has room, and one in the second."""
        half = region.size // SPAN // 2
        first, second = self._rng.integers(half, size=(2, count + 1))
        return {HERE: region.address + first * SPAN, THERE: region.address + (half + second) * SPAN}

    def _levels(self, trial: Trial) -> Cycles:
        if trial.chased:
            return self._kept(trial)
        count = self.repetitions * len(trial.targets)
        places = self._places(self._region(trial.page_size), count)
        which = np.concatenate([[0], self._rng.permutation(np.arange(count) % len(trial.targets))])
        places[TARGET] = places[HERE] + np.asarray(trial.targets)[which]
        ticks, hits = self._machine.run(trial.timed, places, cpu=self._machine.facts.own_cpu, warmup=1).T
        return self._latencies([ticks[which[1:] == index] for index in range(len(trial.targets))], hits)

    def _kept(self, trial: Trial) -> Cycles:
        """The same where all targets are timed in each repetition, which takes long for its chase: of several, as
        what one evicts depends on which lines it has."""
        count = -(-(PARAMS.around if self._exact else self.repetitions) // PARAMS.chases)
        parts, own_cpu = [], self._machine.facts.own_cpu
        for _ in range(PARAMS.chases):
            places = self._places(self._region(trial.page_size), count)
            places[CHASED] = np.full(
                count + 1, self._chase(trial.chased, trial.chased_pages, self._region(PAGE, "chases"))
            )
            parts.append(self._machine.run(trial.timed, places, cpu=own_cpu, warmup=1))
        ticks, targets = np.concatenate(parts).T, len(trial.targets)
        return self._latencies(ticks[:targets], ticks[targets:].ravel())

    def _latencies(self, ticks: Iterable[NDArray[np.int64]], hits: NDArray[np.int64]) -> Cycles:
        """Cycles from load to use by each line's ticks and those of hits beside them."""
        first, hit = self._around.latencies[0], mean(hits, self._step)
        return tuple(first + (mean(each, self._step) - hit) * self._latency_per_tick for each in ticks)

    def _time(self, trial: Trial) -> Cycles:
        region = self._region(trial.page_size, "streams" if trial.bytes else "places")
        repetitions = PARAMS.timed[max(trial.chased, trial.units) > PARAMS.long]
        places = self._places(region, repetitions)
        if trial.chased:
            places[HERE] = np.full(repetitions + 1, self._chase(trial.chased, trial.chased_pages, region))
        if trial.bytes:  # two stretches that do not touch, always the same, so that later repetitions find what fits
            if 2 * trial.bytes + PAGE > region.size:
                raise UnsupportedError("arrays larger than the memory that trials have")
            half = region.address + region.size // 2 // PAGE * PAGE
            places = {base: np.full(repetitions + 1, at) for base, at in ((HERE, region.address), (THERE, half))}
        ticks = mean(self._run(trial.probe, places), self._step) - self._empty
        return (max(ticks * self._cycles_per_tick, 0.5) / trial.units,)

    def _chase(self, lines: int, pages: int, region: Region) -> int:
        """Link so many random lines on so many random pages into a cycle in random order; where it starts. Each page
        has as many of them as any other."""
        line = self._around.line
        chosen = self._rng.permutation(region.pages)[: max(pages, -(-lines * line // region.page_size))]
        inside = np.tile(np.arange(region.page_size // line)[:, None], len(chosen))
        every = chosen * region.page_size + self._rng.permuted(inside, axis=0) * line
        addresses = region.address + self._rng.permutation(every.ravel()[:lines])
        self._machine.link(region, addresses)
        return int(addresses[0])
