"""Runs trials on a machine and answers in levels and cycles, in the same way on every machine.

No overhead is assumed: a load that hits the first level and one that misses every cache are timed by the same stub
beside the trials, and a line's latency lies between them as its ticks do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError, UnsupportedError
from setebench.machine import Machine, Region
from setebench.probe import Base, Probe
from setebench.truth.verify.pace import Pace
from setebench.truth.verify.trials import (
    HERE,
    HUGE,
    PAGE,
    SPAN_PAGES,
    TARGET,
    THERE,
    Levels,
    Surroundings,
    Times,
    Trial,
)

RING = Base("r")
SPREADS = 4.0
"""How far above the middle half of the repetitions, in its widths, one was hit by a stall."""

ADDITIONS = 4000
CONTROLS = 64
"""Chained additions that give cycles per tick, and loads of each kind of control."""

LEAST_REPETITIONS, MOST_REPETITIONS = 4, 96
APART = 3.0
"""Standard errors of a line's mean between the first two levels: how sure a level is to be."""

REGION_BYTES = 32 << 20
TIMED_REPETITIONS = 8
LONG_RING = 4096
"""A ring of more lines is chased in fewer repetitions: its many steps are a mean already."""


@dataclass(frozen=True)
class Answer:
    """What a machine said: by target the cycles from load to use; or the one time of a trial, in cycles a unit."""

    cycles: tuple[float, ...]


@dataclass(frozen=True)
class _Pace:
    """Beside trials: cycles per tick, an empty interval, and how the stub times a hit and a miss of everything."""

    cycles_per_tick: float
    empty: float
    hit: float
    miss: float
    spread: float
    step: float


def mean(ticks: NDArray[np.int64], step: float = 1.0) -> float:
    """The mean without stalls: without what lies further above the median than `SPREADS` times the middle half is
    wide, and than two steps of the clock, so that a coarse clock's two values both count."""
    low, middle, high = np.percentile(ticks, (25, 50, 75))
    kept = ticks[ticks <= middle + max(SPREADS * (high - low), 2 * step)]
    return float(kept.mean())


def _step(ticks: NDArray[np.int64]) -> float:
    """The clock's step: the smallest difference between values that it gave."""
    gaps = np.diff(np.unique(ticks))
    return float(gaps.min()) if len(gaps) else 1.0


