"""The levels of the memory hierarchy, found once per run, each with the traversal that leaves lines in it.

What the operating system says of caches is never asked.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Levels, Walk
from setebench.errors import SetebenchError, UnsupportedError
from setebench.experiments.alone import PARAMS as ALONE
from setebench.experiments.alone import Alone
from setebench.experiments.lines.layout import span_bytes
from setebench.experiments.size_sweep import Sized, SizeSweepParams, flushed, more, pooled, sized
from setebench.machine import Region
from setebench.scenario import Context
from setebench.stats.levels import Level, LevelsParams, Source, levels, mean_cycles, mixture


class FindParams(msgspec.Struct, frozen=True, kw_only=True):
    """`least_memory` bytes are asked for at least. A sweep ends once `slow` sizes in a row take `outgrown` of what
    memory does, twice as many of the small ones, which another program may have evicted. Sizes are alike that differ by
    less than `alike` in what a level serves of them; of these the smallest is taken: lines that are brought to the
    level besides push out the fewest. It goes round `turns` times where nearer levels serve more than `kept` of it. A
    level ends where those behind it serve `ends` of a working set: half, which is where a cache is as large as what is
    used of it. A traversal of lines that lie at random loses half of them to oversubscribed sets just then under LRU
    (0.96 of 8 ways), and with random replacement somewhat later (ln 2 / 0.5 = 1.39 of it); and half is furthest from
    what conflicts lose before and what nearer levels keep behind. A size was disturbed that takes `slower` times what
    a larger one does and `slower_cycles` more: means of so many loads on a coarse clock are uncertain by as much."""

    least_memory: int = 8 << 20
    slow: int = 2
    outgrown: float = 0.9
    slower: float = 1.1
    slower_cycles: float = 1.0
    alike: float = 0.05
    turns: int = 3
    kept: float = 0.2
    ends: float = 0.5


def working_memory(context: Context) -> Region:
    """Memory for the largest working set, in the smallest pages: those every machine has.

    Where so much is not to be had, half of it, and so on; the sweep then ends earlier, which a progress message says.
    Raises `UnsupportedError` where there is hardly any."""
    facts, params = context.machine.facts, FindParams()
    wanted = min(span_bytes(SizeSweepParams().largest, facts.line_size), facts.memory_bytes // 2)
    while True:
        try:
            return context.machine.allocate(wanted, min(facts.page_sizes))
        except UnsupportedError:
            wanted //= 2
            if wanted < params.least_memory:
                raise
            context.progress(f"little memory: going on with {wanted >> 20} MiB, so outer levels may not be found")


def find_levels(context: Context, region: Region) -> Levels:
    """The levels, nearest first; those that a scenario of the run found before, if one did."""
    found = context.calibration.levels
    if found is None:
        found = _found(context, region)  # first, for it calibrates as well: how fast the core is when it is alone
        context.calibration = replace(context.calibration, levels=found)
    context.evidence["sweep"] = found.sweep
    return found


def find_walks(context: Context, region: Region) -> dict[str, Walk]:
    """Levels by name, nearest first, each with the traversal behind which its lines answer; `l1` and `memory` need
    none."""
    return dict(find_levels(context, region).walks)


def _found(context: Context, region: Region) -> Levels:
    params = SizeSweepParams()
    away = flushed(context, region, params)
    swept = _sweep(context, region, away, params)
    swept = undisturbed(swept, FindParams())
    explained = mixture([_source(each) for each in swept], _source(away), LevelsParams())
    if len(explained.cycles) < 2:
        raise SetebenchError("flushed lines are loaded as fast as those of the smallest working set: no level is found")
    found = levels(explained, LevelsParams())
    sizes = np.array([each.size_bytes for each in swept])
    walks = [Walk(params.smallest), *(_walk(level, sizes, FindParams()) for level in found.caches[1:])]
    names = [f"l{number}" for number in range(1, len(walks) + 1)]
    cycles = dict(zip(names, (level.cycles for level in found.caches), strict=True)) | {MEMORY: found.memory}
    ends = _ends(dict(zip(names, found.caches, strict=True)), sizes, FindParams())
    return Levels(
        walks=dict(zip(names, walks, strict=True)) | {MEMORY: Walk()},
        cycles=cycles,
        ends_bytes=ends,
        hidden_cycles=found.hidden,
        sweep={
            "size_bytes": sizes.tolist(),
            "cycles": [mean_cycles(_source(each)) for each in swept],
            "boundaries_bytes": list(ends.values()),
            "levels": cycles,
            "components": {"cycles": explained.cycles.tolist(), "weights": explained.weights.tolist()},
            "unexplained": explained.unexplained.tolist(),
        },
    )


def undisturbed(swept: list[Sized], params: FindParams) -> list[Sized]:
    """Those of ascending size that no larger one is faster than: what disturbs a chase evicts or delays, so it is the
    smaller one that was disturbed."""
    kept, fastest = [], np.inf
    for each in reversed(swept):
        mean = mean_cycles(_source(each))
        if mean <= params.slower * fastest + params.slower_cycles:
            kept.append(each)
        fastest = min(fastest, mean)
    return kept[::-1]


def _source(each: Sized) -> Source:
    return Source(intervals=each.intervals, overhead=each.overhead)


def _sweep(context: Context, region: Region, away: Sized, params: SizeSweepParams) -> list[Sized]:
    """Working sets of growing size until memory serves them, several times one after the other, while no co-runner is
    seen, who would use the same caches. What is missed of one is not there in all epochs of a size: those of which too
    few agree are asked again."""
    reach = region.size * params.largest / span_bytes(params.largest, region.line_size)
    alone = Alone(context, patience=ALONE.little_patience, question="levels")
    memory, found = FindParams().outgrown * mean_cycles(_source(away)), dict[float, list[Sized]]()

    def ask(size: float) -> Sized:
        found.setdefault(size, []).append(alone.run(lambda: sized(context, region, size, params)))
        return found[size][-1]

    for _ in range(params.epochs):
        slow = 0
        for size in params.sizes(reach, region.line_size):
            slow = slow + 1 if mean_cycles(_source(ask(size))) > memory else 0
            if slow == (FindParams().slow if size > params.fine else 2 * FindParams().slow):
                break
    while left := [size for size, epochs in found.items() if more(epochs, params)]:
        for size in left:
            ask(size)
    return [pooled(found[size], params) for size in sorted(found)]


def _walk(level: Level, sizes: NDArray[np.float64], params: FindParams) -> Walk:
    """The traversal that leaves the most lines in a level."""
    chosen = int(level.best(params.alike)[0])
    return Walk(float(sizes[chosen]), params.turns if level.nearer[chosen] > params.kept else 1)


def _ends(caches: dict[str, Level], sizes: NDArray[np.float64], params: FindParams) -> dict[str, float]:
    """Bytes at which each level ends, but for a last one that was not outgrown; between two sizes on their logarithmic
    scale."""
    found = {}
    for name, level in caches.items():
        beyond = 1.0 - level.weights - level.nearer
        after = np.flatnonzero((beyond > params.ends) & (sizes > sizes[level.best(params.alike)[0]]))
        if len(after):
            around = slice(after[0] - 1, after[0] + 1)
            found[name] = float(np.exp(np.interp(params.ends, beyond[around], np.log(sizes[around]))))
    return found
