"""The levels of the memory hierarchy, found once per run from several rounds of the size sweep.

How many there are, what a load from each takes and how much it holds, with intervals. What the operating system says
of caches is never asked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Levels, Walk
from setebench.errors import SetebenchError, UnsupportedError
from setebench.experiments.lines.layout import span_bytes
from setebench.experiments.paired import RoundsParams, rounds
from setebench.experiments.size_sweep import SHORT, Sized, SizeSweepParams, per_load, sweep_once
from setebench.machine import Region
from setebench.scenario import Context
from setebench.stats import levels as mixtures
from setebench.stats.estimate import Interval
from setebench.stats.levels import Level, LevelsParams, Source
from setebench.stats.pairs import cycles, cycles_per_tick, located, ticks
from setebench.stats.plateaus import PlateausParams, plateaus
from setebench.stats.rounds import LATENCY, MIDDLE, quantile_of_rounds, quantile_of_steady, steady
from setebench.stats.served import Intervals, quantised_variance

Numbers = NDArray[np.float64]


class FindParams(msgspec.Struct, frozen=True, kw_only=True):
    """What of the sweeps counts, and where."""

    least_memory: int = 8 << 20  # bytes without which nothing is asked
    lone: tuple[int, int] = (1, 4)  # numbers of sizes that any first cache holds: they show what a bracket adds
    disturbed: float = 1.1  # a round whose chain takes so many times the fastest of its size is left out of the mixture
    disturbed_cycles: float = 0.5  # and so many cycles more, where loads take a few
    counts: tuple[int, ...] = (1, 3)  # lengths of the chains that enter the mixture: longer ones take long to explain
    most: int = 400  # intervals of a size and length that enter it; more say little and take long
    pure: float = 0.9  # part of a size that a level must serve for the chains to state its latency
    ends: float = 0.5  # part of a working set served further out where a cache ends: furthest from what conflicts lose
    alike: float = 0.25  # part by which a smaller set may be served less by a level and still is its traversal
    least_spread: float = 0.025  # least half interval of what only single loads tell, relative
    turns: int = 3  # times that a traversal goes round where nearer levels serve more than `kept` of it
    kept: float = 0.2  # part of a traversal that a nearer level that replaces at random may keep
    apart: float = 1.6  # least ratio of a level to the first: closer components are what conflicts make of that
    steps: float = 2.0  # clock steps within which levels blur in the longest chain of the mixture
    agree: float = 0.04  # part by which chains may take longer than the mixture of short ones says, and still count
    agree_jitters: float = 0.7  # the same in standard deviations of a bracket: where it jitters it also hides more
    most_hidden: float = 0.1  # but no more than this part of the latency: on coarse clocks the jitter is hardly known
    early: float = 0.02  # part by which they may take less: more is what prefetchers brought nearer
    bias_cycles: float = 3.0  # of a bracket over a chain: its fences overlap with the last load, differently by core


def working_memory(context: Context) -> Region:
    """Memory for the largest working set, in the smallest pages: those every machine has.

    Where so much is not to be had, half of it, and so on; the sweep then ends earlier, which a progress message says.
    Raises `UnsupportedError` where there is hardly any."""
    facts, params = context.machine.facts, FindParams()
    wanted = min(span_bytes(SizeSweepParams().largest, context.line_size), facts.memory_bytes // 2)
    while True:
        try:
            return context.allocate(wanted, min(facts.page_sizes))
        except UnsupportedError:
            wanted //= 2
            if wanted < params.least_memory:
                raise
            context.progress(f"little memory: going on with {wanted >> 20} MiB, so outer levels may not be found")


def find_levels(context: Context, region: Region) -> Levels:
    """The levels, nearest first; those that a scenario of the run found before, if one did."""
    found = context.calibration.levels
    if found is None:
        found = levels_of(swept(context, region), context.machine.facts.ticks_per_second)
        context.calibration = replace(context.calibration, levels=found)
    context.evidence["sweep"] = found.sweep
    return found


def find_walks(context: Context, region: Region) -> dict[str, Walk]:
    """Levels by name, nearest first, each with the traversal behind which its lines answer; `l1` and `memory` need
    none."""
    return dict(find_levels(context, region).walks)


def swept(context: Context, region: Region) -> list[list[Sized]]:
    """All rounds of the sweep: flushed lines, then working sets of growing size, in each."""
    params = SizeSweepParams()
    sizes = params.sizes(region.size * params.largest / span_bytes(params.largest, region.line_size), region.line_size)
    begin, found = time.monotonic(), []
    for number in rounds(context, RoundsParams()):
        context.progress(f"working-set sweep, round {number + 1}")
        found.append(sweep_once(context, region, sizes, params))
    context.evidence["sweep_seconds"] = round(time.monotonic() - begin, 2)
    return found


def levels_of(found: Sequence[Sequence[Sized]], ticks_per_second: float) -> Levels:
    """The levels that rounds of sweeps show. Raises `SetebenchError` where there is none."""
    params = FindParams()
    table = _Table(found, params)
    explained = mixtures.mixture(table.sources[1:], table.sources[0], LevelsParams())
    if len(explained.cycles) < 2:
        raise SetebenchError("flushed lines are loaded as fast as those of the smallest working set: no level is found")
    known = mixtures.levels(explained, LevelsParams())
    first = [msgspec.structs.replace(level, cycles=table.first_cycles) for level in known.caches[:1]]
    beyond = [level for level in known.caches[1:] if level.cycles > params.apart * table.first_cycles]
    caches = sorted([*first, *beyond, *_blurred([*first, *beyond], table, params)], key=lambda level: level.cycles)
    table.components = [*(level.cycles for level in caches), known.memory]
    names = [f"l{number}" for number in range(1, len(caches) + 1)]
    by_name = dict(zip(names, caches, strict=True))
    latency = {name: table.latency(level) for name, level in by_name.items()} | {MEMORY: table.of_memory()}
    ns = {
        name: Interval(*(value / ticks_per_second * 1e9 for value in table.in_ticks(name, latency, by_name)))
        for name in latency
    }
    walks = {name: table.walk(level) for name, level in by_name.items()} | {MEMORY: Walk()}
    ends = {name: end for name, level in by_name.items() if (end := table.end(level))}
    return Levels(
        walks={**walks, "l1": Walk(float(table.sizes[params.lone[1]]))},
        cycles={name: each.value for name, each in latency.items()},
        latency=latency,
        ns=ns,
        sete={name: table.single(by_name.get(name)) for name in latency},
        capacity=ends,
        hidden_cycles=known.hidden,
        sweep={
            "size_bytes": table.sizes.tolist(),
            "cycles": np.round(table.low(), 3).tolist(),
            "rounds": np.round(table.cycles, 3).tolist(),
            "boundaries_bytes": [end.value for end in ends.values()],
            "levels": {name: each.value for name, each in latency.items()},
            "components": {"cycles": explained.cycles.tolist(), "weights": explained.weights.tolist()},
        },
    )


def _blurred(found: Sequence[Level], table: _Table, params: FindParams) -> list[Level]:
    """Levels that long chains show by a plateau, and that lie so near to others that short chains on this clock can't
    be told apart from a mixture of these."""
    near = params.steps * table.step_cycles / max(params.counts)
    levels = []
    for flat in plateaus(table.sizes, table.cycles):
        ratios = [max(flat.cycles, each.cycles) / min(flat.cycles, each.cycles) for each in found]
        apart = min(ratios) > PlateausParams().apart and flat.cycles > params.apart * table.first_cycles
        if apart and min(abs(flat.cycles - each.cycles) for each in found) < near:
            served = np.zeros(len(table.sizes))
            served[flat.first : flat.last + 1] = 1.0
            before = np.arange(len(served)) < flat.first
            levels.append(Level(cycles=flat.cycles, weights=served, nearer=before.astype(np.float64)))
    return levels


class _Table:
    """The sweeps as arrays: ascending `sizes` in bytes (n,); of long chains the `cycles` of a load and the `paces` of
    their references, cycles per tick, shape (rounds, n)."""

    def __init__(self, found: Sequence[Sequence[Sized]], params: FindParams) -> None:
        self.params = params
        self.components: list[float] = []
        most = max(len(row) for row in found)
        self._by_size = [[row[number] for row in found if len(row) > number] for number in range(most)]
        self._rounds = found
        self.sizes = np.array([max(each.size_bytes for each in sets) for sets in self._by_size[1:]])
        self.cycles, self.paces = np.full((2, len(found), most - 1), np.nan)
        for number, row in enumerate(found):
            self.cycles[number, : len(row) - 1] = [per_load(each) for each in row[1:]]
            self.paces[number, : len(row) - 1] = [cycles_per_tick(each.samples) for each in row[1:]]
        lone = [each for sets in self._by_size[params.lone[0] : params.lone[1]] for each in sets]
        few = slice(params.lone[0] - 1, params.lone[1] - 1)
        alone = np.where(steady(self.paces[:, few]), self.cycles[:, few], np.nan)
        self.first_cycles = float(np.nanmin(np.nanmedian(alone, axis=0)))
        pace = float(np.nanmedian([cycles_per_tick(each.samples) for each in lone]))
        self.step_cycles = lone[0].samples.step_ticks * pace
        # what a bracket adds depends on how much of a chain its fences overlap with: the first level shows it
        self._pools = {length: self._usual(self._pooled(lone, number)) for number, length in enumerate(SHORT)}
        self.added = {length: float(own.mean()) - length * self.first_cycles for length, own in self._pools.items()}
        self.sources = [self._source(number) for number in range(most)]

    def low(self) -> Numbers:
        """Cycles of a load by size, as in the quiet rounds."""
        return np.asarray(np.nanquantile(self.cycles, LATENCY, axis=0))

    @staticmethod
    def _pooled(sets: Sequence[Sized], question: int) -> Numbers:
        return np.concatenate([cycles(each.samples, question) for each in sets])

    def _source(self, number: int) -> Source:
        """Short chains of a size, of the rounds that were as quiet as the quietest."""
        sets, params = self._by_size[number], self.params
        cost = np.array([per_load(each) for each in sets])
        quiet = cost <= params.disturbed * np.nanmin(cost) + params.disturbed_cycles
        quiet &= steady([cycles_per_tick(each.samples) for each in sets])
        kept = [each for each, keep in zip(sets, quiet, strict=True) if keep or not number] or list(sets)
        wanted = [(number, length) for number, length in enumerate(SHORT) if length in params.counts]
        own = {length: self._pooled(kept, question)[: params.most] - self.added[length] for question, length in wanted}
        return Source(
            intervals=Intervals(
                count=np.concatenate([np.full(len(values), length) for length, values in own.items()]),
                ticks=np.concatenate(list(own.values())),
                step=self.step_cycles,
                jitter2=self._jitter2(),
                cycles_per_tick=1.0,
            ),
            overhead=0.0,
        )

    def _usual(self, values: Numbers) -> Numbers:
        """Those that no stall hit."""
        kept: Numbers = values[values <= np.median(values) + 6 * max(self.step_cycles, 2.0)]
        return kept

    def _jitter2(self) -> float:
        """Variance of a bracket in cycles, without that of the clock's step."""
        loads = self._pools[1]
        return max(float(loads.var()) - quantised_variance(float(loads.mean()), self.step_cycles), 1.0)

    def latency(self, level: Level) -> Interval:
        """Cycles of a load from a level: by the long chains of sizes that it serves nearly alone, where these agree
        with what the mixture says of single loads (prefetched lines or conflicts change both, but not alike), else as
        the mixture has it, within what rounds of its best size differ by."""
        params, pure = self.params, level.weights >= self.params.pure
        if pure.any():
            accesses = np.array([self._accesses(number) for number in range(len(self.sizes))])
            longest = pure & (accesses == accesses[pure].max())  # a lone window's ring, where the level holds one
            by_round = np.nanquantile(self.cycles[:, longest], LATENCY, axis=1) + self._bias(longest)
            paces = np.nanmedian(self.paces[:, longest], axis=1)
            found = quantile_of_steady(by_round, paces, LATENCY, params.bias_cycles / accesses[pure].max())
            hidden = min(params.agree_jitters * self._jitter2() ** 0.5, params.most_hidden * level.cycles)
            later = max(params.agree * level.cycles, hidden)
            if -params.early * level.cycles <= found.value - level.cycles <= later:
                return found
        spread = self._spread(level)
        low, high = min(spread.low, 1 - params.least_spread), max(spread.high, 1 + params.least_spread)
        # lines that came nearer make chains too short, what runs beside makes single loads too long: it lies between
        least = found.low if pure.any() and found.value < level.cycles else level.cycles
        return Interval(level.cycles, min(level.cycles * low, least), level.cycles * high)

    def _spread(self, level: Level) -> Interval:
        """What single loads from a level took in the rounds, relative to their median over rounds."""
        by_round = self._near(level)
        known = by_round[np.isfinite(by_round)]
        return quantile_of_rounds(known / np.median(known), MIDDLE) if len(known) else Interval(1.0, 1.0, 1.0)

    def _near(self, level: Level) -> Numbers:
        """Mean cycles of the single loads that took about as long as this level and no other, in each round: of the
        sizes that it serves often; NaN where there are none."""
        others = np.array([each for each in self.components if each != level.cycles])
        below, above = others[others < level.cycles], others[others > level.cycles]
        low, high = np.sqrt(level.cycles * below.max(initial=0.0)), np.sqrt(level.cycles * above.min(initial=np.inf))
        often = np.flatnonzero(level.weights >= 0.5 * level.weights.max()).tolist()
        found = np.full(len(self._rounds), np.nan)
        for number, row in enumerate(self._rounds):
            loads = [cycles(row[size + 1].samples, 0) - self.added[1] for size in often if size + 1 < len(row)]
            own = np.concatenate([each[(each > low) & (each < high)] for each in loads] or [np.zeros(0)])
            found[number] = own.mean() if len(own) else np.nan
        return found

    def _accesses(self, number: int) -> int:
        return self._by_size[number + 1][0].samples.accesses

    def _bias(self, pure: NDArray[np.bool_]) -> float:
        """What a bracket takes off a load of chains in windows, seen where the first level serves both these and the
        ring of a lone window."""
        steps = [self._accesses(number) for number in range(len(self.sizes))]
        inside = [number for number, each in enumerate(steps) if each < max(steps)]
        low = self.low()
        first = [number for number in inside if abs(low[number] - self.first_cycles) < 0.05 * self.first_cycles]
        if not first or min(steps[number] for number in np.flatnonzero(pure).tolist()) == max(steps):
            return 0.0
        return self.first_cycles - float(np.median(low[first]))

    def single(self, level: Level | None) -> Interval:
        """Cycles of single loads from a level, of flushed lines where it is None: all those of the size that it serves
        nearly alone, else those that are nearest to it."""
        if level is not None and level.weights.max() < self.params.pure:
            return quantile_of_rounds(self._near(level), MIDDLE)
        number = 0 if level is None else int(level.weights.argmax()) + 1
        by_round = [located(each.samples, 0) - self.added[1] for each in self._by_size[number]]
        return quantile_of_rounds(by_round, LATENCY)

    def of_memory(self) -> Interval:
        """Cycles of a load of flushed lines."""
        return quantile_of_rounds([per_load(row[0]) for row in self._rounds], LATENCY)

    def in_ticks(self, name: str, latency: dict[str, Interval], by_name: dict[str, Level]) -> Interval:
        """Ticks of a load, of the samples that its cycles come from."""
        number = 0 if name == MEMORY else int(by_name[name].weights.argmax()) + 1
        found = [(ticks(each.samples, len(SHORT)), located(each.samples, len(SHORT))) for each in self._by_size[number]]
        pace = quantile_of_rounds([one / other for one, other in found], MIDDLE)
        return Interval(*(value * pace.value for value in latency[name]))

    def walk(self, level: Level) -> Walk:
        """The smallest traversal that leaves most lines in a level, nearer still to where the one before ends: a larger
        one pushes some further out, where sets fill unevenly."""
        chosen = int(level.best(self.params.alike)[0])
        within = np.flatnonzero(level.nearer[: chosen + 1] >= self.params.ends)
        begin = float(self.sizes[within[-1]]) if len(within) else float(self.sizes[chosen])
        turns = self.params.turns if level.nearer[chosen] > self.params.kept else 1
        return Walk((begin * float(self.sizes[chosen])) ** 0.5, turns)

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
