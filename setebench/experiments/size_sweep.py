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
    group: int = 8  # windows between two references, which would last longer than a window or a few
    samples: int = 384  # windows timed of each set in a round: on a clock with steps of 37 cycles a mean is good to one
    lone: int = 512  # loads of a timed chain where the set is one window: the bracket's bias is 0.01 cycles a load
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


BETWEEN, FIRST = Base("between"), Base("first")
SHORT = (1, 3)
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
            Probe().chase(FIRST, len(self.order)), {FIRST: np.repeat(self.order[:1], times)}, cpu=context.cpu
        )

    def time(self, context: Context, params: SizeSweepParams, settled: bool) -> Sized:
        """Time windows, short runs of loads in a few pages, in groups with a reference before and behind. Where caches
        are to be `settled`, groups are spread evenly over the set and all lines between them are used, too; else the
        first windows are timed. A set of one window is chased round and round."""
        windows, lines = self._windows.shape
        settled = settled and not self._lone
        group = 1 if self._lone else params.group
        spacing = max(windows // params.samples, 1) if settled else 1
        warmup = 2 if self._lone else -(-windows // (spacing * group)) if settled else 0
        begins = np.arange(params.samples // group + warmup) * spacing * group
        steps = params.lone if self._lone else lines - sum(SHORT)
        # one native call: a program's own data and steal push lines out of a second level within a millisecond
        between = (spacing - 1) * group * (lines + self._warmers.shape[1])
        probe, places = Probe(), dict[Base, Lines]()
        if between:
            probe = probe.chase(BETWEEN, between)
            places[BETWEEN] = self._warmers[(begins - (spacing - 1) * group) % windows, 0]
        questions, leads = list[Probe](), list[Probe]()
        for number in range(group):
            window, warm, at = (begins + number) % windows, Base(f"warm_{number}"), 0
            places[warm] = self._warmers[window, 0]
            leads += [Probe().chase(warm, self._warmers.shape[1]).fence(), *[Probe()] * (1 + len(SHORT))]
            # empty intervals of each window: those of the groups are so few that clock steps would leave a bracket off
            # by as much as two caches differ
            questions.append(Probe())
            # short chains first: no prefetcher has seen more of the window's lines than the TLB-warming ones by then
            for length in (*SHORT, steps):
                base = Base(f"chain_{number}_{length}")
                questions.append(Probe().chase(base, length))
                places[base] = self._windows[window, min(at, lines - 1)]
                at += length
        probe = probe.paired(reference(context).work, *questions, leads=leads)
        found = run_paired(context, probe, places, accesses=steps, warmup=warmup)
        return Sized(size_bytes=self.size_bytes, samples=_by_window(found, group))


def _by_window(found: Paired, group: int) -> Paired:
    """Samples of groups of windows as samples of each, with the references that all of a group share and the empty
    interval of its own."""
    first, _, questions, last = np.split(found.ticks, [1, 2, found.ticks.shape[1] - 1], axis=1)
    questions = questions.reshape(len(questions) * group, -1)
    ticks = np.concatenate([first.repeat(group, axis=0), questions, last.repeat(group, axis=0)], axis=1)
    return msgspec.structs.replace(found, ticks=ticks)


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
