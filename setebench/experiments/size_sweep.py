"""Short chains of dependent loads on the way round working sets of growing size.

A cyclic pointer chase goes round a working set; parts of it are timed as chains of a few lengths. Each line was last
used as many lines ago as the set has, so its level follows from the size alone; the lengths separate what a load takes
from what a bracket does, and one level from a mixture of several. Beside every chain stands a control: additions, in
the same place. What else runs evicts lines and then all of a set answers later: of the chunks of a set every other one
is a control, and those beside them count in epochs whose control was as fast as the fastest. Lines lie as
`experiments.lines.layout` says. A window of a few pages is finished before the next one; its
TLB-warming lines come first, so no chain has a TLB miss in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES, lay, span_bytes
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.served import Intervals, quantised_variance
from setebench.stats.ticks.location import mean_ticks, undisturbed

Lines = NDArray[np.int64]


class SizeSweepParams(msgspec.Struct, frozen=True, kw_only=True):
    """Working sets from `least` bytes of lines on (a page's, which any first cache holds whatever its index is), half
    an octave apart up to `fine`, then octaves, up to `largest`: that outgrows a shared cache of 32 MiB, and the memory
    that its lines are spread over (four times as much) stays below 200 MiB. `smallest` is what still lies in the first
    cache of nearly all machines, and has a window of pages.

    `window` pages are finished at a time: the first TLB of any core of the last twenty years holds more. `chunks` parts
    of a set are timed in an epoch, after `rounds` over all of it (`once` where it is larger than `fine`), until
    `epochs` had controls within a factor of `agreeing` of the fastest, in `most_epochs` at most; evicted lines take
    several times as long. `additions` of the other control; `settle` cycles pass before each interval, as prefetches of
    the loads before may still be under way."""

    least: float = 512.0
    smallest: float = 4096.0
    fine: float = float(2 << 20)
    largest: float = float(45 << 20)
    window: int = 4
    chunks: int = 256
    rounds: int = 3
    once: int = 1
    epochs: int = 2
    most_epochs: int = 6
    agreeing: float = 1.1
    additions: int = 8
    settle: int = 2000

    def sizes(self, most: float, line_size: int) -> list[float]:
        """All sizes up to `most` that differ in whole windows, or in pages where they have less than one."""
        found: dict[int, float] = {}
        size = self.least
        while size <= min(most, self.largest):
            pages = span_bytes(size, line_size) // TLB_PAGE_BYTES
            found.setdefault(pages if pages < self.window else self.windows(pages) * self.window, size)
            size *= 2.0 if size >= self.fine else 2.0**0.5
        return list(found.values())

    def windows(self, pages: int) -> int:
        """Whole windows of so many pages, one at least."""
        return max(pages // self.window, 1)


class Sized(NamedTuple):
    """Chains over a working set of so many bytes (infinite: flushed before each), the ticks that a bracket took beside
    them, and mean ticks of the chains of the chunks between, which are not among the intervals."""

    size_bytes: float
    intervals: Intervals
    overhead: float
    control_ticks: float


WARM, STARTS = Base("warm"), tuple(Base(f"chain_{number}") for number in range(4))


def lengths(per_page: int) -> tuple[int, ...]:
    """Lengths of the chains that so many lines are cut into: each half of what is left."""
    found: list[int] = []
    while per_page and len(found) < len(STARTS):
        found.append(per_page if len(found) == len(STARTS) - 1 else (per_page + 1) // 2)
        per_page -= found[-1]
    return tuple(found)


class WorkingSet:
    """A working set of about `size_bytes`, in whole windows, laid out and linked in `region`."""

    def __init__(self, context: Context, region: Region, size_bytes: float, params: SizeSweepParams) -> None:
        rng = context.fresh_rng()
        layout = lay(region, size_bytes, rng)
        pages, per_page = layout.lines.shape
        windows = params.windows(pages)
        kept = rng.permutation(pages)[: windows * params.window]
        window = len(kept) // windows
        lines = rng.permuted(layout.lines[kept].reshape(windows, -1), axis=1)
        warmers = layout.warmers[kept].reshape(windows, window)
        self.order: Lines = np.concatenate([warmers, lines], axis=1).ravel()
        self.size_bytes = float(len(self.order) * region.line_size)
        self._window, self._lengths = window, lengths(per_page)
        self._warm = np.repeat(warmers[:, 0], window)
        starts = lines.reshape(-1, per_page)
        self._starts = starts[:, np.cumsum((0, *self._lengths[:-1]))]
        self._chunks = starts
        context.machine.link(region, self.order)

    def go_round(self, context: Context, rounds: int) -> None:
        """So often over all lines."""
        probe = Probe().chase(WARM, len(self.order))
        context.machine.run(probe, {WARM: np.repeat(self.order[:1], rounds)}, cpu=context.cpu)

    def flush(self, context: Context) -> None:
        """Take the lines that will be timed out of every cache."""
        context.machine.run(Probe().flush(WARM), {WARM: self._chunks.ravel()}, cpu=context.cpu)

    def time(self, context: Context, params: SizeSweepParams) -> Sized:
        """Ticks of chains, one chunk after the other in the order of the chase, and of the control."""
        probe, count = Probe(), len(self._lengths)
        probe = probe.chase(WARM, self._window).fence().wait(params.settle)
        for number, (base, steps) in enumerate(zip(STARTS, self._lengths, strict=False)):
            probe = probe.start(number).chase(base, steps).stop(number).fence().wait(params.settle)
        probe = probe.start(count).add(params.additions).stop(count)
        chosen = np.arange(params.chunks) % len(self._starts)
        places = {WARM: self._warm[chosen]}
        places |= {base: self._starts[chosen, number] for number, base in enumerate(STARTS[:count])}
        ticks, per_tick = context.machine.run(probe, places, cpu=context.cpu), quick_cycles_per_tick(context)
        step, additions = step_ticks(context), ticks[:, count]
        quiet = additions[undisturbed(additions, step)]
        middle = mean_ticks(additions, step)
        control = float(ticks[1::2, :count].mean())
        jitter2 = max(float(quiet.var()) - quantised_variance(middle, step), 0.0)
        chains = {length: ticks[::2, number] for number, length in enumerate(self._lengths)}
        return Sized(
            self.size_bytes,
            Intervals.of_chains(
                {length: own[undisturbed(own, step)] for length, own in chains.items()}, step, jitter2, per_tick
            ),
            middle - params.additions / per_tick,
            control,
        )


def flushed(context: Context, region: Region, params: SizeSweepParams) -> Sized:
    """The same chains over lines that were flushed: what memory takes, whatever the caches hold."""
    size = params.chunks // params.window * params.smallest
    lines = WorkingSet(context, region, size, params)
    epochs: list[Sized] = []
    while not epochs or more(epochs, params):
        lines.go_round(context, 1)
        lines.flush(context)
        epochs.append(lines.time(context, params))
    return pooled(epochs, params)._replace(size_bytes=np.inf)


def sized(context: Context, region: Region, size_bytes: float, params: SizeSweepParams) -> Sized:
    """One epoch of chains over a working set, once every line of it has been used as long ago as it is large."""
    lines = WorkingSet(context, region, size_bytes, params)
    lines.go_round(context, params.rounds if size_bytes <= params.fine else params.once)
    return lines.time(context, params)


def agreeing(epochs: Sequence[Sized], params: SizeSweepParams) -> list[Sized]:
    """Those whose controls agree with the fastest."""
    most = params.agreeing * min(each.control_ticks for each in epochs)
    return [each for each in epochs if each.control_ticks <= most]


def more(epochs: Sequence[Sized], params: SizeSweepParams) -> bool:
    """Whether too few epochs agree, and others may be had."""
    return len(agreeing(epochs, params)) < params.epochs and len(epochs) < params.most_epochs


def pooled(epochs: Sequence[Sized], params: SizeSweepParams) -> Sized:
    """The epochs of one working set whose controls agree, as one."""
    kept = agreeing(epochs, params)
    parts = [each.intervals for each in kept]
    intervals = Intervals(
        count=np.concatenate([each.count for each in parts]),
        ticks=np.concatenate([each.ticks for each in parts]),
        step=parts[0].step,
        jitter2=float(np.mean([each.jitter2 for each in parts])),
        cycles_per_tick=float(np.mean([each.cycles_per_tick for each in parts])),
    )
    overhead, control = (float(np.mean(each)) for each in zip(*((one[2], one[3]) for one in kept), strict=True))
    return Sized(kept[0].size_bytes, intervals, overhead, control)
