"""What a run has measured once and for all of a machine: its clock, its pace, its levels. Frozen; each step that finds
more puts a new record in its place (`Context.calibration`), so whoever keeps an old one keeps it as it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setebench.stats.estimate import Interval

MEMORY = "memory"


class Kind(Enum):
    """What a level is: a cache of the core's own, a cache that other cores may use as well, or memory."""

    PRIVATE = 1
    SHARED = 2
    MEMORY = 3


def kind_of(name: str, caches: Sequence[str]) -> Kind:
    """Of a level, from the names of all caches, nearest first.

    Who else uses a cache is asked later, if at all, so what may be shared counts as shared: all but the first two, and
    the last one but where it is the only one. How much neighbours do to such a level drifts in longer times than a run
    lasts, and all threads together may have no more of it than one."""
    if name == MEMORY:
        return Kind.MEMORY
    number = list(caches).index(name)
    return Kind.SHARED if number > 1 or 0 < number == len(caches) - 1 else Kind.PRIVATE


@dataclass(frozen=True)
class Walk:
    """The traversal of evictor lines behind which lines are left in a level: over so many bytes, so many times.

    More than once where the inner level may replace at random: lines stay in it that one turn missed, while the outer
    level holds the traversed lines from turn to turn and loses none of its own."""

    bytes: float = 0.0
    turns: int = 1


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels of the hierarchy by name, nearest first and memory last, as rounds of the size sweep found them.

    `walks` are the traversals that bring lines to each; `cycles` is about what a load from each takes, `latency` the
    same with its interval, `ns` in nanoseconds, `sete` cycles of single loads. A cache has a `capacity` in bytes: half
    the loads from a working set of so many are served further out; a last one that was not outgrown has none. Something
    may answer in `hidden_cycles` that is a level of its own: those further out can't be numbered. `sweep` is the
    evidence."""

    walks: dict[str, Walk]
    cycles: dict[str, float]
    latency: dict[str, Interval] = field(default_factory=dict)
    ns: dict[str, Interval] = field(default_factory=dict)
    sete: dict[str, Interval] = field(default_factory=dict)
    capacity: dict[str, Interval] = field(default_factory=dict)
    hidden_cycles: float = math.inf
    sweep: dict[str, Any] = field(default_factory=dict)

    @property
    def ends_bytes(self) -> dict[str, float]:
        """About where each cache ends, of those that were outgrown."""
        return {name: capacity.value for name, capacity in self.capacity.items()}

    @property
    def caches(self) -> tuple[str, ...]:
        """All levels but memory, nearest first."""
        return tuple(name for name in self.cycles if name != MEMORY)

    def shared(self, name: str) -> bool:
        """Whether others may use a level as well."""
        return kind_of(name, self.caches) is not Kind.PRIVATE


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """`step_ticks`: granularity of the clock. `control_scale`: how many times as long as usual a control of the core's
    other thread must be on this clock, 0 where it does not say. `issue_pace`: the fastest pace of independent
    instructions beside a chain that was seen, 0 before. None until measured."""

    step_ticks: float | None = None
    control_scale: int | None = None
    issue_pace: float = 0.0
    levels: Levels | None = None

    @property
    def level_cycles(self) -> dict[str, float]:
        """About how many cycles a load from each level takes, nearest first; empty before the levels are found."""
        return self.levels.cycles if self.levels else {}
