"""Few lines among which one set of a cache is overfull, from very many: a hashed index spreads them all over.

A ring over thousands of lines hides what one set costs. So one line alone is timed: loaded, then as many others as are
to be tried, then the line again. As long as it is gone from the cache those others hold enough lines of its set, and
any part of them that can be left out without bringing it back is left out (group testing; Vila, Köpf and Morales 2019).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick
from setebench.probe import Base, Probe
from setebench.scenario import Context

TARGET, RING = Base("target"), Base("ring")
COMPANION_BYTES = TLB_PAGE_BYTES // 2
"""How far in its page the line lies whose flush warms the target's translation: none that a ring uses."""

LEAST_LINES, GROWTH = 256, 1.5
"""Lines tried until the target is gone; many times the ways of any first cache, which they have to empty of it."""

FEW_LINES, MOST_LINES = 96, 400
"""Rings of so many lines show one overfull set among them surely, or at most."""

LEAST_TIMES, MOST_TIMES, PRECISION, REFERENCE_TIMES = 4, 60, 5.0, 64
"""Repetitions: so many that the mean of samples a clock step apart is known to a fourth of the gap between two levels,
2.5 standard errors wide."""

GONE_SHARE, UNCLEAR_SHARE, MORE_TIMES = 0.8, (0.4, 0.95), 6
"""A line is gone if so many repetitions found it out of the cache: under random replacement that takes more lines than
the set has ways, as it must, whatever their number. Shares between are asked for again, more often."""

PARTS, STUCK_RATIO = (4, 8, 16, 32, 64), 0.9
"""Into so many parts the lines are split, each left out if it can be, as long as that takes a tenth of them away. One
part in sixty-four is free of the lines of a set of twenty ways in three of four cases."""

QUICK_RATIO, QUICK_SHARE = 3, 0.2
"""The share is less in as much fewer repetitions where a line is not gone; of one that is, it would be off by four
standard errors."""

MOST_LOADS, TRY_LOADS = 40_000_000, 12_000_000
"""Loads that all searches together may take, some seconds, and one of them. Where lines go by chance a search that
finds nothing would else go on for minutes, and none be left for pairs."""

AFFORDABLE_TIMES = 16
"""Where a clock is so coarse beside the two latencies that more repetitions are needed, all searches together may take
as many loads as else one of them; whole pages tell the ways then, mostly and sooner."""

TRIES = 2
"""Targets tried with lines one by one, and as many with lines in pairs."""


@dataclass(frozen=True)
class Latencies:
    """Cycles of a hit in the first cache, in the one whose sets are asked for, and in what answers behind that."""

    first: float
    own: float
    beyond: float


def wanted_repetitions(step_cycles: float, latencies: Latencies) -> float:
    """How often to time a load to know from its mean which of the two outer levels it came from."""
    return float((PRECISION * step_cycles / (latencies.beyond - latencies.own)) ** 2)


def repetitions(step_cycles: float, latencies: Latencies) -> int:
    """The same, as often as is worth it."""
    return int(min(max(wanted_repetitions(step_cycles, latencies), LEAST_TIMES), MOST_TIMES))


