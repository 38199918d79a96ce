"""Data sets that lie in each level, by where the levels end: found by following pointers, not taken from the system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from setebench.calibration import Levels
from setebench.machine import Facts


@dataclass(frozen=True, kw_only=True)
class SetParams:
    """Sizes of data sets."""

    part: float = 0.5  # of a level's share of a thread: less hides in the level before, more loses lines to conflicts
    outgrows: float = 2.0  # data sets over the level before: half as much would partly be served by it
    widest_part: float = 0.75  # of a share, where twice the level before is more than a part of it
    shared_step: float = 4.0  # most over the level before in a cache that others may use, of which a part is theirs


PARAMS = SetParams()


def shared(levels: Levels, name: str) -> bool:
    """Whether other cores use a level, as they do memory and a third level. A second one that is the last may be a
    cluster's: then its data set is small, twice the first level."""
    return name not in levels.caches[:2]


def bytes_of(levels: Levels, facts: Facts, cpus: Sequence[int]) -> dict[str, int]:
    """Bytes of each thread's data set in every cache, 0 where none lies in it."""
    per_core = max((sum(cpu in group for cpu in cpus) for group in facts.siblings), default=1)
    found: dict[str, int] = {}
    before = 0.0
    for name in levels.caches:
        sharing = len(cpus) if shared(levels, name) else per_core
        share = levels.ends_bytes.get(name, 0.0) / sharing
        found[name] = _inside(before, share, levels.shared(name))
        before = share or PARAMS.outgrows * before
    return found


def _inside(before: float, share: float, maybe_shared: bool) -> int:
    """Bytes that lie in a level behind one of `before` bytes; its own `share` is 0 where its end isn't known."""
    if not share:
        return int(PARAMS.shared_step * before)
    least = PARAMS.outgrows * before
    wanted = max(least, PARAMS.part * share)
    if maybe_shared and before:
        wanted = min(wanted, max(least, PARAMS.shared_step * before))
    most = PARAMS.widest_part * share
    return int(min(wanted, most)) if most >= PARAMS.widest_part * least else 0
