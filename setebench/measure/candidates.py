"""What lines took behind some walks, and which of the walks shows a level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from setebench.calibration import Walk
from setebench.infer.levels import SAME_LEVEL_RATIO, Answer

SEEN_SHARE = 0.15
"""A level has to serve so many lines behind a walk for their mean to be reported."""

MOSTLY_SHARE = 0.6
"""So many lines that groups are parted by what most loads do."""

FLAT_WALK_RATIO = 1.08
"""Behind walks that differ by half, a level's lines take the same time but for this."""

AS_SLOW_RATIO = 1.04
"""Lines behind two walks take the same within this. A walk that leaves a tenth of its lines in a level half as slow
falls behind the slowest by more; means of so many loads are uncertain by about as much."""

SURE_ERRORS = 2.0
"""Two means are alike where they are no further apart than this many standard errors."""


@dataclass(frozen=True)
class Candidate:
    """Behind `walk`: the cycles of lines that were not in memory, their share, the cycles of the fastest lines (where
    lines are repeated), and the groups into which single loads fall (where the clock is fine enough). `error_cycles` is
    the standard error of the first, `fastest_error_cycles` of the fastest lines'."""

    walk: Walk
    cycles: float
    share: float
    fastest_cycles: float
    groups: list[Answer]
    error_cycles: float = 0.0
    fastest_error_cycles: float = 0.0

    def answers(self, number: int) -> list[Answer]:
        """The groups as inference wants them; `number` is the walk's."""
        return [replace(group, walk=number) for group in self.groups]


def jump(shorter: Candidate, longer: Candidate) -> bool:
    """Whether behind the longer walk another level answers than behind the shorter one."""
    return longer.fastest_cycles >= SAME_LEVEL_RATIO * shorter.fastest_cycles


def steadiest(candidates: list[Candidate], first_cycles: float) -> Candidate:
    """The longer of the two walks between which least changes: shorter ones leave lines in the first level
    (`first_cycles`), longer ones take some from the second. The shorter of the two where even that is much, or where
    the longer one costs the second level more of its lines: the fastest may be the next to go."""
    beyond = [candidate for candidate in candidates if candidate.fastest_cycles >= SAME_LEVEL_RATIO * first_cycles]
    if len(beyond) < 2:
        return beyond[0] if beyond else candidates[-1]
    shorter, longer = min(pairwise(beyond), key=lambda pair: pair[1].fastest_cycles / pair[0].fastest_cycles)
    fastest_error = SURE_ERRORS * math.hypot(shorter.fastest_error_cycles, longer.fastest_error_cycles)
    slower = longer.fastest_cycles > AS_SLOW_RATIO * shorter.fastest_cycles + fastest_error
    error = SURE_ERRORS * math.hypot(shorter.error_cycles, longer.error_cycles)
    loses_lines = longer.cycles > AS_SLOW_RATIO * shorter.cycles + error
    chosen = shorter if slower or loses_lines else longer
    return next((candidate for candidate in beyond[: beyond.index(chosen)] if _gentler(candidate, chosen)), chosen)


def _gentler(shorter: Candidate, longer: Candidate) -> bool:
    """Whether a shorter walk surely costs the level fewer lines, with no sign that it leaves some in the level before.

    Where another guest uses the level too, lines go while the walk lasts. Lines left in the level before would lower
    the fastest lines' mean at least as much as that of all."""
    error, fastest_error = (
        SURE_ERRORS * math.hypot(*own)
        for own in (
            (shorter.error_cycles, longer.error_cycles),
            (shorter.fastest_error_cycles, longer.fastest_error_cycles),
        )
    )
    saved, faster = longer.cycles - shorter.cycles, longer.fastest_cycles - shorter.fastest_cycles
    as_slow = faster <= min(fastest_error, (1 - 1 / AS_SLOW_RATIO) * longer.fastest_cycles)
    return as_slow and saved > fastest_error + error


def last_level(candidates: list[Candidate], second_cycles: float) -> tuple[Candidate | None, bool]:
    """The candidate that shows a level behind the second (`second_cycles`) best, None if there is none; and whether
    something slower than the second answers without ever doing so alone."""
    seen = [candidate for candidate in candidates if candidate.share >= SEEN_SHARE]
    if not seen:
        return None, False
    # behind a large walk few lines are left, and on a coarse clock the mean of those may be off by a level's ratio
    surely = max(candidate.cycles - SURE_ERRORS * candidate.error_cycles for candidate in seen)
    if surely < SAME_LEVEL_RATIO * second_cycles:
        return None, False
    most = max(
        candidate.cycles
        for candidate in seen
        if candidate.cycles - SURE_ERRORS * candidate.error_cycles >= surely / FLAT_WALK_RATIO
    )
    alike = [candidate for candidate in seen if candidate.cycles > most / FLAT_WALK_RATIO]
    if len(alike) < 2:
        return None, True
    # the larger the walk, the fewer lines the second level still holds; but most should not be in memory either
    mostly = [candidate for candidate in alike if candidate.share >= MOSTLY_SHARE]
    return (mostly[-1] if mostly else alike[0]), False


def shortest_alike(candidates: list[Candidate], level: Candidate) -> float:
    """Bytes of the shortest walk behind which the lines take as long as behind that of `level`, as far as either is
    known."""

    def alike(candidate: Candidate) -> bool:
        room = SURE_ERRORS * math.hypot(candidate.error_cycles, level.error_cycles)
        return candidate.share >= SEEN_SHARE and candidate.cycles > level.cycles / FLAT_WALK_RATIO - room

    return min(candidate.walk.bytes for candidate in candidates if candidate is level or alike(candidate))
