"""The size sweep: measure load latency by cyclic pointer chases over working sets of growing size, in paired samples.

In a cyclic chase the reuse distance of every line is the size of the working set, so the size determines which level
serves the loads. The chase completes a window of a few pages before the next one, and loads one line of each page of
the window first, to fill the TLB: timed loads have no TLB misses, so a TLB can't be mistaken for a cache level. Besides
a long chain of loads, short chains are timed in each window; they show which levels served single loads.
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
    """Sizes of the working sets, and how each is sampled."""

    least: float = 512.0  # bytes of the smallest working set, which any first cache holds
    per_octave: int = 2  # sizes per octave; more cost time, fewer miss a small level
    fine: float = float(8 << 20)  # bytes from which on sizes are an octave apart
    largest: float = float(45 << 20)  # bytes of the largest working set: it outgrows a last level of 32 MiB
    group: int = 8  # windows timed between two references; with fewer, references would take most of the time
    samples: int = 384  # timed windows of a set in a round: with clock steps of 37 cycles a mean is exact to one cycle
    lone: int = 512  # loads of a timed chain in a working set of one window: the bracket's bias is 0.01 cycles a load
    settled: float = float(2 << 20)  # bytes of the largest set traversed a second time, for stable replacement
    flushed: int = 12  # flushed lines of a sample, each in its own page: any first TLB holds so many
    slow: int = 2  # number of successive sizes as slow as memory, after which a sweep ends
    outgrown: float = 0.9  # fraction of the latency of flushed lines from which a size counts as served by memory

    def sizes(self, most: float, line_size: int) -> list[float]:
        """Return the sizes of the working sets to measure, in bytes, ascending up to `most`. Of sizes with the same
        number of windows (below one window: of pages, with lines of `line_size` bytes), only the smallest is kept."""
        found: dict[int, float] = {}
        size = self.least
        while size <= min(most, self.largest):
            found.setdefault(whole_windows(span_bytes(size, line_size) // TLB_PAGE_BYTES), size)
            size *= 2.0 if size >= self.fine else 2.0 ** (1 / self.per_octave)
        return list(found.values())


BETWEEN, FIRST = Base("between"), Base("first")
SHORT = (1, 3)
"""Loads of the short chains: chains of one distinguish very different levels, chains of three similar ones."""


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a working set of `size_bytes` (infinite: its lines were flushed before). Questions 0 and 1 are the
    short chains (`SHORT`), the last question is a chain of `samples.accesses` dependent loads."""

    size_bytes: float
    samples: Paired


class WorkingSet:
    """A working set of about `size_bytes`, rounded to a whole number of timed loads' lines, laid out at random in
    `region` and linked for a pointer chase."""

    def __init__(self, context: Context, region: Region, size_bytes: float) -> None:
        layout = lay(region, size_bytes, context.fresh_rng())
        self._windows, self._warmers = layout.lines, layout.warmers
        self._lone = len(layout.lines) == trials_per_page(region.line_size)
        self.order: Lines = layout.order
        self.size_bytes = float(len(self.order) * region.line_size)
        context.machine.link(region, self.order)

    def go_round(self, context: Context, times: int) -> None:
        """Traverse all lines of the working set `times` times."""
        context.machine.run(
            Probe().chase(FIRST, len(self.order)), {FIRST: np.repeat(self.order[:1], times)}, cpu=context.cpu
        )

    def time(self, context: Context, params: SizeSweepParams, settled: bool) -> Sized:
        """Return samples of about `params.samples` windows of the working set (a window is a group of pages that is
        traversed as a whole). Windows are timed in groups, each between two references. If caches are to be `settled`,
        the set is traversed once before, and the timed groups are spread evenly over it; otherwise the first windows
        are timed. A working set of a single window is chased cyclically."""
        windows, lines = self._windows.shape
        settled = settled and not self._lone
        group = 1 if self._lone else params.group
        spacing = max(windows // params.samples, 1) if settled else 1
        warmup = 2 if self._lone else -(-windows // (spacing * group)) if settled else 0
        begins = np.arange(params.samples // group + warmup) * spacing * group
        steps = params.lone if self._lone else lines - sum(SHORT)
        # All of this is one run: between two runs, data of this program and of others evict lines from level 2.
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
            # Each window has an empty interval: one per group would be too few to average clock steps out.
            questions.append(Probe())
            # Short chains come first, when prefetchers have seen only the window's TLB-warming lines.
            for length in (*SHORT, steps):
                base = Base(f"chain_{number}_{length}")
                questions.append(Probe().chase(base, length))
                places[base] = self._windows[window, min(at, lines - 1)]
                at += length
        probe = probe.paired(reference(context).work, *questions, leads=leads)
        found = run_paired(context, probe, places, accesses=steps, warmup=warmup)
        return Sized(size_bytes=self.size_bytes, samples=_by_window(found, group))


def _by_window(found: Paired, group: int) -> Paired:
    """Return samples, one per window, from those of `found`, one per group of windows that share references."""
    first, _, questions, last = np.split(found.ticks, [1, 2, found.ticks.shape[1] - 1], axis=1)
    questions = questions.reshape(len(questions) * group, -1)
    ticks = np.concatenate([first.repeat(group, axis=0), questions, last.repeat(group, axis=0)], axis=1)
    return msgspec.structs.replace(found, ticks=ticks)


def flushed(context: Context, region: Region, params: SizeSweepParams) -> Sized:
    """Return samples of chains over lines of `region` that were just flushed, each in its own page, with the same
    lengths of short chains as for working sets: all these loads are served by memory, however large the caches are."""
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
    """Return samples of one round in `region`: of flushed lines, then of working sets of the given `sizes` (bytes,
    ascending), each after one traversal. The round ends after `params.slow` successive sizes that memory serves."""
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
    """Return the core cycles of a load in the long chain of `sized`; NaN if too few samples are undisturbed."""
    return located(sized.samples, len(SHORT)) / sized.samples.accesses
