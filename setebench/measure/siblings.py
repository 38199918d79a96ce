"""Threads of one core at once: whether what one of them has in flight leaves less for the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setebench.infer.mshr import NEXT_TO
from setebench.infer.siblings import Beside, Together
from setebench.infer.steps import Step, calm_level
from setebench.machine import Facts
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.volley import FAR_LINES, NEAR, REPETITIONS, WALK, WARMUP, Volleys, settled
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

    def at_once(self, cpus: Sequence[int], hint: str, step: Step, rng: np.random.Generator) -> Together:
        """Prefetches of all threads, on either side of where a shared pool runs out, and of where private ones do."""
        share = step.last // len(cpus)
        around = (max(share - 1, 1), share + NEXT_TO), (step.last - 1, step.last + NEXT_TO)
        numbers = sorted({number for pair in around for number in pair})
        samples: dict[int, list[NDArray[np.float64]]] = {number: [] for number in numbers}
        for _ in range(TOGETHER_ROUNDS):
            for number in rng.permutation(numbers):
                samples[int(number)].append(self._together(int(number), hint, cpus))
        at_share, at_all = (
            calm_level(np.stack(samples[more])) - calm_level(np.stack(samples[few])) for few, more in around
        )
        return Together(len(cpus), step.height, at_share, at_all)

    def beside(self, cpus: Sequence[int], entries: int, hint: str, miss_cycles: float, walk_bytes: float) -> Beside:
        """A hit in level 2 on the first thread, while the second one has more misses than `entries` under way, and only
        one: loads, or prefetches where a `hint` is given.

        The hit lacks nothing that the misses hold but an entry of level 1: what level 2 lacks delays no hit there."""
        found: dict[int, list[NDArray[np.float64]]] = {1: [], FILLS * entries: []}
        for _ in range(BESIDE_ROUNDS):
            for count, times in found.items():
                times.append(self._hit_beside(count, hint, cpus, int(BESIDE_SHARE * miss_cycles), walk_bytes))
        one, many = (calm_level(np.stack(times)) for times in found.values())
        return Beside(many - one, miss_cycles)

    def _together(self, count: int, hint: str, cpus: Sequence[int]) -> NDArray[np.float64]:
        """Prefetches of `count` lines in memory by each thread, until all have set out on the slowest; shape
        (repetitions,)."""
        machine, probes, placements = self._context.machine, {}, {}
        for number, cpu in enumerate(cpus):
            base = Base(f"targets of thread {number}")
            placements[base], probe = self._misses(count, hint, base, cpu, (number, len(cpus)))
            probes[cpu] = probe
        ticks = machine.run_together(probes, placements, warmup=WARMUP)
        slowest = np.max([each[:, 0] for each in ticks.values()], axis=0)
        return np.asarray(slowest * self.cycles_per_tick, dtype=np.float64)

    def _hit_beside(
        self, count: int, hint: str, cpus: Sequence[int], wait_cycles: int, walk_bytes: float
    ) -> NDArray[np.float64]:
        """Times of the hit, shape (repetitions,)."""
        line = self._region.line_size
        pages = [self._base(1, (0, 2)) + TLB_PAGE_BYTES // 2 for _ in range(REPETITIONS + WARMUP)]
        self._lay_walk(walk_bytes)
        probe = Probe().load(NEAR).load(NEAR + line).fence().chase(WALK, len(self._walk)).fence()
        # the walk pushes out the other thread's TLB entries too, so that waits for it before it warms them
        probe = settled(probe.barrier().flush(NEAR + FAR_LINES * line)).barrier().wait(wait_cycles)
        # no dither: the hit has to meet the other thread's misses
        probe = settled(probe.start(dither=False).load(NEAR).stop())
        base = Base("targets of the other thread")
        begin, misses = self._misses(count, hint, base, cpus[1], (1, 2))
        misses = Probe().barrier() + misses
        walk = np.full(REPETITIONS + WARMUP, self._walk[0], dtype=np.int64)
        placements = {base: begin, NEAR: np.array(pages, dtype=np.int64), WALK: walk}
        ticks = self._context.machine.run_together({cpus[0]: probe, cpus[1]: misses}, placements, warmup=WARMUP)
        return np.asarray(ticks[cpus[0]][:, 0] * self.cycles_per_tick, dtype=np.float64)

    def _misses(
        self, count: int, hint: str, base: Base, cpu: int, part: tuple[int, int]
    ) -> tuple[NDArray[np.int64], Probe]:
        """Placements and probe of a volley of one thread, in a part of memory of its own: loads, or prefetches of a
        `hint`, timed from the barrier until all have set out."""
        place = self._spread(count)
        start = self._base(count, part)
        beside = Probe()
        for offset in place.beside:
            beside = beside.load(base + offset)
        self._context.machine.run(beside.fence(), {base: np.array([start])}, cpu=cpu)
        probe = Probe()
        for target in place.targets:
            probe = probe.flush(base + target)
        # no dither: threads that don't set out at once don't meet in the queue
        probe = settled(probe).barrier().start(dither=False)
        for target in place.targets:
            probe = probe.prefetch(base + target, hint) if hint else probe.load(base + target)
        return np.full(REPETITIONS + WARMUP, start, dtype=np.int64), settled(probe.stop())