class Asker:
    """A machine that trials are run on. `latencies` are those of the first level and of memory, which both machines'
    times are held to. `repetitions` is how often a line is asked, without it as often as the first controls say.
    Machine and twin have to be asked alike, because what a prefetcher learns in one repetition it does in the next."""

    def __init__(
        self,
        machine: Machine,
        around: Surroundings,
        latencies: tuple[float, float],
        seed: int,
        repetitions: int | None = None,
    ) -> None:
        self._machine, self._around = machine, around
        self._first, self._memory = latencies
        self._rng = np.random.default_rng([seed, 1])
        self._cpu = machine.facts.own_cpu
        self._regions: dict[tuple[str, int], Region] = {}
        self._slots: Pace | None = None
        self._pace: _Pace | None = None
        self._repetitions = repetitions

    def alone(self) -> bool:
        """Wait until no co-runner is seen on the core; False where one stays."""
        if self._slots is None:
            self._slots = Pace(self._machine, self._cpu)
        return self._slots.wait()

    def calibrate(self) -> None:
        """Take the controls anew; they hold for the trials until the next call."""
        region = self._region(PAGE)
        places = self._places(region, CONTROLS)
        body = Probe().flush(HERE).fence().wait(round(2 * self._around.memory_cycles)).fence("l")
        hit = self._run(body.load(HERE).fence().start().load(HERE).stop(), places)
        miss = self._run(body.start().load(HERE).stop(), places)
        empty = self._run(Probe().fence().start().stop(), CONTROLS)
        added = self._run(Probe().fence().start().add(ADDITIONS).stop(), CONTROLS)
        step = _step(np.concatenate([hit, miss, empty, added]))
        empty_ticks = mean(empty, step)
        ratio = ADDITIONS / max(mean(added, step) - empty_ticks, 1e-9)
        spread = float(np.std(hit[hit <= np.percentile(hit, 90)]))
        self._pace = _Pace(ratio, empty_ticks, mean(hit, step), mean(miss, step), spread, step)
        if self._repetitions is None:
            self._repetitions = self._enough()

    def _enough(self) -> int:
        """Repetitions until a line's mean parts the first two levels."""
        pace = self._known
        step = (self._around.second_cycles - self._first) / 2 / self._ratio
        needed = (APART * pace.spread / max(step, 1e-9)) ** 2
        return int(np.clip(np.ceil(needed), LEAST_REPETITIONS, MOST_REPETITIONS))

    @property
    def repetitions(self) -> int:
        """How often each line is asked."""
        if self._repetitions is None:
            self.calibrate()
        assert self._repetitions is not None
        return self._repetitions

    @property
    def _ratio(self) -> float:
        """Cycles of latency for a tick of difference, by the two controls."""
        pace = self._known
        return (self._memory - self._first) / max(pace.miss - pace.hit, 1e-9)

    @property
    def _known(self) -> _Pace:
        if self._pace is None:
            raise SetebenchError("trials are asked before the controls")
        return self._pace

    def ask(self, trial: Trial) -> Answer:
        """The machine's answer, on new random places."""
        return self._levels(trial) if isinstance(trial, Levels) else self._times(trial)

    def close(self) -> None:
        """Give the regions back."""
        for region in self._regions.values():
            self._machine.release(region)
        self._regions.clear()

    # -- running ---------------------------------------------------------------------------------------------------

    def _run(self, probe: Probe, places: dict[Base, NDArray[np.int64]] | int) -> NDArray[np.int64]:
        return self._machine.run(probe, places, cpu=self._cpu, warmup=1)[:, 0]

    def _region(self, page_size: int, use: str = "places") -> Region:
        """Memory for places, for rings that must not hold a place, or for streams. Streams compute with what is there,
        and a pointer read as a number is a subnormal one, for which each operation takes a hundred cycles longer."""
        if (use, page_size) not in self._regions:
            self._regions[use, page_size] = self._machine.allocate(REGION_BYTES, page_size)
        return self._regions[use, page_size]

    def _places(self, region: Region, count: int) -> dict[Base, NDArray[np.int64]]:
        """Two different random places for each repetition, a row more for the warm-up."""
        spans = region.size // (SPAN_PAGES * PAGE) - 2
        first = self._rng.integers(1, spans, count + 1)
        second = (first + self._rng.integers(1, spans - 1, count + 1) - 1) % (spans - 1) + 1
        here, there = (region.address + spot * SPAN_PAGES * PAGE for spot in (first, second))
        return {HERE: here, THERE: there}

    def _levels(self, trial: Levels) -> Answer:
        region = self._region(self._page_size(trial.page_size))
        count = self.repetitions * len(trial.targets)
        places = self._places(region, count)
        reach = max((*trial.targets, SPAN_PAGES * PAGE))
        places[HERE] = np.minimum(places[HERE], (region.address + region.size - reach - HUGE) // PAGE * PAGE)
        which = np.concatenate([[0], self._rng.permutation(np.arange(count) % len(trial.targets))])
        places[TARGET] = places[HERE] + np.asarray(trial.targets)[which]
        probe = trial.pattern
        if trial.evicting:
            places[RING] = np.full(count + 1, self._ring(trial.evicting, trial.evicting, self._region(PAGE, "rings")))
            probe = probe.chase(RING, trial.evicting).fence().load(HERE + 32 * self._around.line)
        # the same line once more is a hit for certain, in the same place and at the same moment
        timed = probe.fence().start().load(TARGET).stop().fence().start(1).load(TARGET).stop(1)
        ticks, hits = self._machine.run(timed, places, cpu=self._cpu, warmup=1).T
        hit = mean(hits, self._known.step)
        return Answer(tuple(self._latency(ticks[which[1:] == index], hit) for index in range(len(trial.targets))))

    def _latency(self, ticks: NDArray[np.int64], hit: float) -> float:
        return self._first + (mean(ticks, self._known.step) - hit) * self._ratio

    def _times(self, trial: Times) -> Answer:
        region = self._region(self._page_size(trial.page_size), "streams" if trial.bytes else "places")
        repetitions = 2 if max(trial.ring, trial.units) > LONG_RING else TIMED_REPETITIONS
        places = self._places(region, repetitions)
        if trial.ring:
            places[HERE] = np.full(repetitions + 1, self._ring(trial.ring, trial.ring_pages, region))
        if trial.bytes:
            places = self._streamed(region, trial.bytes, repetitions)
        ticks = self._run(trial.probe, places)
        pace = self._known
        cycles = (mean(ticks, pace.step) - pace.empty) * pace.cycles_per_tick
        return Answer((max(cycles, 0.5) / trial.units,))

    def _streamed(self, region: Region, size: int, repetitions: int) -> dict[Base, NDArray[np.int64]]:
        """Two stretches that do not touch, the same in every repetition, so that later ones find what fits."""
        if 2 * size + PAGE > region.size:
            raise UnsupportedError("arrays larger than the memory that trials have")
        there = region.address + region.size // 2 // PAGE * PAGE
        return {HERE: np.full(repetitions + 1, region.address), THERE: np.full(repetitions + 1, there)}

    def _page_size(self, wanted: int) -> int:
        return wanted if wanted in self._machine.facts.page_sizes else PAGE

    def _ring(self, lines: int, pages: int, region: Region) -> int:
        """Link so many random lines on so many random pages into a cycle in random order; where it starts."""
        per_page = region.page_size // self._around.line
        pages = min(max(pages, -(-lines // per_page)), region.pages)
        lines = min(lines, pages * per_page)
        chosen = self._rng.permutation(region.pages)[:pages]
        slots = np.arange(lines) % pages
        inside = self._distinct(slots, per_page)
        addresses = region.address + chosen[slots] * region.page_size + inside * self._around.line
        addresses = self._rng.permutation(addresses)
        self._machine.link(region, addresses)
        return int(addresses[0])

    def _distinct(self, slots: NDArray[np.int64], per_page: int) -> NDArray[np.int64]:
        """A line for each slot such that no page has one twice: pages start anywhere and step by an odd number."""
        turn = np.arange(len(slots)) // (slots.max() + 1)
        begin = self._rng.integers(0, per_page, slots.max() + 1)
        step = 2 * self._rng.integers(0, max(per_page // 2, 1), slots.max() + 1) + 1
        found: NDArray[np.int64] = (begin[slots] + turn * step[slots]) % per_page
        return found
