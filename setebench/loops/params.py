"""The tunables of prefetch advice, with units and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PLAUSIBLE: Final = {
    # quantity: (low, middle, high) of CPUs sold between 2008 and 2025, for what nobody measured. Sources: Fang et al.
    # 2014, tables V and VI; published tables of Skylake, Golden Cove and Zen 2 to Zen 5
    "latency.l1": (1.5, 4.0, 5.0),
    "latency.l2": (10.0, 14.0, 24.0),
    "latency.l3": (30.0, 50.0, 75.0),
    "latency.memory": (180.0, 350.0, 600.0),
    "mshr.l1.demand": (8.0, 12.0, 64.0),
    "mshr.l1.prefetch": (8.0, 12.0, 64.0),
    "mshr.l2.prefetch": (10.0, 32.0, 64.0),
    "cache.l1.size": (32768.0, 32768.0, 49152.0),
    "cache.l2.size": (262144.0, 1048576.0, 2097152.0),
}


@dataclass(frozen=True, kw_only=True)
class AdviceParams:
    """What turns a table of findings into advice."""

    l1_fraction: float = 0.25
    """Of level 1 that prefetched lines may fill before they are used (Fang et al. 2014, section 7)."""

    l2_fraction: float = 0.75
    """The same of level 2, which holds little else of a loop that needs prefetches: on a simulated machine a distance
    that fills two thirds of it was a third faster for 80 streams than one that fills a quarter."""

    prefetch_cycles: float = 0.5
    """Cycles of an issue slot of one instruction of prefetching beside other work: half of a two-wide core's."""

    least_gain: float = 0.03
    """Predicted gain below which the advice is not to prefetch: about what a prediction is wrong by."""

    distances: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    """Iterations that are considered: times change little within a factor of two."""

    even: float = 0.01
    """Predictions that are this near count as equal, and the shorter distance is taken."""

    plausible: dict[str, tuple[float, float, float]] = field(default_factory=lambda: dict(PLAUSIBLE))
    """(low, middle, high) for quantities that no finding says."""
