"""Prefetchers off for a while, and whether that had an effect: a guest's hypervisor may keep what is written to a
register, read it back, and do nothing."""

from __future__ import annotations

import numpy as np

from setebench.experiments.lines.placing import flushed
from setebench.probe import Base
from setebench.scenario import Context

from .params import PARAMS


class Traversal:
    """A pointer chase along neighbouring lines of memory, on one CPU."""

    def __init__(self, context: Context, cpu: int) -> None:
        self._machine, self._cpu = context.machine, cpu
        line = context.machine.facts.line_size
        self._region = self._machine.allocate(PARAMS.traversed * line, min(context.machine.facts.page_sizes))
        self._machine.link(self._region, self._region.address + np.arange(PARAMS.traversed, dtype=np.int64) * line)
        away = flushed(_LINES, PARAMS.traversed * line, line)
        self._probe = away.fence().start().chase(_LINES, PARAMS.traversed).stop()

    def ticks(self) -> float:
        """Median ticks of a whole traversal, its lines in memory before."""
        placements = {_LINES: np.full(PARAMS.traversals + 1, self._region.address)}
        return float(np.median(self._machine.run(self._probe, placements, cpu=self._cpu, warmup=1)))

    def close(self) -> None:
        """Give the memory back."""
        self._machine.release(self._region)


_LINES = Base("lines")


def had_effect(before: float, off: float, after: float) -> bool:
    """Whether a traversal took clearly longer while prefetchers were off than before and after."""
    return off > PARAMS.slower * max(before, after)
