"""The tunables of prefetch advice and of loops as probes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PLAUSIBLE: Final = {
    # quantity: (low, middle, high) of CPUs sold between 2008 and 2025, for what nobody measured. Sources: Fang et al.
    # 2014, tables V and VI; published tables of Skylake, Golden Cove and Zen 2 to Zen 5
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

    l1_fraction: float = 0.25  # of level 1 that lines of two stages may fill before use (Fang et al. 2014, section 7)
    l2_fraction: float = 0.75  # the same of level 2, which holds little else of a loop that needs prefetches
    prefetch_cycles: float = 0.5  # issue slot of one instruction of prefetching: half of a two-wide core's
    least_gain: float = 0.03  # expected gain, in parts of the time, below which the advice is not to prefetch
    window: float = 8.0  # iterations that a core overlaps by itself: 200 to 500 instructions over loops of 25 to 60
    distances: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # iterations; times change little within a factor 2
    spread: tuple[int, ...] = (4, 32)  # distances tried of every single stage: wherever the formulas may be wrong
    plausible: dict[str, tuple[float, float, float]] = field(default_factory=lambda: dict(PLAUSIBLE))


@dataclass(frozen=True, kw_only=True)
class TraceParams:
    """How loops run as probes."""

    lead: int = 32  # iterations before the clock starts, beside those of `lead_distances`: any stream starts in so many
    lead_distances: int = 3  # furthest distances before the clock: where prefetches drop, slow and fast ones take turns
    timed_distances: int = 2  # furthest distances timed at least: a slow stretch and a fast one
    described_rounds: int = 3  # passes of which the median describes a loop: it bears one that was disturbed
    warmed_bytes: int = 32 << 20  # streams up to so large are passed once before: of more, a cache keeps little
    gap_bytes: int = 4096  # between what two runs pass: nothing prefetched beyond an end serves the next run
    most_lead: int = 2048  # iterations before the clock starts, and by which a prefetch lies ahead, at most
    moved_part: int = 16  # a random stream moves by up to one of so many parts of it from run to run
