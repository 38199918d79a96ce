"""Bursts of several threads of one core, which begin at once: what one has in flight may leave less for the others."""

from __future__ import annotations

import numpy as np

from setebench.experiments.bursts.bursts import GONE, LINE, STATES, Burst, Bursts, Times
from setebench.machine import Facts
from setebench.probe import Base, Probe


def threads_of_core(facts: Facts, cpu: int) -> tuple[int, ...]:
    """The CPUs of the core that is measured, as far as they may be used, that one first."""
    group = next((group for group in facts.siblings if cpu in group), (cpu,))
    return cpu, *(other for other in group if other in facts.cpus and other != cpu)


class ThreadBursts:
    """Bursts of the threads on some CPUs, the measured one first."""

    def __init__(self, bursts: Bursts, cpus: tuple[int, ...]) -> None:
        self.cpus, self._bursts, self._machine = cpus, bursts, bursts.context.machine

    def all_at_once(self, burst: Burst) -> Times:
        """A burst of each thread, until the slowest has set out, and a load of its last line long after; shape
        (repetitions,)."""
        runs = self._bursts.params.repetitions + self._bursts.params.warmup
        probes, placed = {}, {}
        for number, cpu in enumerate(self.cpus):
            base = Base(f"targets of thread {number}")
            probes[cpu], start = self._burst(burst, base, number, cpu)
            placed[base] = np.full(runs, start, dtype=np.int64)
        ticks = self._machine.run_together(probes, placed, warmup=self._bursts.params.warmup)
        slowest = np.max([each.sum(axis=1) for each in ticks.values()], axis=0)
        return np.asarray(slowest * self._bursts.cycles_per_tick, dtype=np.float64)

    def line_beside(self, burst: Burst, wait_cycles: float) -> dict[str, Times]:
        """Times of the one line on the first thread, so long after the second began a burst, by where the line was;
        shape (repetitions,)."""
        own, params = self._bursts, self._bursts.params
        line = LINE + own.near
        probe = own.pushed_out(Probe().load(line))
        # evictors push out the other thread's TLB entries too, so that waits for them before it warms its own
        probe = own.settled(probe.flush(GONE + 0)).barrier()
        probe = own.settled(probe.flush(LINE + own.aside)).barrier().wait(max(int(wait_cycles), 1))
        probe = own.settled(probe.start(dither=burst.count == 1).load(line).stop())
        drawn = np.resize(STATES[:3], params.warmup + 3 * params.line_repetitions)
        drawn[params.warmup :] = own.rng.permutation(drawn[params.warmup :])
        base = Base("targets of the other thread")
        misses, start = self._burst(burst, base, 1, self.cpus[1])
        places = own.placements(drawn)
        placed = {each: places[each] for each in probe.bases} | {base: np.full(len(drawn), start, dtype=np.int64)}
        probes = {self.cpus[0]: probe, self.cpus[1]: Probe().barrier() + misses}
        ticks = self._machine.run_together(probes, placed, warmup=params.warmup)[self.cpus[0]][:, 0]
        return {state: ticks[drawn[params.warmup :] == state] * own.cycles_per_tick for state in STATES[:3]}

    def _burst(self, burst: Burst, base: Base, number: int, cpu: int) -> tuple[Probe, int]:
        """One thread's burst from a barrier on, then a load of its last line when all is over; and where it lies."""
        own = self._bursts
        targets, start = own.targets(burst.count), own.base(burst.count, number)
        own.bring_pairs(targets, start, cpu)
        # no dither: threads that don't set out at once don't meet in the queue
        probe = own.flushed(targets, burst, base=base).barrier().start(0, dither=False)
        probe = own.requested(probe, targets, burst, base).stop(0)
        return own.settled(own.loaded_late(probe, targets, base)), start
