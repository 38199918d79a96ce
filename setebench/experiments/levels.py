"""The levels of the memory hierarchy, found once per run from several rounds of the size sweep.

How many there are, what a load from each takes and how much it holds, with intervals. What the operating system says
of caches is never read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Levels
from setebench.errors import SetebenchError, UnsupportedError
from setebench.experiments.lines.layout import span_bytes
from setebench.experiments.near import sharpened
from setebench.experiments.paired import rounds
from setebench.experiments.size_sweep import SHORT, Sized, SizeSweepParams, per_load, sweep_once
from setebench.machine import Region
from setebench.scenario import PAGE_SIZE, Context
from setebench.stats import levels as mixtures
from setebench.stats.estimate import Interval
from setebench.stats.levels import Chains, Clock, Level, LevelsParams, quantised_variance
from setebench.stats.pairs import cycles, cycles_per_tick, located, ticks
from setebench.stats.plateaus import plateaus
from setebench.stats.rounds import LATENCY, MIDDLE, low_of_samples, quantile_of_rounds

Numbers = NDArray[np.float64]


class FindParams(msgspec.Struct, frozen=True, kw_only=True):
    """What of the sweeps counts, and where."""

    least_memory: int = 8 << 20  # bytes without which nothing is measured
    lone: tuple[int, int] = (1, 4)  # numbers of sizes that any first cache holds: they show what a bracket adds
    disturbed: float = 1.1  # a round whose chain takes so many times the fastest of its size is left out of the mixture
    disturbed_cycles: float = 0.5  # and so many cycles more, where loads take a few
    most: int = 2000  # chains of a size and length that enter it; more say little and take long
    pure: float = 0.9  # part of a size that a level must serve for long chains to state its latency
    purest: float = 0.02  # part by which it may serve less of one size than of another, and both count
    rises: float = 1.04  # ratio of costs from one size to the next where the next level begins to serve some
    leaks: float = 0.04  # part by which smaller sizes of a level may cost less, and still count
    ends: float = 0.5  # part of a working set served further out where a cache ends: furthest from what conflicts lose
    agree: float = 0.03  # part by which long chains may differ from the mixture of short ones, and still count
    most_blur: float = 0.1  # and longer by a bracket's jitter, which hides more, but by no more than this part
    least_spread: float = 0.025  # least half interval of what only single loads show, relative
    paces: tuple[float, float] = (0.05, 0.95)  # of all sets in all rounds, between which the clock is said to have been
    bias_cycles: float = 3.0  # of a bracket over a chain: its fences overlap with the last load, differently by core


def working_memory(context: Context) -> Region:
    """Memory for the largest working set, in the smallest pages: those every machine has.

    Where so much is not to be had, half of it, and so on; the sweep then ends earlier, which a progress message says.
    Raises `UnsupportedError` where there is hardly any, or not so much in pages of the size that an option names."""
    facts, params = context.machine.facts, FindParams()
    wanted = min(span_bytes(SizeSweepParams().largest, context.line_size), facts.memory_bytes // 2)
    while True:
        try:
            return context.allocate(wanted, min(facts.page_sizes))
        except UnsupportedError:
            wanted //= 2
            if wanted < params.least_memory or context.options.get(PAGE_SIZE.name):
                raise
            context.progress(f"little memory: going on with {wanted >> 20} MiB, so outer levels may not be found")


def find_levels(context: Context) -> Levels:
    """The levels, nearest first; those that a scenario of the run found before, if one did."""
    found = context.calibration.levels
    if found is None:
        region = working_memory(context)
        try:
            found = levels_of(swept(context, region), context.machine.facts.ticks_per_second)
            found = sharpened(context, region, found)
        finally:
            context.machine.release(region)
        context.calibration = replace(context.calibration, levels=found)
    context.evidence["sweep"] = found.sweep
    return found


def swept(context: Context, region: Region) -> list[list[Sized]]:
    """All rounds of the sweep: flushed lines, then working sets of growing size, in each."""
    params = SizeSweepParams()
    sizes = params.sizes(region.size * params.largest / span_bytes(params.largest, region.line_size), region.line_size)
    begin, found = time.monotonic(), []
    for number in rounds(context):
        context.progress(f"working-set sweep, round {number + 1}")
        found.append(sweep_once(context, region, sizes, params))
    context.evidence["sweep_seconds"] = round(time.monotonic() - begin, 2)
    return found


def levels_of(found: Sequence[Sequence[Sized]], ticks_per_second: float) -> Levels:
    """The levels that rounds of sweeps show. Raises `SetebenchError` where there is none."""
    table, params = _Table(found, FindParams()), LevelsParams()
    explained = mixtures.mixture(table.sources, table.likely(params), table.clock, params)
    if len(explained.cycles) < 2:
        raise SetebenchError("flushed lines are loaded as fast as those of the smallest working set: no level is found")
    by_name = {f"l{number}": each for number, each in enumerate(mixtures.levels(explained, params), 1)}
    latency = {name: table.latency(name, level) for name, level in by_name.items()}
    latency[MEMORY] = quantile_of_rounds([per_load(row[0]) for row in found], LATENCY)
    ends = {name: end for name, level in by_name.items() if (end := table.end(level))}
    memory = [ticks(row[0].samples, len(SHORT)) / row[0].samples.accesses for row in found]
    in_ticks = {name: latency[name].scaled(table.ticks_per_cycle(level)) for name, level in by_name.items()}
    in_ticks[MEMORY] = quantile_of_rounds(memory, LATENCY)
    return Levels(
        cycles={name: each.value for name, each in latency.items()},
        latency=latency,
        ns={name: each.scaled(1e9 / ticks_per_second) for name, each in in_ticks.items()},
        sete={name: table.single(by_name.get(name)) for name in latency},
        capacity=ends,
        pace=Interval(*np.nanquantile(table.paces, (MIDDLE, *table.params.paces)).tolist()),
        sweep={
            "size_bytes": table.sizes.tolist(),
            "cycles": np.round(np.nanquantile(table.cycles, LATENCY, axis=0), 3).tolist(),
            "rounds": np.round(table.cycles, 3).tolist(),
            "boundaries_bytes": [end.value for end in ends.values()],
            "levels": {name: each.value for name, each in latency.items()},
            "components": {"cycles": explained.cycles.tolist(), "weights": explained.weights.tolist()},
        },
    )


class _Table:
    """The sweeps as arrays: ascending `sizes` in bytes (n,); of long chains the `cycles` of a load and the `paces` of
    their references, cycles per tick, shape (rounds, n). `sources` are short chains by size, flushed lines last."""

    def __init__(self, found: Sequence[Sequence[Sized]], params: FindParams) -> None:
        self.params = params
        most = max(len(row) for row in found)
        self._by_size = [[row[number] for row in found if len(row) > number] for number in range(most)]
        self._rounds = found
        self.sizes = np.array([max(each.size_bytes for each in sets) for sets in self._by_size[1:]])
        self.cycles, self.paces = np.full((2, len(found), most - 1), np.nan)
        for number, row in enumerate(found):
            self.cycles[number, : len(row) - 1] = [per_load(each) for each in row[1:]]
            self.paces[number, : len(row) - 1] = [cycles_per_tick(each.samples) for each in row[1:]]
        self._loads = np.array([sets[0].samples.accesses for sets in self._by_size[1:]])
        self._flats = plateaus(self.sizes, self.cycles)
        few = slice(params.lone[0] - 1, params.lone[1] - 1)
        self.first_cycles = float(np.nanmin(np.nanmedian(self.cycles[:, few], axis=0)))
        lone = [each for sets in self._by_size[params.lone[0] : params.lone[1]] for each in sets]
        step = lone[0].samples.step_ticks * float(np.nanmedian([cycles_per_tick(each.samples) for each in lone]))
        # what a bracket adds depends on how much of a chain its fences overlap with: the first level shows it
        pools = {length: _usual(_pooled(lone, number), step) for number, length in enumerate(SHORT)}
        self._added = {length: float(own.mean()) - length * self.first_cycles for length, own in pools.items()}
        threes = pools[max(SHORT)]
        jitter2 = float(threes.var()) - quantised_variance(float(threes.mean()), step)
        self.sources = [self._chains(sets) for sets in (*self._by_size[1:], self._by_size[0])]
        self.clock = Clock(step, max(jitter2, 1.0), self._late(step))

    def _chains(self, sets: Sequence[Sized]) -> Chains:
        """Short chains of a size, of the rounds that were as quiet as the quietest."""
        cost, params = np.array([per_load(each) for each in sets]), self.params
        quiet = cost <= params.disturbed * np.nanmin(cost) + params.disturbed_cycles
        used = [each for each, keep in zip(sets, quiet, strict=True) if keep] or list(sets)
        return {each: _pooled(used, number)[: params.most] - self._added[each] for number, each in enumerate(SHORT)}

    def _late(self, step: float) -> float:
        """Cycles that single loads which miss the first level take longer than loads of long chains: the second level's
        plateau shows it. Beside a co-runner the first miss behind a fence waits for what came before."""
        for flat in self._flats:
            if flat.cycles > LevelsParams().near * self.first_cycles:
                singles = np.concatenate([self.sources[at][1] for at in range(flat.first, flat.last + 1)])
                return max(float(_usual(singles, step).mean()) - flat.cycles, 0.0)
        return 0.0

    def likely(self, params: LevelsParams) -> list[float]:
        """Latencies that long chains show: the first level's, plateaus, and flushed lines."""
        flushed = float(np.nanquantile([per_load(each) for each in self._by_size[0]], LATENCY))
        found = [self.first_cycles]
        for each in [*(flat.cycles for flat in self._flats), flushed]:
            if each > params.near * found[-1]:
                found.append(each)
        return found

    def latency(self, name: str, level: Level) -> Interval:
        """Cycles of a load from a level: by the long chains of sizes that it serves nearly alone, where these agree
        with what the mixture says of short ones (prefetched lines or conflicts change both, but not alike), else as
        the mixture has it, within what rounds differ by."""
        params, own = self.params, self.first_cycles if name == "l1" else level.cycles
        blur = min(self.clock.jitter2**0.5, params.most_blur * own)
        within = (1 - params.agree) * level.low, (1 + params.agree) * level.high + blur
        pure = level.weights >= max(params.pure, level.weights.max() - params.purest)
        for flat in self._flats:
            if level.weights.max() < params.pure and within[0] <= flat.cycles <= within[1]:
                pure[flat.first : flat.last + 1] = True
        if pure.any():
            most = self._loads[pure].max()
            longest = pure & (self._loads == most)  # a lone window's chase, where the level holds one
            dearest = self._dearest(longest)
            found = low_of_samples(self.cycles[:, dearest], params.bias_cycles / most)
            if name == "l1" or within[0] <= found.value <= within[1]:
                limit = min(self._limit(int(dearest[-1]), pure), within[1])
                return found if limit <= found.high else Interval(limit, found.low, limit + found.high - found.value)
        spread = self._spread(level)
        low, high = min(spread.low, 1 - params.least_spread), max(spread.high, 1 + params.least_spread)
        return Interval(own, min(own * low, level.low), max(own * high, level.high))

    def _dearest(self, pure: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Of sizes that a level serves those that cost most, before cost rises to what the next one takes: in smaller
        ones prefetched lines were still in the level before."""
        sizes = np.flatnonzero(pure)
        low = np.nanquantile(self.cycles[:, sizes], LATENCY, axis=0)
        low = np.minimum.accumulate(low[::-1])[::-1]
        rises = np.flatnonzero(low[1:] > self.params.rises * low[:-1])
        stop = int(rises[0]) + 1 if len(rises) else len(low)
        return np.asarray(sizes[:stop][low[:stop] >= (1 - self.params.leaks) * low[stop - 1]])

    def _limit(self, last: int, pure: NDArray[np.bool_]) -> float:
        """Cycles of a load of larger and larger sets, if the part that nearer levels serve goes on shrinking as sizes
        grow; 0 where it doesn't shrink from one size to the `last`: nearer levels then serve none."""
        if not last or not pure[last - 1]:
            return 0.0
        around = slice(last - 1, last + 1)
        (size, larger), (cost, more) = self.sizes[around], np.nanquantile(self.cycles[:, around], LATENCY, axis=0)
        return float((larger * more - size * cost) / (larger - size)) if cost < (1 - self.params.leaks) * more else 0.0

    def _spread(self, level: Level) -> Interval:
        """What single loads that took about as long as this level and no other, of the sizes that it serves often, took
        in the rounds, relative to the median of the rounds' means."""
        often, means = (np.flatnonzero(level.weights >= 0.5 * level.weights.max()) + 1).tolist(), list[float]()
        for row in self._rounds:
            loads = _pooled([row[size] for size in often if size < len(row)], 0) - self._added[1]
            own = loads[(loads > level.begins) & (loads < level.stops)]
            means += [float(own.mean())] if len(own) else []
        return quantile_of_rounds(np.array(means) / np.median(means), MIDDLE) if means else Interval(1.0, 1.0, 1.0)

    def single(self, level: Level | None) -> Interval:
        """Cycles of single loads of the size that a level serves most of, of flushed lines where it is None."""
        return quantile_of_rounds([located(each.samples, 0) - self._added[1] for each in self._best(level)], LATENCY)

    def ticks_per_cycle(self, level: Level) -> float:
        """Of the samples of the size that a level serves most of."""
        last = len(SHORT)
        paces = [ticks(each.samples, last) / located(each.samples, last) for each in self._best(level)]
        return quantile_of_rounds(paces, MIDDLE).value

    def _best(self, level: Level | None) -> list[Sized]:
        return self._by_size[0 if level is None else int(level.weights.argmax()) + 1]

    def end(self, level: Level) -> Interval | None:
        """Bytes at which a level ends, between two sizes on their logarithmic scale; None of one that was not
        outgrown."""
        beyond = 1.0 - level.weights - level.nearer
        after = np.flatnonzero((beyond > self.params.ends) & (self.sizes > self.sizes[int(level.weights.argmax())]))
        if not len(after):
            return None
        around = slice(max(after[0] - 1, 0), after[0] + 1)
        value = float(np.exp(np.interp(self.params.ends, beyond[around], np.log(self.sizes[around]))))
        return Interval(value, float(self.sizes[around][0]), float(self.sizes[around][-1]))


def _pooled(sets: Sequence[Sized], question: int) -> Numbers:
    return np.concatenate([cycles(each.samples, question) for each in sets] or [np.zeros(0)])


def _usual(values: Numbers, step: float) -> Numbers:
    """Those that no stall hit."""
    return np.asarray(values[values <= np.median(values) + 6 * max(step, 2.0)])
