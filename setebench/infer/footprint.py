"""What the lines around some accesses say: brought or not, and to which level. Knows no machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from setebench.infer.mixture import Shares

BROUGHT, NOT_BROUGHT = 0.65, 0.3
"""A line that is in a cache in more than the first share of repetitions was brought, below the second it was not.

Prefetchers follow rules, so shares are near 0 or 1; what lies between was disturbed or depends on something that the
visit doesn't control, and is told as unclear."""


SLACK = 0.7
"""A share of n repetitions must lie beyond a limit by this over the root of n, 1.4 standard errors at the most: a few
repetitions only answer what is plain."""


@dataclass(frozen=True)
class Footprint:
    """Shares of every target after the visit, of so many repetitions, and without it; see `mixture.Shares`."""

    targets: tuple[int, ...]
    trained: Shares
    untrained: Shares
    repetitions: int = 240

    def cached(self, target: int) -> float:
        """Share of repetitions in which the visit left the target in a cache."""
        return 1.0 - float(self.trained.of("memory")[self.targets.index(target)])

    def brought(self, target: int) -> bool | None:
        """Whether the visit brings the target; None where that is unclear, or where it is there anyway."""
        share = self.cached(target)
        anyway = 1.0 - float(self.untrained.of("memory")[self.targets.index(target)])
        if not np.isfinite(share + anyway):
            return None
        slack = SLACK / math.sqrt(self.repetitions)
        if share < NOT_BROUGHT - slack:
            return False
        return True if share > BROUGHT + slack and anyway < NOT_BROUGHT else None
