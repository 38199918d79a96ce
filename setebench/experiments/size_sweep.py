"""What a load costs over working sets of growing size: cyclic pointer chases in paired samples, one round at a time.

A cyclic pointer chase goes round a working set, so each line was last used as many lines ago as the set has, and its
level follows from the size alone. A window of a few pages is finished before the next one, its TLB-warming lines
first: no timed load has a TLB miss, so that no TLB looks like a level. The last loads of a window are timed one by
one: how many of them memory served says what the others, which caches served, cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import reference
from setebench.experiments.lines.layout import TLB_PAGE_BYTES, lay, span_bytes, trials_per_page, whole_windows
from setebench.experiments.memory import MemoryParams, scattered
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import Paired, located

Lines = NDArray[np.int64]


class SizeSweepParams(msgspec.Struct, frozen=True, kw_only=True):
    """Working sets, and how many samples of each."""

    least: float = 512.0  # bytes of lines of the smallest set: one page's, which any first cache holds
    per_octave: int = 2  # sizes an octave; more cost time, fewer miss a small level
    fine: float = float(8 << 20)  # bytes beyond which sizes are octaves apart
    largest: float = float(45 << 20)  # bytes of the largest set: outgrows a last level of 32 MiB
    samples: int = 96  # windows timed of each set in a round; a mean of so many chains is good to a percent
    ring: int = 512  # loads of a timed chain where the set is one window: the bracket's bias is 0.01 cycles a load
    settled: float = float(2 << 20)  # bytes of the largest set gone round twice, to settle what is replaced
    flushed: int = 12  # lines of a sample that were flushed, a page each: within any first TLB
    slow: int = 2  # sizes in a row as slow as memory that end a sweep
    outgrown: float = 0.9  # part of a flushed line's time from which a size counts as served by memory

    def sizes(self, most: float, line_size: int) -> list[float]:
        """All sizes up to `most` that differ in whole windows, or in pages where they have less than one."""
        found: dict[int, float] = {}
        size = self.least
        while size <= min(most, self.largest):
            found.setdefault(whole_windows(span_bytes(size, line_size) // TLB_PAGE_BYTES), size)
            size *= 2.0 if size >= self.fine else 2.0 ** (1 / self.per_octave)
        return list(found.values())


BETWEEN, WARM, CHAIN = Base("between"), Base("warm"), Base("chain")
SHORT = {1: Base("short_1"), 3: Base("short_3")}
"""Short chains by their length: single loads distinguish levels that lie far from each other, on a coarse clock longer
ones those that lie close."""


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a working set of `size_bytes` (infinite: its lines were flushed): question 0 is a chain of
    `samples.accesses` dependent loads, the others are single loads."""

    size_bytes: float
    samples: Paired


class WorkingSet:
    """A working set of about `size_bytes`, in whole windows, laid out and linked in `region`."""

    def __init__(self, context: Context, region: Region, size_bytes: float) -> None:
        layout = lay(region, size_bytes, context.fresh_rng())
        self._windows, self._warmers = layout.lines, layout.warmers
        self._lone = len(layout.lines) == trials_per_page(region.line_size)
        self.order: Lines = layout.order
        self.size_bytes = float(len(self.order) * region.line_size)
        context.machine.link(region, self.order)

    def go_round(self, context: Context, times: int) -> None:
        """So often over all lines."""
        context.machine.run(
            Probe().chase(WARM, len(self.order)), {WARM: np.repeat(self.order[:1], times)}, cpu=context.cpu
        )

    def time(self, context: Context, params: SizeSweepParams, settled: bool) -> Sized:
        """Windows spread evenly over a set that is settled by going through it once more, in the order of the chase;
        the first windows of another one. A lone window is gone round."""
        windows, lines = self._windows.shape
        settled = settled and not self._lone
        apart = max(windows // params.samples, 1) if settled else 1
        warmup = 2 if self._lone else -(-windows // apart) if settled else 0
        chosen = np.arange(params.samples + warmup) * apart % windows
        steps = params.ring if self._lone else lines - sum(SHORT)
        # one native call: a program's own data and steal push lines out of a second level within a millisecond
        between = (apart - 1) * (lines + self._warmers.shape[1])
        probe = Probe().chase(BETWEEN, between) if between else Probe()
        # short chains first: no prefetcher has seen more of the window's lines than the TLB-warming ones by then
        probe = (probe + Probe().chase(WARM, self._warmers.shape[1]).fence()).paired(
            reference(context).work,
            *(Probe().chase(base, length) for length, base in SHORT.items()),
            Probe().chase(CHAIN, steps),
        )
        begins = np.minimum(np.cumsum([0, *SHORT]), lines - 1)
        places = {
            base: self._windows[chosen, begin] for base, begin in zip((*SHORT.values(), CHAIN), begins, strict=True)
        }
        places |= {WARM: self._warmers[chosen, 0]}
        if between:
            places[BETWEEN] = self._warmers[(chosen - apart + 1) % windows, 0]
        return Sized(
            size_bytes=self.size_bytes,
            samples=run_paired(context, probe, places, accesses=steps, warmup=warmup),
        )


def flushed(context: Context, region: Region, params: SizeSweepParams) -> Sized:
    """Single loads, short chains and one of the other lines, all just flushed and each in a page of its own: what
    memory takes, whatever caches hold."""
    chased, (*begins, last) = (
        scattered(context, region, params.flushed, params.samples),
        np.cumsum([0, *SHORT]).tolist(),
    )
    questions = [Probe().chase(chased.lines[at], length) for at, length in zip(begins, SHORT, strict=True)]
    questions.append(Probe().chase(chased.lines[last], params.flushed - last))
    probe = (chased.flushed(MemoryParams().settle) + chased.translated()).paired(reference(context).work, *questions)
    samples = run_paired(context, probe, chased.places, accesses=params.flushed - last, warmup=0)
    return Sized(size_bytes=float("inf"), samples=samples)


def sweep_once(context: Context, region: Region, sizes: Sequence[float], params: SizeSweepParams) -> list[Sized]:
    """One round: flushed lines first, then working sets, the smallest first, once every line of each has been used as
    long ago as it is large. It ends where some in a row are served by memory."""
    found, slow = [flushed(context, region, params)], 0
    memory = params.outgrown * per_load(found[0])
    for size in sizes:
        lines = WorkingSet(context, region, size)
        lines.go_round(context, 1)
        found.append(lines.time(context, params, size <= params.settled))
        slow = slow + 1 if per_load(found[-1]) > memory else 0
        if slow == params.slow:
            break
    return found


def per_load(sized: Sized) -> float:
    """Core cycles of a load of the chain; NaN where too few samples were undisturbed."""
    return located(sized.samples, len(SHORT)) / sized.samples.accesses
