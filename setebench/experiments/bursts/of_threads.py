"""Bursts of misses of several threads of one core, which begin at once: what one of them has in flight may leave less
for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.bursts.bursts import NEAR, Bursts, Times, requested
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Facts
from setebench.probe import Base, Probe


@dataclass(frozen=True)
class Filling:
    """How one thread takes all `entries` of a level: by loads (no `hint`), or with prefetches of a hint, each behind a
    load of its page if `warmed`. `height` is the rise of time, in cycles, where it asks for more: of setting out, or of
    loads long after where prefetches are `dropped` that find no entry. `maybe_first`: what one thread lacks of level 2
    may as well be level 1, which threads do not share."""

    hint: str
    entries: int
    height: float
    warmed: bool = False
    dropped: bool = False
    maybe_first: bool = False


@dataclass(frozen=True)
class _Part:
    """One thread's part of memory, and the base of its targets there."""

    base: Base
    cpu: int
    number: int
    of: int


def threads_of_core(facts: Facts, cpu: int | None) -> tuple[int, ...]:
    """The CPUs of the core that is measured, as far as they may be used, that one first."""
    own = facts.cpus[-1] if cpu is None else cpu
    group = next((group for group in facts.siblings if own in group), (own,))
    return own, *(cpu for cpu in group if cpu in facts.cpus and cpu != own)


class ThreadBursts(Bursts):
    """Bursts of several threads of one core."""

    def together(self, count: int, filling: Filling, cpus: Sequence[int]) -> Times:
        """Prefetches of `count` lines in memory by each thread, until all have set out on the slowest; where some may
        be dropped, loads of all lines on the slowest when nothing is under way any more; shape (repetitions,)."""
        probes: dict[int, Probe] = {}
        placements: dict[Base, NDArray[np.int64]] = {}
        for number, cpu in enumerate(cpus):
            part = _Part(Base(f"targets of thread {number}"), cpu, number, len(cpus))
            placements[part.base], probes[cpu] = self._misses(count, filling, part)
        ticks = self._context.machine.run_together(probes, placements, warmup=self.params.warmup)
        slowest = np.max([each[:, int(filling.dropped)] for each in ticks.values()], axis=0)
        return np.asarray(slowest * self.cycles_per_tick, dtype=np.float64)

    def hit_beside(
        self, count: int, filling: Filling, cpus: Sequence[int], wait_cycles: int, evictor_bytes: float
    ) -> Times:
        """Times of a hit in level 2 (in level 1 with `evictor_bytes` 0) on the first thread, `wait_cycles` after the
        second one began a burst; and of a load of a line of that burst when all is over; shape (repetitions, 2).

        The hit lacks nothing that the misses hold but an entry of level 1: what level 2 lacks delays no hit there. A
        burst of one miss holds up nothing; its times are dithered, for their mean. Else no dither, so that the hit
        surely meets the misses."""
        line, runs = self._region.line_size, self.params.runs
        pages = [self.base(1, (0, 2)) + TLB_PAGE_BYTES // 2 for _ in range(runs)]
        probe = self.evicted(Probe().load(NEAR).load(NEAR + line).fence(), evictor_bytes)
        # evictors push out the other thread's TLB entries too, so that waits for them before it warms its own
        probe = self.settled(probe.barrier().flush(NEAR + self.params.far_lines * line)).barrier().wait(wait_cycles)
        probe = self.settled(probe.start(dither=count == 1).load(NEAR).stop())
        part = _Part(Base("targets of the other thread"), cpus[1], 1, 2)
        begin, misses = self._misses(count, filling, part, middle=True)
        placements: dict[Base, NDArray[np.int64]] = {part.base: begin, NEAR: np.array(pages, dtype=np.int64)}
        for base, start in self.evictor_placement().items():
            placements[base] = np.full(runs, start, dtype=np.int64)
        probes = {cpus[0]: probe, cpus[1]: Probe().barrier() + misses}
        ticks = self._context.machine.run_together(probes, placements, warmup=self.params.warmup)
        times = np.stack([ticks[cpus[0]][:, 0], ticks[cpus[1]][:, 1]], axis=1)
        return np.asarray(times * self.cycles_per_tick, dtype=np.float64)

    def _misses(
        self, count: int, filling: Filling, part: _Part, *, middle: bool = False
    ) -> tuple[NDArray[np.int64], Probe]:
        """Placements and probe of a burst of one thread: timed from the barrier until all have set out; and then, when
        all is over, loads of all lines, or only of the one in the `middle`."""
        place, start = self.spread(count), self.base(count, (part.number, part.of))
        self.bring_beside(place, start, part.base, part.cpu)
        probe = self.flushed(place, base=part.base)
        probe = self.warm_beside(probe, place, count, warmed=filling.warmed, base=part.base)
        # no dither: threads that don't set out at once don't meet in the queue
        probe = probe.barrier().start(0, dither=False)
        probe = requested(probe, place, filling.hint, warmed=filling.warmed, base=part.base)
        probe = (self.settled(probe.stop(0), count) + self.pages_warmed(place, part.base)).start(1)
        # of more than there are entries the last ones may have been dropped, so the middle of those that were not
        timed = place.one(min(filling.entries, count) // 2) if middle else place
        probe = requested(probe, timed, base=part.base)
        return np.full(self.params.runs, start, dtype=np.int64), self.settled(probe.stop(1))
