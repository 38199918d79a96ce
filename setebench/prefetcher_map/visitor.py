"""Runs visits: every repetition in a fresh page, one timed line each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure.serving import References
from setebench.prefetcher_map.builder import ALONE, BESIDE, CROWD, DUMMY, PAGE, PROBED, Builder
from setebench.prefetcher_map.visit import BLOCK_PAGES, PAGE_BYTES
from setebench.probe import Base, Probe
from setebench.scenario import Context

APART_PAGES = 4
"""Visited pages lie at least so far apart: what runs past the end of one is not in the next."""

MOST_OPERATIONS, MOST_OPERATIONS_FAST = 60_000_000, 20_000_000
"""Operations of a survey after which what stays unclear is left so: some 20 s and 7 s on a CPU of today, so that
surveys beside a busy neighbour end too. Counted, not timed: what is asked must not depend on how busy the computer is,
or no recording could be asked again."""

VISITOR_RNG = 7100
"""Purpose of its random numbers; each turn of the same questions has other pages, in another order."""


class Visitor:
    """Runs probes on a machine, in pages of `region`, and counts what was run. `references` tell the levels apart;
    each `turn` of the same questions has other pages, in another order."""

    def __init__(self, context: Context, region: Region, references: References, turn: int = 0) -> None:
        self.context, self.region, self.references = context, region, references
        self.rng = context.rng(VISITOR_RNG + turn)
        self.builder = Builder(region.line_size, self.rng)
        self.line_size = region.line_size
        self.page_lines = PAGE_BYTES // region.line_size
        pages = region.size // PAGE_BYTES
        others = max(min(pages // 4, 8192) // BLOCK_PAGES, 4)
        self._blocks = region.address + (pages - np.arange(1, others + 1) * BLOCK_PAGES) * PAGE_BYTES
        own = pages - others * BLOCK_PAGES
        self._pages = region.address + np.arange(2 * APART_PAGES, own - APART_PAGES, APART_PAGES) * PAGE_BYTES
        self._next = len(self._pages)
        self.visits = 0
        self.operations = 0
        self._most_operations = MOST_OPERATIONS_FAST if context.fast else MOST_OPERATIONS

    def _fresh_pages(self, count: int) -> NDArray[np.int64]:
        """Addresses of pages in random order, each used once before any is used again."""
        taken: list[NDArray[np.int64]] = []
        missing = count
        while missing:
            if self._next >= len(self._pages):
                self._pages, self._next = self.rng.permutation(self._pages), 0
            part = self._pages[self._next : self._next + missing]
            taken.append(part)
            self._next += len(part)
            missing -= len(part)
        return np.concatenate(taken)

    def placements(self, targets: NDArray[np.int64]) -> dict[Base, NDArray[np.int64]]:
        """One repetition per target (lines from the page's beginning), each in a page of its own."""
        count = len(targets)
        pages = self._fresh_pages(count)
        beside = self._blocks[0] + 63 * self.line_size
        return {
            PAGE: pages,
            PROBED: pages + targets * self.line_size,
            CROWD: self.rng.choice(self._blocks[3::3], count),
            DUMMY: self.rng.choice(self._blocks[1::3], count),
            ALONE: self.rng.choice(self._blocks[2::3], count),
            BESIDE: np.full(count, beside, dtype=np.int64),
        }

    def walked(self, most: int, repetitions: int) -> NDArray[np.int64]:
        """Ticks of so many loads of one line of a walk, in its turn (`Builder.walked`)."""
        probe, where = self.builder.walked(most)
        placed = self.placements(np.zeros(repetitions + 2, dtype=np.int64))
        placed[PROBED] = placed[DUMMY] + where.offset
        self.visits += repetitions + 2
        self.operations += (repetitions + 2) * len(probe)
        return self.context.machine.run(probe, placed, cpu=self.context.cpu, warmup=2)[:, 0]

    def ticks_after(self, probe: Probe, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ticks of a load of each target, a repetition each, at the end of a probe."""
        warmed = np.concatenate([np.resize(targets, 2), targets])
        self.visits += len(warmed)
        self.operations += len(warmed) * len(probe)
        ticks = self.context.machine.run(probe, self.placements(warmed), cpu=self.context.cpu, warmup=2)
        return ticks[:, 0]

    @property
    def spent(self) -> bool:
        """Whether enough was run: second looks are taken still, but none that takes long."""
        return self.operations > self._most_operations
