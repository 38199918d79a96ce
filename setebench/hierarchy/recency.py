"""Loads of lines that passed a known number of lines ago, on a walk over lines that no cache holds yet.

The walk goes through memory line by line, so that what prefetchers bring along is its own next lines: in any other
order they bring lines that nobody asks for (on one CPU half as many again). It is longer than what is asked for, so
every line it comes to is new to the caches, and what lies how far back is known to the line. Now and then it stops, and
a few lines that passed at random distances are timed, one load each.

What a prefetcher brings in vain all the same, and what others bring to a shared cache, makes lines leave sooner. Both
show: the one in another order, where prefetchers do otherwise; the other when the walk takes its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region, Ticks
from setebench.measure.alone import Alone
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.placing import BASELINE_ADDITIONS
from setebench.measure.rings import Lines, cycles_per_tick
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

WALK, KEPT = Base("walk"), Base("kept")
TARGETS_PER_STOP, ADDITIONS_PER_STOP = 40, 16
"""Loads timed at every stop, and additions among them, which a load is compared with."""

TARGETS = tuple(Base(f"passed_{number}") for number in range(TARGETS_PER_STOP))
SPARES = tuple(Base(f"spare_{number}") for number in range(TARGETS_PER_STOP))

STOP_LINES = 2039
"""Lines between two stops, a prime: were all stops at the end of a page, a line would seem to have passed up to a page
longer ago than lines of its set came after it. What a stop brings in or takes out is accounted for; so few lines that
it hardly matters."""

BROUGHT_PER_TARGET = -0.25
"""Lines that a target and its companion bring in on average: distances are spread over the octaves around a capacity,
so a good third of the two are gone. Such a target comes in; a companion that is still there is flushed."""

COMPANION_BYTES = TLB_PAGE_BYTES // 2
"""How far beyond its target, in the other half of the page, lies the line whose flush warms the translation. A load
there would begin a new visit to the page, and a region prefetcher bring the target: all companions lie as far away, so
that it has learned them."""

REPETITIONS = 128
"""Stops per run of the machine."""

PAUSES = 30
"""Of `measure.alone`, as long as such a run and the lines that pass before it."""


class Passed(NamedTuple):
    """Lines put in since, and cycles above the shortest interval, of every timed load; shape (loads,) each."""

    distance: NDArray[np.float64]
    cycles: NDArray[np.float64]


class Stream:
    """A walk over the first `lines` lines of `region` round and round; `scattered`: page by page in random order, and
    in random order within each; `any_pages`: only the pages are random ones. `spare`: it leaves out the last line of
    every page, whose flush warms the translation and takes nothing away. What `passed` gives is looked at while the
    core is ours `alone`: somebody on its other thread brings lines of his own into its caches."""

    def __init__(
        self,
        context: Context,
        region: Region,
        lines: float,
        purpose: int,
        scattered: bool = False,
        any_pages: bool = False,
        spare: bool = False,
        alone: Alone | None = None,
    ) -> None:
        self._context, self._rng, self._alone = context, context.rng(purpose), alone
        self._line_size, self._spare = region.line_size, spare
        self._near_lines = COMPANION_BYTES // region.line_size
        pages = min(region.size, int(lines) * region.line_size) // TLB_PAGE_BYTES
        begin = region.address + np.arange(pages) * TLB_PAGE_BYTES
        if scattered or any_pages:
            begin = region.address + self._rng.permutation(region.size // TLB_PAGE_BYTES)[:pages] * TLB_PAGE_BYTES
        end = TLB_PAGE_BYTES - region.line_size if spare else TLB_PAGE_BYTES
        own = begin[:, None] + np.arange(0, end, region.line_size)[None, :]
        self._pages: Lines = begin.astype(np.int64)
        order = self._rng.permuted(own, axis=1) if scattered else own
        self._order: Lines = order.ravel().astype(np.int64)
        self._targets = np.flatnonzero(self._order % TLB_PAGE_BYTES < COMPANION_BYTES)
        self._at = 0
        context.machine.link(region, self._order)

    def __len__(self) -> int:
        return len(self._order)

    def advance(self, lines: int) -> None:
        """Walk over so many lines without a stop."""
        start = self._order[[self._at % len(self)]]
        self._context.machine.run(Probe().chase(WALK, lines), {WALK: start}, cpu=self._context.cpu)
        self._at += lines

    def passed(self, low: float, high: float, stops: int, wait_cycles: int = 0) -> Passed:
        """Loads of lines that passed `low` to `high` lines ago, as many in every octave, waiting so long at every stop;
        the walk must have gone on for `high` lines before."""
        distances, cycles = [], []
        for begin in range(0, stops, REPETITIONS):
            look = partial(self._stops, low, high, min(REPETITIONS, stops - begin), wait_cycles)
            one = look() if self._alone is None else self._while_alone(self._alone, look, int(high))
            distances.append(one.distance)
            cycles.append(one.cycles)
        extra = 1.0 + TARGETS_PER_STOP * BROUGHT_PER_TARGET / STOP_LINES
        return Passed(np.concatenate(distances).ravel() * extra + 1.0, np.concatenate(cycles).ravel())

    def _while_alone(self, alone: Alone, look: Callable[[], Passed], lines: int) -> Passed:
        """What `look` gives while the core is ours alone. Who ran on its other thread has left lines of his own in the
        caches, so as many of the walk's pass first."""
        met = alone.disturbances

        def behind_own_lines() -> Passed:
            nonlocal met
            if alone.disturbances != met:
                met = alone.disturbances
                self.advance(lines)
            return look()

        return alone.run(behind_own_lines, pauses=lambda _: PAUSES)

    def _stops(self, low: float, high: float, count: int, wait_cycles: int) -> Passed:
        """The same at so many stops, with only the walk's lines counted; shape (stops, loads) each."""
        wanted = np.exp(self._rng.uniform(np.log(low), np.log(high), (count, TARGETS_PER_STOP)))
        ends = self._at + STOP_LINES * np.arange(1, count + 1)
        # whatever passed as long ago in a lower half of its page, or just before
        turns, rest = np.divmod(ends[:, None] - 1 - wanted.astype(np.int64), len(self))
        nearest = np.searchsorted(self._targets, rest, side="right") - 1
        # any line of the lower half alike: were it often the last one, a few sets would get most of the lines that
        # the stops bring in
        nearest -= self._rng.integers(0, self._near_lines, nearest.shape)
        place = self._targets[nearest] - np.where(nearest < 0, len(self), 0)
        at = self._order[place % len(self)]
        cycles = self._timed(at, (ends - STOP_LINES) % len(self), wait_cycles)
        self._at = int(ends[-1])
        return Passed(ends[:, None] - 1 - (turns * len(self) + place), cycles)

    def filled(self, spacing: int, stops: int, latest: int) -> NDArray[np.float64]:
        """Cycles of loads of lines that passed at any time, but for the `latest` ones, at a stop after every so many
        lines of the walk, from its beginning; shape (stops, loads). Stops with no more lines than that tell none."""
        ends = spacing * np.arange(1, stops + 1)
        among = np.searchsorted(self._targets, np.maximum(ends - latest, 1))
        at = self._order[self._targets[(self._rng.random((stops, TARGETS_PER_STOP)) * among[:, None]).astype(np.int64)]]
        # flushes of the walk's lines would leave ways empty, which is what is asked for
        return self._timed(at, ends - spacing, 0, spacing, flush=self._spare)

    def flush(self) -> None:
        """Take all of its lines out of every cache."""
        probe = Probe()
        for place in range(0, TLB_PAGE_BYTES, self._line_size):
            probe = probe.flush(WALK + place)
        self._context.machine.run(probe, {WALK: self._pages}, cpu=self._context.cpu)

    def kept(self, first: int, offsets: Sequence[int], every: int, lines: float) -> NDArray[np.float64]:
        """Cycles of loads of the same few lines (at most `TARGETS_PER_STOP` offsets to an address), to which the walk
        never comes, after every so many lines of the walk, until so many have passed; shape (stops, offsets).

        Nothing else in their pages is touched: a prefetcher that learns what is used together would bring them back."""
        stops = max(1, int(lines) // every)
        starts = self._at + every * np.arange(stops)
        self._at += every * stops
        probe = Probe().chase(WALK, every).fence()
        for number, offset in enumerate(offsets):
            probe = probe.start(number).load(KEPT + offset).stop(number)
        for number in range(len(offsets), len(offsets) + ADDITIONS_PER_STOP):
            probe = probe.start(number).add(BASELINE_ADDITIONS).stop(number)
        places = {WALK: self._order[starts % len(self)], KEPT: np.full(stops, first)}
        return self._above_additions(self._context.machine.run(probe, places, cpu=self._context.cpu), len(offsets))

    def _above_additions(self, ticks: Ticks, loads: int) -> NDArray[np.float64]:
        """Cycles of the first so many intervals, loads, above those of the others."""
        base = mean_ticks(ticks[:, loads:].ravel(), step_ticks(self._context))
        more: NDArray[np.float64] = ticks[:, :loads].astype(np.float64) - base
        return more * cycles_per_tick(self._context) + BASELINE_ADDITIONS

    def _timed(
        self,
        targets: NDArray[np.int64],
        starts: NDArray[np.int64],
        wait_cycles: int,
        lines: int = STOP_LINES,
        flush: bool = True,
    ) -> NDArray[np.float64]:
        """Cycles of single loads after so many lines of the walk each time, shape (stops, targets); companions are
        flushed or loaded."""
        probe = Probe().chase(WALK, lines).fence()
        probe = probe.wait(wait_cycles).fence() if wait_cycles else probe
        # the companion also fetches the target's address, which would else be fetched while the clock runs
        for number, target in enumerate(TARGETS):
            companion = SPARES[number] + 0 if self._spare else target + COMPANION_BYTES
            probe = _warmed(probe, companion, flush).start(number).load(target).stop(number)
            if number < ADDITIONS_PER_STOP:
                addition = TARGETS_PER_STOP + number
                probe = _warmed(probe, companion, flush)
                probe = probe.start(addition).add(BASELINE_ADDITIONS).stop(addition)
        places = {WALK: self._order[starts]} | {base: targets[:, n] for n, base in enumerate(TARGETS)}
        if self._spare:
            last = targets - targets % TLB_PAGE_BYTES + TLB_PAGE_BYTES - self._line_size
            places |= {base: last[:, n] for n, base in enumerate(SPARES)}
        ticks = self._context.machine.run(probe, places, cpu=self._context.cpu)
        return self._above_additions(ticks, TARGETS_PER_STOP)


def _warmed(probe: Probe, companion: Operand, flush: bool) -> Probe:
    """Behind this, the page of `companion` is translated without delay."""
    return (probe.flush(companion) if flush else probe.load(companion)).fence()
