"""Where the caches are: working sets that each level serves, and how many levels there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setebench.calibration import Levels as Found

from .params import Params


@dataclass(frozen=True, kw_only=True)
class Levels:
    """What timing says of the caches.

    `first_bytes` and `second_bytes`: where the first two end, as far as is known. `second` and `third`:
    working sets that lines from the second one and from one beyond it serve (None where none was found). `numbered`:
    whether it is known that there is a third one, or none. `near_ticks`, `lost_ticks`, `third_ticks` and
    `memory_ticks`: a step that the first one serves, one over lines that it has lost to the second, one that the third
    one serves, and one over flushed lines."""

    first_bytes: float
    near_ticks: float
    lost_ticks: float
    memory_ticks: float
    second: float | None = None
    second_bytes: float | None = None
    third: float | None = None
    third_ticks: float = 0.0
    numbered: bool = False

    @property
    def next_ticks(self) -> float:
        """A step over lines that the second level has not: the third one's, or memory's."""
        return self.third_ticks if self.third is not None else self.memory_ticks


def levels_of(found: Found, cycles_per_tick: float, memory_ticks: float, params: Params) -> Levels:
    """The caches of the mixture that all working sets are (`find_levels`), and what a step over flushed lines takes.
    The second is the nearest that answers behind the first, be it hidden among the others; levels beyond it have
    numbers where none may hide."""
    first = found.ends_bytes.get("l1", found.walks["l1"].bytes)
    behind = [(found.cycles[name], found.walks[name].bytes, found.ends_bytes.get(name)) for name in found.caches[1:]]
    hides = bool(np.isfinite(found.hidden_cycles))
    if hides:
        behind.append((found.hidden_cycles, params.outgrow * first, None))
    lost, second, ends = min(behind, key=lambda each: each[0], default=(memory_ticks * cycles_per_tick, None, None))
    levels = Levels(
        first_bytes=first,
        near_ticks=found.cycles["l1"] / cycles_per_tick,
        lost_ticks=lost / cycles_per_tick,
        memory_ticks=memory_ticks,
        second=second,
        second_bytes=ends or second,
        numbered=bool(behind) and not hides,
    )
    if not levels.numbered or len(behind) < 2:
        return levels
    cycles, third, _ = behind[1]
    return replace(levels, third=third, third_ticks=cycles / cycles_per_tick)
