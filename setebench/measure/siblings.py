"""Threads of one core at once: whether what one of them has in flight leaves less for the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setebench.infer.mshr import NEXT_TO
from setebench.infer.siblings import Beside, Filling, Together
from setebench.infer.steps import calm_level
from setebench.machine import Facts
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.volley import FAR_LINES, NEAR, REPETITIONS, WALK, WARMUP, Volleys, prefetch, settled
from setebench.probe import Base, Probe

TOGETHER_ROUNDS = 10
"""Rounds in which all threads of a core prefetch at once."""

BESIDE_ROUNDS = 12
"""Rounds in which one thread's hit is timed while another has many misses under way, and only one."""

BESIDE_SHARE = 0.5
"""Part of a miss after which the hit sets out: the other thread's misses have set out by then, and none is done."""

FILLS = 2
"""So many times the entries are asked for, so that those that get free are taken again while the hit is timed."""


def siblings_of(facts: Facts, cpu: int | None) -> tuple[int, ...]:
    """The CPUs of the core that is measured, as far as they may be used, that one first."""
    own = facts.cpus[-1] if cpu is None else cpu
    group = next((group for group in facts.siblings if own in group), (own,))
    return own, *(cpu for cpu in group if cpu in facts.cpus and cpu != own)


class Siblings(Volleys):
    """Volleys of several threads of one core, which begin at once."""

    def at_once(self, cpus: Sequence[int], filling: Filling, rng: np.random.Generator) -> Together:
        """Prefetches of all threads, on either side of where a shared pool runs out, and of where private ones do."""
        last = filling.entries
        share = last // len(cpus)
        around = (max(share - 1, 1), share + NEXT_TO), (last - 1, last + NEXT_TO)
        numbers = sorted({number for pair in around for number in pair})
        samples: dict[int, list[NDArray[np.float64]]] = {number: [] for number in numbers}
        for _ in range(TOGETHER_ROUNDS):
            for number in rng.permutation(numbers):
                samples[int(number)].append(self._together(int(number), filling, cpus))
        at_share, at_all = (
            calm_level(np.stack(samples[more])) - calm_level(np.stack(samples[few])) for few, more in around
        )
        return Together(len(cpus), filling.height, at_share, at_all, filling.maybe_first)

    def beside(self, cpus: Sequence[int], filling: Filling, miss_cycles: float, walk_bytes: float) -> Beside:
        """A hit in level 2 on the first thread, while the second one asks for more than all entries, and for one.

        The hit lacks nothing that the misses hold but an entry of level 1: what level 2 lacks delays no hit there."""
        wait = int(BESIDE_SHARE * miss_cycles)
        found: dict[int, list[NDArray[np.float64]]] = {1: [], FILLS * filling.entries: []}
        for _ in range(BESIDE_ROUNDS):
            for count, times in found.items():
                times.append(self._hit_beside(count, filling, cpus, wait, walk_bytes))
        (one, _), (many, later) = (
            (calm_level(own[:, 0]), calm_level(own[:, 1])) for own in map(np.concatenate, found.values())
        )
        return Beside(many - one, miss_cycles, later)

    def beside_one(
        self, cpus: Sequence[int], filling: Filling, miss_cycles: float, walk_bytes: float
    ) -> NDArray[np.float64]:
        """Times of the hit while the second thread has one miss under way, dithered, for their mean; without a walk
        (`walk_bytes` 0) the line is in level 1. Shape (repetitions,)."""
        return self._hit_beside(1, filling, cpus, int(BESIDE_SHARE * miss_cycles), walk_bytes, dither=True)[:, 0]

    def _together(self, count: int, filling: Filling, cpus: Sequence[int]) -> NDArray[np.float64]:
        """Prefetches of `count` lines in memory by each thread, until all have set out on the slowest; where some may
        be dropped, loads of all lines on the slowest when nothing is under way any more; shape (repetitions,)."""
        machine, probes, placements = self._context.machine, {}, {}
        for number, cpu in enumerate(cpus):
            base = Base(f"targets of thread {number}")
            placements[base], probe = self._misses(count, filling, base, cpu, (number, len(cpus)))
            probes[cpu] = probe
        ticks = machine.run_together(probes, placements, warmup=WARMUP)
        slowest = np.max([each[:, int(filling.dropped)] for each in ticks.values()], axis=0)
        return np.asarray(slowest * self.cycles_per_tick, dtype=np.float64)

    def _hit_beside(
        self,
        count: int,
        filling: Filling,
        cpus: Sequence[int],
        wait_cycles: int,
        walk_bytes: float,
        *,
        dither: bool = False,
    ) -> NDArray[np.float64]:
        """Times of the hit, and of a load of a line of the other thread's when all is over, shape (repetitions, 2)."""
        line = self._region.line_size
        pages = [self._base(1, (0, 2)) + TLB_PAGE_BYTES // 2 for _ in range(REPETITIONS + WARMUP)]
        probe = Probe().load(NEAR).load(NEAR + line).fence()
        if walk_bytes:
            self._lay_walk(walk_bytes)
            probe = probe.chase(WALK, len(self._walk)).fence()
        # the walk pushes out the other thread's TLB entries too, so that waits for it before it warms them
        probe = settled(probe.barrier().flush(NEAR + FAR_LINES * line)).barrier().wait(wait_cycles)
        # without dither the hit surely meets the other thread's misses
        probe = settled(probe.start(dither=dither).load(NEAR).stop())
        base = Base("targets of the other thread")
        begin, misses = self._misses(count, filling, base, cpus[1], (1, 2), middle=True)
        misses = Probe().barrier() + misses
        walk = np.full(REPETITIONS + WARMUP, self._walk[0] if walk_bytes else 0, dtype=np.int64)
        placements = {base: begin, NEAR: np.array(pages, dtype=np.int64), WALK: walk}
        ticks = self._context.machine.run_together({cpus[0]: probe, cpus[1]: misses}, placements, warmup=WARMUP)
        times = np.stack([ticks[cpus[0]][:, 0], ticks[cpus[1]][:, 1]], axis=1)
        return np.asarray(times * self.cycles_per_tick, dtype=np.float64)

    def _misses(
        self, count: int, filling: Filling, base: Base, cpu: int, part: tuple[int, int], *, middle: bool = False
    ) -> tuple[NDArray[np.int64], Probe]:
        """Placements and probe of a volley of one thread, in a part of memory of its own: timed from the barrier until
        all have set out; and then, when all is over, loads of all lines, or only of the one in the `middle`."""
        place = self._spread(count)
        start = self._base(count, part)
        beside = Probe()
        for offset in place.beside:
            beside = beside.load(base + offset)
        self._context.machine.run(beside.fence(), {base: np.array([start])}, cpu=cpu)
        probe = self._flushed(place, base=base)
        if filling.escorted:
            for offset in reversed(place.beside):
                probe = probe.load(base + offset)
            probe = probe.fence()
        # no dither: threads that don't set out at once don't meet in the queue
        probe = probe.barrier().start(0, dither=False)
        for target, offset in zip(place.targets, place.beside, strict=True):
            if filling.hint:
                probe = prefetch(probe, base + target, base + offset if filling.escorted else None, filling.hint)
            else:
                probe = probe.load(base + target)
        probe = settled(probe.stop(0)).start(1)
        # of more than there are entries the last ones may have been dropped, so the middle of those that were not
        at = min(filling.entries, count) // 2
        for target in (place.targets[at],) if middle else reversed(place.targets):
            probe = probe.load(base + target)
        return np.full(REPETITIONS + WARMUP, start, dtype=np.int64), settled(probe.stop(1))