class Thinning:
    """Thins out lines of `region` until those of one set are most of what is left."""

    def __init__(self, context: Context, region: Region, latencies: Latencies, stride: int = TLB_PAGE_BYTES) -> None:
        """`stride`: bytes from one line to the next of its set of the first cache, whole pages."""
        self._context, self._region, self._cycles, self._stride = context, region, latencies, stride
        self._rng = context.rng(72)
        self._step, self._per_tick = step_ticks(context), cycles_per_tick(context)
        self._times = repetitions(self._step * self._per_tick, latencies)
        self._fine = wanted_repetitions(self._step * self._per_tick, latencies) <= MOST_TIMES
        self._loads_left = MOST_LOADS if self._times <= AFFORDABLE_TIMES else TRY_LOADS
        self._least_left = 0

    def few(self) -> Iterator[Lines]:
        """Lines of one set of the first cache, or pairs of lines, among which one set is overfull; others every time.

        Where misses bring in pairs, a line that is left out comes along as long as its neighbour misses, that is as
        long as enough other lines are there, and soon nothing can be left out any more: then both are used. Not at
        once, because neighbours one after the other wake other prefetchers."""
        line = self._region.line_size
        for pair in (0, line) * TRIES:
            if self._loads_left < 0 or not self._fine:
                return
            self._least_left = self._loads_left - TRY_LOADS
            offset = int(self._rng.integers(0, self._stride // line)) * line
            number = self._rng.permutation(self._region.size // self._stride)
            lines: Lines = (self._region.address + number * self._stride + offset).astype(np.int64)
            target = _Target(int(lines[0]), pair, self._ticks(_Target(int(lines[0])), lines[:0], REFERENCE_TIMES))
            found = self._thinned(target, lines[1:])
            if found is not None:
                yield np.append(target.with_pairs(found), target.address)

    def _thinned(self, target: _Target, pool: Lines) -> Lines | None:
        count = LEAST_LINES
        while not self._gone(target, pool[:count]):
            if count >= len(pool) or self._spent:
                return None
            count = min(int(count * GROWTH), len(pool))
        lines = pool[:count]
        for parts in PARTS:
            before = 2 * len(lines)
            while FEW_LINES < len(lines) < STUCK_RATIO * before and not self._spent:
                before = len(lines)
                lines = self._thinner(target, lines, parts)
        return lines if len(lines) <= MOST_LINES else None

    def _thinner(self, target: _Target, lines: Lines, parts: int) -> Lines:
        """The lines without those of `parts` parts that can be left out."""
        for part in np.array_split(self._rng.permutation(lines), parts):
            rest = lines[~np.isin(lines, part)]
            if self._gone(target, rest):
                lines = rest
        return lines

    @property
    def _spent(self) -> bool:
        return self._loads_left < max(self._least_left, 0)

    def _gone(self, target: _Target, lines: Lines) -> bool:
        """Whether the lines push the target out of the cache. A few repetitions tell where they clearly don't."""
        few = self._times // QUICK_RATIO
        if few >= LEAST_TIMES and self._share(target, lines, few) < QUICK_SHARE:
            return False
        share = self._share(target, lines, self._times)
        if UNCLEAR_SHARE[0] < share < UNCLEAR_SHARE[1]:
            share = self._share(target, lines, MORE_TIMES * self._times)
        return share > GONE_SHARE

    def _share(self, target: _Target, lines: Lines, times: int) -> float:
        cycles = (self._ticks(target, lines, times) - target.kept_ticks) * self._per_tick + self._cycles.first
        return (cycles - self._cycles.own) / (self._cycles.beyond - self._cycles.own)

    def _ticks(self, target: _Target, lines: Lines, times: int) -> float:
        """Mean ticks of a load of the target, after the others."""
        machine, cpu = self._context.machine, self._context.cpu
        probe = Probe().load(TARGET).fence()
        placements = {TARGET: np.full(times + 1, target.address)}
        if len(lines):
            ring = target.with_pairs(self._rng.permutation(lines))
            self._loads_left -= times * len(ring)
            machine.link(self._region, ring)
            probe = probe.chase(RING, len(ring)).fence()
            placements[RING] = np.full(times + 1, ring[0])
        probe = probe.flush(TARGET + target.beside).fence().start().load(TARGET).stop()
        ticks = machine.run(probe, placements, cpu=cpu, warmup=1).ravel()
        if not len(lines):
            return mean_ticks(ticks, self._step)
        # an interrupt, or a line gone further than to the next level, would outweigh the other samples
        gap = (self._cycles.beyond - self._cycles.first) / self._per_tick
        return float(np.minimum(ticks, target.kept_ticks + 1.25 * gap + self._step).mean())


@dataclass(frozen=True)
class _Target:
    """The line that is timed; `pair` is the distance in bytes of each other line's pair, 0 if lines are used one by
    one; `kept_ticks` is what the load takes in the first cache."""

    address: int
    pair: int = 0
    kept_ticks: float = 0.0

    def with_pairs(self, lines: Lines) -> Lines:
        """The lines, each followed by the other of its aligned pair if pairs are used."""
        return np.stack([lines, lines ^ self.pair], axis=1).ravel() if self.pair else lines

    @property
    def beside(self) -> int:
        """Offset of a line of the same page that is flushed only for its translation: loaded, it would teach a region
        prefetcher to bring the target back in."""
        return COMPANION_BYTES if self.address % TLB_PAGE_BYTES < COMPANION_BYTES else -COMPANION_BYTES
