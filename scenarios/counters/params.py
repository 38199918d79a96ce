"""Tunables of the counters scenario, which checks whether events count what their roles say."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """How much is counted, and which deviations from known numbers are accepted."""

    epochs: int = 6  # passes over all workloads, each in another order: two more than an interval needs
    amounts: tuple[int, ...] = (1, 4)  # units of work in a reading: two amounts give a slope
    repetitions: int = 96  # repetitions of single lines in a unit: an interrupt's few events are a few percent of it
    tries: int = 4  # attempts at a reading whose clock shows a gap
    trust: float = 0.02  # relative: a scale this close to 1 is trusted (Röhl et al. 2015 call -1 to +2 % accurate)
    exactness: float = 0.004  # relative error of a known number: lines of interrupts and page walks; a fifth of `trust`
    looseness: float = 0.12  # error of lines per access that a cache serves: replacement and prefetchers are unknown
    least_fit: float = 1e-3  # least probability of a fit: one right explanation in 1,000 is rejected
    even_odds: float = 20.0  # explanations within this ratio of probability are not distinguished: 5 % for the others
    beyond: float = 5.0  # size of a working set that leaves no line in L2, relative to L2: exp(-5) do at random
    loss: float = 0.04  # share of events lost beside a sibling, or of a stream's lines, that is a fault: twice `trust`
    stall_fraction: float = 0.25  # error of the share of multiplication cycles that count: more than half, or none
    background: float = 0.01  # events while nothing happens, relative to those of a line: half of `trust`
    line_cycles: float = 200.0  # about the latency of memory: events while idle are scaled to this time

    def quicker(self) -> Params:
        """Return the settings of --fast: the fewest epochs and repetitions that still give an interval."""
        return replace(self, epochs=4, repetitions=48)
