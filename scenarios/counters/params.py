"""Tunables of the question whether events count what their roles say."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    epochs: int = 6  # of everything, in another order each: two more than give an interval
    amounts: tuple[int, ...] = (1, 4)  # units in a reading: two give a slope
    repetitions: int = 96  # a unit of single lines: an interrupt's handful is a few percent of one reading
    tries: int = 4  # of a reading whose clock shows a gap
    trust: float = 0.02  # relative: a scale within this is trusted (Röhl et al. 2015: -1 to +2 % are accurate)
    exactness: float = 0.004  # relative error of a known volume: lines of interrupts and page walks; a fifth of `trust`
    looseness: float = 0.12  # lines per access, of what a level serves: replacement and prefetchers are not known
    least_fit: float = 1e-3  # chance below which a candidate leaves too much unexplained: once in 1,000 true ones
    even_odds: float = 20.0  # candidates this close in probability are not distinguished; 5 % for the others
    beyond: float = 5.0  # times L2, of a working set that none of its lines stays in: exp(-5) at random
    loss: float = 0.04  # part of events lost beside a sibling, or of a stream's lines, that is a fault: twice `trust`
    stall_fraction: float = 0.25  # error of the part of cycles that multiplications add: over half of them count, or 0
    background: float = 0.01  # events while nothing happens, as a part of those of a line: half of `trust`
    line_cycles: float = 200.0  # about what a line from memory takes: in that time background is counted

    def quicker(self) -> Params:
        """With --fast: as few epochs and repetitions as give an interval at all."""
        return replace(self, epochs=4, repetitions=48)
