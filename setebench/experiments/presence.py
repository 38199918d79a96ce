"""Which lines are present after a visit: every repetition in a fresh page, one timed line each, controls in turns.

Returns ticks; whoever asks compares them with references of the levels, and decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.visits import (
    ALONE,
    BESIDE,
    FILLER,
    LAYOUT,
    OTHERS,
    PAGE,
    PAGE_BYTES,
    PROBED,
    Builder,
    Visit,
)
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context

Ticks = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PresenceParams:
    """turns: a visit and its control take turns so often, so that drift and co-runners fall on both alike.
    apart_pages: visited pages lie at least so far apart: what runs past the end of one is not in the next.
    most_other_pages: of a large region, pages that are never visited but lie in blocks beside.
    warm_up: repetitions that are made first and not counted.
    beside_line: the line, in a page of its own, that is loaded right before each timed one.
    rng: purpose of the random numbers; each turn of the same questions has other pages, in another order."""

    turns: int = 3
    apart_pages: int = 4
    most_other_pages: int = 8192
    warm_up: int = 2
    beside_line: int = 63
    rng: int = 7100


PARAMS = PresenceParams()


class Visits:
    """Makes visits in pages of `region`, and counts operations. Each `turn` of the same questions has other pages."""

    def __init__(self, context: Context, region: Region, turn: int = 0) -> None:
        self.context, self.region = context, region
        self.rng = context.rng(PARAMS.rng + turn)
        self.builder = Builder(region.line_size, self.rng)
        self.line_size = region.line_size
        self.page_lines = PAGE_BYTES // region.line_size
        self.operations = 0
        pages, apart = region.size // PAGE_BYTES, PARAMS.apart_pages
        blocks = max(min(pages // 4, PARAMS.most_other_pages) // LAYOUT.block_pages, 4)
        starts = pages - np.arange(1, blocks + 1) * LAYOUT.block_pages
        self._blocks = region.address + starts * PAGE_BYTES
        own = pages - blocks * LAYOUT.block_pages
        self._pages = region.address + np.arange(2 * apart, own - apart, apart) * PAGE_BYTES
        self._next = len(self._pages)

    def after(self, probe: Probe, targets: Ticks) -> Ticks:
        """Ticks of a load of each target (lines from the page's beginning), a repetition each, at a probe's end."""
        warmed = self._warmed(targets)
        placed = self._placements(warmed)
        others = [base for base in probe.bases if base not in placed]
        return self._run(probe, placed | {base: self._fresh_pages(len(warmed)) for base in others})

    def alone(self, visit: Visit, targets: Sequence[int], repetitions: int) -> list[Ticks]:
        """Each target timed so many times after the visit, in random order, without a control."""
        asked = self.rng.permutation(np.repeat(np.asarray(targets, dtype=np.int64), repetitions))
        return _by_target(self.after(self.builder.probe(visit), asked), asked, targets)

    def growing(self, visit: Visit, target: int, first: int, most: int) -> Iterator[tuple[Ticks, Ticks]]:
        """More and more loads of the target after the visit, and of the same line when it was just loaded, in turns."""
        probes = self.builder.probe(visit), self.builder.probe(visit, loaded=True)
        sets: tuple[list[Ticks], list[Ticks]] = ([], [])
        repetitions = first
        while repetitions <= most:
            for _ in range(PARAMS.turns):
                for probe, own in zip(probes, sets, strict=True):
                    own.append(self.after(probe, np.full(repetitions // PARAMS.turns, target, dtype=np.int64)))
            yield np.concatenate(sets[0]), np.concatenate(sets[1])
            repetitions *= 4

    def together(self, probes: dict[int, Probe], targets: Sequence[int], own: int, repetitions: int) -> list[Ticks]:
        """Loads of each target after the probes of several CPUs, of which `own` times."""
        asked = self.rng.permutation(np.repeat(np.asarray(targets, dtype=np.int64), repetitions))
        placed = self._placements(self._warmed(asked))
        ticks = self.context.machine.run_together(probes, placed, warmup=PARAMS.warm_up)
        return _by_target(ticks[own][:, 0], asked, targets)

    def traversed(self, number: int, repetitions: int) -> Ticks:
        """Loads of one line of a traversal, in its turn (`Builder.traversed`). Its page is touched at another line each
        time, or a region prefetcher would learn that the line follows."""
        probe, where = self.builder.traversed(number)
        placed = self._placements(np.zeros(repetitions + PARAMS.warm_up, dtype=np.int64))
        placed[PROBED] = placed[FILLER] + where.offset
        touched = self.rng.integers(self.page_lines // 2, size=len(placed[PROBED])) * self.line_size
        placed[ALONE] = placed[PROBED] // PAGE_BYTES * PAGE_BYTES + touched
        return self._run(probe, placed)

    def _run(self, probe: Probe, placed: dict[Base, Ticks]) -> Ticks:
        self.operations += len(placed[PAGE]) * len(probe)
        return self.context.machine.run(probe, placed, cpu=self.context.cpu, warmup=PARAMS.warm_up)[:, 0]

    @staticmethod
    def _warmed(targets: Ticks) -> Ticks:
        return np.concatenate([np.resize(targets, PARAMS.warm_up), targets])

    def _placements(self, targets: Ticks) -> dict[Base, Ticks]:
        """One repetition per target, each in a page of its own."""
        count = len(targets)
        pages = self._fresh_pages(count)
        return {
            PAGE: pages,
            PROBED: pages + targets * self.line_size,
            OTHERS: self.rng.choice(self._blocks[3::3], count),
            FILLER: self.rng.choice(self._blocks[1::3], count),
            ALONE: self.rng.choice(self._blocks[2::3], count),
            BESIDE: np.full(count, self._blocks[0] + PARAMS.beside_line * self.line_size, dtype=np.int64),
        }

    def _fresh_pages(self, count: int) -> Ticks:
        """Addresses of pages in random order, each used once before any is used again."""
        taken: list[Ticks] = []
        while count:
            if self._next >= len(self._pages):
                self._pages, self._next = self.rng.permutation(self._pages), 0
            part = self._pages[self._next : self._next + count]
            taken.append(part)
            self._next += len(part)
            count -= len(part)
        return np.concatenate(taken)


def _by_target(ticks: Ticks, asked: Ticks, targets: Sequence[int]) -> list[Ticks]:
    return [ticks[asked == target] for target in targets]
