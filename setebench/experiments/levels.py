"""Find the levels of the memory hierarchy from several rounds of the size sweep, once per run.

The result is the number of levels and the latency and capacity of each, with intervals. What the operating system
reports about caches is never read.
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
    """Tunables of the inference of levels. A size is one working set; shares are fractions of its loads."""

    least_memory: int = 8 << 20  # least bytes of memory for a sweep
    lone: tuple[int, int] = (1, 4)  # numbers of the smallest sizes, which show a bracket's overhead in any L1
    disturbed: float = 1.1  # rounds whose long chain takes over so many times the fastest are not used for a size
    disturbed_cycles: float = 0.5  # cycles added to that limit, for sizes whose loads take a few cycles
    most: int = 2000  # most chains of a size and length that the mixture is fitted to; more take long and add little
    pure: float = 0.9  # least share that a level serves at sizes whose long chains give its latency
    purest: float = 0.02  # at these sizes, the share is at most this much below the level's largest share
    rises: float = 1.04  # ratio of costs from one size to the next that shows the next level's first loads
    leaks: float = 0.04  # relative amount by which a smaller size may cost less and is still used
    ends: float = 0.5  # share served by further levels at a cache's capacity; conflict misses matter least there
    agree: float = 0.03  # largest relative difference between long chains and the mixture of short chains
    most_blur: float = 0.1  # `agree` is raised by the bracket's jitter, by at most this part of the latency
    least_spread: float = 0.025  # least relative half width of a latency that only single loads show
    paces: tuple[float, float] = (0.02, 0.98)  # quantiles of the cycles per tick of all samples: the clock's range
    bias_cycles: float = 3.0  # bias of a bracket over a chain: its fences overlap with the last load


def working_memory(context: Context) -> Region:
    """Allocate memory for the largest working set, in the smallest pages, which every machine has. If the allocation
    fails, half as much is tried, and so on; the sweep then ends at a smaller size, as a progress message says. A
    failure raises `UnsupportedError` if half as much is less than `least_memory`, or if an option names a page size."""
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
    """Return the levels of the hierarchy, measured at the first call of a run and kept in `context.calibration`."""
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
    """Run the size sweep in `region`; return each round's samples: flushed lines first, then working sets by size."""
    params = SizeSweepParams()
    sizes = params.sizes(region.size * params.largest / span_bytes(params.largest, region.line_size), region.line_size)
    begin, found = time.monotonic(), []
    for number in rounds(context):
        context.progress(f"working-set sweep, round {number + 1}")
        # Traversing the largest sets takes most of the time, so that only every second round does.
        found.append(
            sweep_once(context, region, [each for each in sizes if number % 2 == 0 or each < params.fine], params)
        )
    context.evidence["sweep_seconds"] = round(time.monotonic() - begin, 2)
    return found


