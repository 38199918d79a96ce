"""What a working-set sweep says of the levels between the first and memory, and how far it can be believed.

Loads behind walks show a level more surely than a plateau does; but what they leave open is distinguished from
plateaus.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from setebench.calibration import Walk
from setebench.infer.levels import SAME_LEVEL_RATIO, Plateau
from setebench.measure.candidates import SURE_ERRORS, Candidate
from setebench.measure.walks import FURTHER_TURNS, walk_beyond


class Level(NamedTuple):
    """The walk behind which a level answers, and in about how many cycles."""

    walk: Walk
    cycles: float


@dataclass(frozen=True)
class SweptLevels:
    """Plateaus of the sweep that are caches, where each ends, and whether another level has room behind them."""

    caches: list[Plateau]
    ends: list[float]
    room: bool

    def walk(self, number: int) -> Walk:
        """The walk behind which a plateau from the second on should answer."""
        if number > 1:
            return walk_beyond(self.ends[number - 1], self.ends[number])
        # the second level shows no plateau, so where it ends is not known, but this one's middle is further out
        return Walk(self.caches[number].middle_bytes, FURTHER_TURNS)

    def further(self, second: Candidate) -> list[int]:
        """Numbers of the plateaus that are further out than the second level, the slowest first.

        A plateau counts if it is slower than the second level may be as far as that is known: else that level's own
        plateau could pass for another. One over the size of the second level's own walk must be slower than all lines
        behind that walk."""

        def cycles(plateau: Plateau) -> float:
            over = plateau.low_bytes <= second.walk.bytes <= plateau.high_bytes
            slowest = max(second.fastest_cycles, second.cycles) if over else second.fastest_cycles
            return slowest + SURE_ERRORS * second.fastest_error_cycles

        numbers = reversed(range(1, len(self.caches)))
        return [n for n in numbers if self.caches[n].cycles > SAME_LEVEL_RATIO * cycles(self.caches[n])]

    def borne_out(self, levels_cycles: list[float]) -> bool:
        """Whether levels that were seen line by line leave no plateau unexplained: there is one for each, or none is
        slower than they all. A faster one is a mixture, as no line ever took that long alone (where a small cache
        replaces at random, the way to the next can look like a plateau or two)."""
        plateaus_cycles = [plateau.cycles for plateau in self.caches[1:]]
        if len(plateaus_cycles) <= len(levels_cycles):
            return True
        return bool(levels_cycles) and max(plateaus_cycles) < SAME_LEVEL_RATIO * max(levels_cycles)

    def beyond(self) -> list[Level]:
        """The caches from the second on, three levels in all at most."""
        walks = [walk_beyond(inner, end) for inner, end in pairwise(self.ends[:3])]
        return [Level(walk, cache.cycles) for walk, cache in zip(walks, self.caches[1:], strict=False)]
