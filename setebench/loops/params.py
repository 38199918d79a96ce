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

    windows: tuple[float, ...] = (4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 3.0, 2.0, 1.5, 1.0)
    """Iterations that a core may overlap, the likelier ones first: a window of 200 to 500 instructions over iterations
    of 10 to 100; narrower where a branch that can't be foretold ends it."""

    whole_window: float = 128.0
    """The same of a core that is held up by nothing but its misses, for cores that begin operations in order."""

    walkers: tuple[int, ...] = (2, 4, 1)
    """Page walks at a time, the likelier number first: CPUs since 2008 have one to six."""

    near: float = 0.03
    """A core is preferred to a likelier one where it comes nearer by so much, in the logarithm of time: about what the
    model is wrong by for the right one."""

    kept_cores: int = 6
    """Cores that are held against more than the loop without prefetches: those that come nearest to that."""

    spread: tuple[int, ...] = (2, 5)
    """Eighths of the way through the distances that are considered: 4 and 32 of 1 to 256."""

    plausible: dict[str, tuple[float, float, float]] = field(default_factory=lambda: dict(PLAUSIBLE))
    """(low, middle, high) for quantities that no finding says."""


@dataclass(frozen=True, kw_only=True)
class ModelParams:
    """How long the model plays a loop through, in iterations unless said otherwise."""

    warm: int = 64
    """Before time is counted, beside those that the furthest prefetch needs: prefetchers and queues of 64 entries are
    in their steady state then."""

    timed: int = 192
    """Counted. The mean of so many misses to a level that serves half of them is known to 4 %."""

    least_timed: int = 16
    """Counted of a loop of so many lines an iteration that they are `many_lines` all the same."""

    many_lines: int = 1500
    """Lines beyond which fewer iterations are counted: about a millisecond of work."""

    turns: int = 2
    """Times the furthest distance that are counted at least: a slow stretch leaves time for all of its prefetches and
    makes the next one fast, and the other way round; what counts is the mean of both."""

    settled: int = 3
    """Times the furthest distance that pass before: the first stretches are slower and faster than later ones."""

    most_tlb_entries: int = 1024
    """Of the nearest TLB: more than any CPU has, so that a wrong finding costs no more than time."""

    many_streams: int = 1 << 30
    """Of a prefetcher whose table nobody measured: without a limit."""


@dataclass(frozen=True, kw_only=True)
class TraceParams:
    """How loops run as probes."""

    lead: int = 32
    """Iterations before the clock starts, beside those of `lead_distances`: as many as start any stream."""

    lead_distances: int = 3
    """Times the furthest distance that pass before the clock starts. In the first of them nothing was prefetched; where
    prefetches are dropped, slow and fast stretches of that length take turns, and by the third the mean of the two is
    within a tenth of what it is after sixteen (two machines, distances 64 to 256)."""

    timed_distances: int = 2
    """Times the furthest distance that are timed at least: a slow stretch and a fast one. One alone showed the furthest
    distance up to seven times as fast as it is in the long run."""

    described_rounds: int = 3
    """Passes of which the median describes a loop: it bears one that was disturbed."""

    warmed_bytes: int = 32 << 20
    """The largest last-level cache of simulated machines: of more, one pass leaves little where the next one finds
    it."""

    gap_bytes: int = 4096
    """Between what two runs pass, so that what one prefetched beyond its end is nothing that the next one finds."""

    most_lead: int = 2048
    """Most iterations before the clock starts, and most by which a lookup's steps or a prefetch lie apart."""

    moved_part: int = 16
    """A stream in random order is moved by up to one of so many parts of it from run to run: far enough that no cache
    holds what was passed before, and little of its memory."""