def levels_of(found: Sequence[Sequence[Sized]], ticks_per_second: float) -> Levels:
    """Return the levels that a sweep's rounds show; `ticks_per_second` gives ns. Raises `SetebenchError` if none do."""
    table, params = _Table(found, FindParams()), LevelsParams()
    explained = mixtures.mixture(table.sources, table.likely(params), table.clock, params)
    if len(explained.cycles) < 2:
        raise SetebenchError("flushed lines are loaded as fast as those of the smallest working set: no level is found")
    by_name = {f"l{number}": each for number, each in enumerate(mixtures.levels(explained, params), 1)}
    latency = {name: table.latency(name, level) for name, level in by_name.items()}
    bias, flushed = table.params.bias_cycles, found[0][0].samples
    missed = [per_load(row[0]) for row in found]
    latency[MEMORY] = quantile_of_rounds(missed, LATENCY, (bias / flushed.accesses,) * 2)
    ends = {name: end for name, level in by_name.items() if (end := table.end(level))}
    memory = [ticks(row[0].samples, len(SHORT)) / row[0].samples.accesses for row in found]
    in_ticks = {name: latency[name].scaled(table.ticks_per_cycle(level)) for name, level in by_name.items()}
    middle, slow, fast = np.nanquantile(table.paces, (MIDDLE, *table.params.paces)).tolist()
    off = bias / flushed.reference_cycles
    in_ticks[MEMORY] = quantile_of_rounds(memory, LATENCY)
    return Levels(
        cycles={name: each.value for name, each in latency.items()},
        latency=latency,
        ns={name: each.scaled(1e9 / ticks_per_second) for name, each in in_ticks.items()},
        sete={name: table.single(by_name.get(name)) for name in latency},
        capacity=ends,
        pace=Interval(middle, slow * (1 - off), fast * (1 + off)),
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
    """The rounds of a sweep as arrays: `sizes` in bytes, ascending, shape (n,); core `cycles` a load of long chains and
    the clock's `paces` (cycles per tick), shapes (rounds, n). `sources`: short chains by size, flushed lines last."""

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
        # A bracket's overhead depends on the chain's length, as fences overlap with loads; chains in level 1 show it.
        pools = {length: _without_stalls(_pooled(lone, number), step) for number, length in enumerate(SHORT)}
        self._added = {length: float(own.mean()) - length * self.first_cycles for length, own in pools.items()}
        threes = pools[max(SHORT)]
        jitter2 = float(threes.var()) - quantised_variance(float(threes.mean()), step)
        self.sources = [self._chains(sets) for sets in (*self._by_size[1:], self._by_size[0])]
        self.clock = Clock(step, max(jitter2, 1.0), self._late(step))

    def _chains(self, sets: Sequence[Sized]) -> Chains:
        """Return the times of one size's short chains, in cycles without the bracket's overhead, by number of loads.
        `sets` are the samples of that size in each round; disturbed rounds are left out."""
        cost, params = np.array([per_load(each) for each in sets]), self.params
        quiet = cost <= params.disturbed * np.nanmin(cost) + params.disturbed_cycles
        used = [each for each, keep in zip(sets, quiet, strict=True) if keep] or list(sets)
        return {each: _pooled(used, number)[: params.most] - self._added[each] for number, each in enumerate(SHORT)}

    def _late(self, step: float) -> float:
        """Return the extra cycles of a lone load that misses level 1 over a load within a long chain, from sizes on the
        plateau of level 2. With a co-runner, the first miss after a fence waits for earlier operations."""
        for flat in self._flats:
            if flat.cycles > LevelsParams().near * self.first_cycles:
                singles = np.concatenate([self.sources[at][1] for at in range(flat.first, flat.last + 1)])
                return max(float(_without_stalls(singles, step).mean()) - flat.cycles, 0.0)
        return 0.0

    def likely(self, params: LevelsParams) -> list[float]:
        """Return likely latencies of levels in cycles, ascending, with which the fit of the mixture begins: that of
        level 1, the plateaus of long chains, and that of flushed lines."""
        flushed = float(np.nanquantile([per_load(each) for each in self._by_size[0]], LATENCY))
        found = [self.first_cycles]
        for each in [*(flat.cycles for flat in self._flats), flushed]:
            if each > params.near * found[-1]:
                found.append(each)
        return found

    def latency(self, name: str, level: Level) -> Interval:
        """Return the latency of a load from the level `name`, in cycles. It comes from long chains at sizes that this
        level serves nearly alone, if they agree with the mixture fitted to short chains (prefetching and conflict
        misses change both, but differently); else from the mixture, with an interval from the spread over rounds."""
        params, own = self.params, self.first_cycles if name == "l1" else level.cycles
        blur = min(self.clock.jitter2**0.5, params.most_blur * own)
        within = (1 - params.agree) * level.low, (1 + params.agree) * level.high + blur
        pure = level.weights >= max(params.pure, level.weights.max() - params.purest)
        for flat in self._flats:
            if level.weights.max() < params.pure and within[0] <= flat.cycles <= within[1]:
                pure[flat.first : flat.last + 1] = True
        if pure.any():
            most = self._loads[pure].max()
            longest = pure & (self._loads == most)  # sizes of a single window have the longest chains
            dearest = self._dearest(longest)
            found = low_of_samples(self.cycles[:, dearest], params.bias_cycles / most)
            if name == "l1" or within[0] <= found.value <= within[1]:
                high = (1 + (name > "l2") * params.leaks) * found.value  # nearer levels may serve some loads
                return found._replace(high=max(found.high, high))
        spread = self._spread(level)
        low, high = min(spread.low, 1 - params.least_spread), max(spread.high, 1 + params.least_spread)
        return Interval(own, min(own * low, level.low), max(own * high, level.high))

    def _dearest(self, pure: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the indices of those sizes in the mask `pure` (sizes that one level serves), shape (n,), that cost
        most before cost rises towards the next level. In smaller sizes, prefetched lines come from the level before."""
        sizes = np.flatnonzero(pure)
        low = np.nanquantile(self.cycles[:, sizes], LATENCY, axis=0)
        low = np.minimum.accumulate(low[::-1])[::-1]
        rises = np.flatnonzero(low[1:] > self.params.rises * low[:-1])
        stop = int(rises[0]) + 1 if len(rises) else len(low)
        return np.asarray(sizes[:stop][low[:stop] >= (1 - self.params.leaks) * low[stop - 1]])

    def _spread(self, level: Level) -> Interval:
        """Return the variation of a level's latency over rounds, as an interval around 1: the mean of each round's
        single loads with a latency close to this level, over the median of these means."""
        often, means = (np.flatnonzero(level.weights >= 0.5 * level.weights.max()) + 1).tolist(), list[float]()
        for row in self._rounds:
            loads = _pooled([row[size] for size in often if size < len(row)], 0) - self._added[1]
            own = loads[(loads > level.begins) & (loads < level.stops)]
            means += [float(own.mean())] if len(own) else []
        return quantile_of_rounds(np.array(means) / np.median(means), MIDDLE) if means else Interval(1.0, 1.0, 1.0)

    def single(self, level: Level | None) -> Interval:
        """Return the cycles of a load timed alone, not in a long chain, in the working set of which `level` serves the
        largest share of loads (None: of a flushed line)."""
        return quantile_of_rounds([located(each.samples, 0) - self._added[1] for each in self._best(level)], LATENCY)

    def ticks_per_cycle(self, level: Level) -> float:
        """Return ticks per core cycle, from samples of the size at which `level` serves its largest share of loads."""
        last = len(SHORT)
        paces = [ticks(each.samples, last) / located(each.samples, last) for each in self._best(level)]
        return quantile_of_rounds(paces, MIDDLE).value

    def _best(self, level: Level | None) -> list[Sized]:
        """Return each round's samples of the size with the largest share of `level` (None: of flushed lines)."""
        return self._by_size[0 if level is None else int(level.weights.argmax()) + 1]

    def end(self, level: Level) -> Interval | None:
        """Return a level's capacity in bytes, interpolated between two sizes; None if no working set outgrew it."""
        beyond = 1.0 - level.weights - level.nearer
        after = np.flatnonzero((beyond > self.params.ends) & (self.sizes > self.sizes[int(level.weights.argmax())]))
        if not len(after):
            return None
        around = slice(max(after[0] - 1, 0), after[0] + 1)
        value = float(np.exp(np.interp(self.params.ends, beyond[around], np.log(self.sizes[around]))))
        return Interval(value, float(self.sizes[around][0]), float(self.sizes[around][-1]))


def _pooled(sets: Sequence[Sized], question: int) -> Numbers:
    """Return the core cycles of the timed part number `question` in all samples of all `sets`, shape (samples,)."""
    return np.concatenate([cycles(each.samples, question) for each in sets] or [np.zeros(0)])


def _without_stalls(values: Numbers, step: float) -> Numbers:
    """Return the values (cycles, shape (n,)) that no stall hit: those at most 6 clock steps above the median."""
    return np.asarray(values[values <= np.median(values) + 6 * max(step, 2.0)])
