"""Sizes of data sets that lie in one cache level each, derived from the measured capacities of the levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from setebench.calibration import Levels
from setebench.machine import Facts


@dataclass(frozen=True, kw_only=True)
class SetParams:
    """How large a data set is, relative to the capacities of its level and of the next nearer level."""

    part: float = 0.5  # of a thread's share of the level: less partly stays in the nearer one, more has conflicts
    outgrows: float = 2.0  # least data set, relative to the nearer level, which would serve a part of smaller ones
    widest_part: float = 0.75  # largest part of the share, used where `outgrows` needs more than `part`
    shared_step: float = 4.0  # largest data set, relative to the nearer level, if co-runners may use the cache


PARAMS = SetParams()


def shared(levels: Levels, name: str) -> bool:
    """Return whether several cores share the level `name`, as they do memory and a third cache. A second cache counts
    as private even if a cluster of cores shares it: the cluster's data sets fit together, as `bytes_of` limits each to
    `SetParams.shared_step` times the first cache where the second one is the last."""
    return name not in levels.caches[:2]


def bytes_of(levels: Levels, facts: Facts, cpus: Sequence[int]) -> dict[str, int]:
    """Return, for every cache by name, the bytes of a CPU's data set where all `cpus` stream over sets of their own at
    once: together they fit the cache, each outgrows the nearer one. 0 means that no size does both."""
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
    """Return bytes that outgrow the nearer level (`before` bytes) and fit a `share` of this one (0: unknown), or 0."""
    if not share:
        return int(PARAMS.shared_step * before)
    least = PARAMS.outgrows * before
    wanted = max(least, PARAMS.part * share)
    if maybe_shared and before:
        wanted = min(wanted, max(least, PARAMS.shared_step * before))
    most = PARAMS.widest_part * share
    return int(min(wanted, most)) if most >= PARAMS.widest_part * least else 0
