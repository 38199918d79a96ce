"""A control beside trials: whether a co-runner takes a part of the core.

Independent instructions take nothing but issue slots; a chain of additions only waits for itself. Where the former run
slower beside the latter than they ever did, another thread of the core takes slots, and with them miss entries and
lines. Nothing of any trial's answer enters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.errors import UnsupportedError
from setebench.machine import Machine
from setebench.probe import Probe


@dataclass(frozen=True)
class Params:
    """How the pace is taken, and how long one waits for the core to be alone."""

    nops: int = 120  # in a loop; a longer one fits a cache of decoded instructions now and then only
    rounds: int = 100  # of that loop: some thousand cycles, which a clock's step blurs by little
    additions: int = 1000  # of the chain beside
    repetitions: int = 5  # all but the slowest count, into which an interrupt may have fallen
    alone: float = 0.9  # of the fastest pace seen; one co-running instruction a cycle takes a quarter or more
    pause_cycles: int = 1 << 21  # between samples: about half a millisecond
    first: int = 12  # samples at the beginning, of which the fastest is the pace that the core has alone
    patience: int = 400  # pauses for a co-runner to go: a few tenths of a second


PARAMS = Params()


class Pace:
    """The pace of one CPU's issue slots, and the fastest that it ever had."""

    def __init__(self, machine: Machine, cpu: int) -> None:
        self._machine, self._cpu, self._fastest = machine, cpu, 0.0
        loop = Probe().start(0).repeat(PARAMS.rounds, Probe().nop(PARAMS.nops)).stop(0)
        self._probe = loop.start(1).add(PARAMS.additions).stop(1)
        for _ in range(PARAMS.first):
            self.alone()
            self.pause()

    def wait(self) -> bool:
        """Wait for the core to be alone; False where it is not, for all patience."""
        for _ in range(PARAMS.patience):
            if self.alone():
                return True
            self.pause()
        return False

    def alone(self) -> bool:
        """True if nothing takes slots just now."""
        try:
            ticks = self._machine.run(self._probe, PARAMS.repetitions, cpu=self._cpu, warmup=1)
        except UnsupportedError:
            return True
        nops, chain = ticks.T
        # a chain that was held up would make the pace look faster than it ever was
        pace = float(chain.min() / max(np.sort(nops)[-2], 1))
        self._fastest = max(self._fastest, pace)
        return pace >= PARAMS.alone * self._fastest

    def pause(self) -> None:
        """Let some time pass."""
        self._machine.run(Probe().wait(PARAMS.pause_cycles), 1, cpu=self._cpu)
