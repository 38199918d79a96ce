"""More prefetches at once than can be in flight: do the last ones wait, or are they lost?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region, Ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.placing import SETTLE_CYCLES, TARGET_BYTES
from setebench.measure.serving import LAYOUTS
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

BURST = Base("burst")

BURST_PAGES, LINES_A_PAGE = 28, 8
"""A burst of 224 prefetches: more than published first levels keep in flight (124 at most), in fewer pages than any
first TLB holds, with few lines a page so that hardware prefetchers find no pattern."""

SHIFTS = 8

TIMED = 60
"""Lines of the second half of a burst that are loaded afterwards, to see whether they came."""


class Burst(NamedTuple):
    """Ticks of a burst of prefetches, of the same burst when the lines are there, and of loads of its late lines, with
    and without the burst. Shapes (n,)."""

    missing: Ticks
    present: Ticks
    late: Ticks
    baseline: Ticks


class _Layout:
    """One burst: its pages and lines in the order of prefetching, as offsets, each page's companion first."""

    def __init__(self, region: Region, rng: np.random.Generator) -> None:
        pages = rng.permutation(64)[:BURST_PAGES] * TLB_PAGE_BYTES
        box = (TLB_PAGE_BYTES // region.line_size - 16) // LINES_A_PAGE
        self.companions = [BURST + (int(page) + TLB_PAGE_BYTES - 8 * region.line_size) for page in pages]
        self.lines: list[list[Operand]] = []
        for page in pages:
            lines = rng.permutation(LINES_A_PAGE) * box
            lines = lines + rng.integers(0, box, LINES_A_PAGE)
            self.lines.append([BURST + int(page + line * region.line_size) for line in lines])
        late = [(page, line) for page in range(BURST_PAGES // 2, BURST_PAGES) for line in range(LINES_A_PAGE)]
        self.timed = [late[n] for n in rng.permutation(len(late))[:TIMED]]

    def flushed(self) -> Probe:
        """All lines flushed, all translations warm."""
        probe = Probe()
        for lines in self.lines:
            for line in lines:
                probe = probe.flush(line)
        probe = probe.fence().wait(SETTLE_CYCLES).fence()
        for companion in self.companions:
            probe = probe.load(companion)
        return probe.fence()

    def burst(self, probe: Probe, interval: int, hint: str) -> Probe:
        """All lines prefetched at once; a load from each page comes first, for the sake of cores that prefetch only in
        the page of the latest load."""
        probe = probe.start(interval)
        for companion, lines in zip(self.companions, self.lines, strict=True):
            probe = probe.load(companion)
            for line in lines:
                probe = probe.prefetch(line, hint) if hint else probe
        return probe.stop(interval)

    def probe(self, hint: str) -> Probe:
        """The burst, loads of late lines, and the burst once more."""
        probe = self.burst(self.flushed(), 0, hint).wait(SETTLE_CYCLES).fence()
        for number, (page, line) in enumerate(self.timed):
            probe = probe.load(self.companions[page]).fence()
            probe = probe.start(1 + number).load(self.lines[page][line]).stop(1 + number)
        for lines in self.lines:
            for line in lines:
                probe = probe.load(line)
        return self.burst(probe.fence(), 1 + TIMED, hint)


def bursts(context: Context, region: Region, hint: str, samples: int) -> Burst:
    """About `samples` loads of late lines behind bursts of prefetches, and as many without a burst."""
    rng = context.rng(43)
    count = max(2, -(-samples // (LAYOUTS * TIMED)))
    parts: list[Burst] = []
    for _ in range(LAYOUTS):
        layout = _Layout(region, rng)
        full, idle = (
            context.machine.run(layout.probe(each), {BURST: _bases(region, count + 1, rng)}, cpu=context.cpu, warmup=1)
            for each in (hint, "")
        )
        parts.append(Burst(full[:, 0], full[:, -1], full[:, 1:-1].ravel(), idle[:, 1:-1].ravel()))
    return Burst(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _bases(region: Region, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    size = 64 * TLB_PAGE_BYTES
    first = -(-(region.size - min(TARGET_BYTES, region.size // 2)) // size)
    groups = rng.integers(first, region.size // size, count)
    bases: NDArray[np.int64] = region.address + groups * size + rng.integers(0, SHIFTS, count) * region.line_size
    return bases
