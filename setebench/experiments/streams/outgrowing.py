"""Choose sizes of data sets that no cache holds, from measured cache capacities (not those that the system reports)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from setebench.calibration import Levels
from setebench.experiments.size_sweep import SizeSweepParams


@dataclass(frozen=True, kw_only=True)
class OutgrowingParams:
    """Sizes of data sets that outgrow the last cache."""

    step: float = 4.0  # least ratio of a size to the last cache's capacity: at 2, a fifth of the loads may still hit
    usual: int = 1 << 26  # bytes if time allows: a guest's share of the last cache changes from minute to minute
    unknown_step: float = 2.0  # least ratio of a size to the sweep's largest working set, if the last cache holds that
    unknown: int = 1 << 30  # bytes in that case if time allows, as the last cache may be much larger


PARAMS = OutgrowingParams()


class Outgrowing(NamedTuple):
    """Bytes of all threads' data sets together: `least` outgrows the caches, `wanted` is the size to use. `last` is the
    capacity of the last cache in bytes, or the sweep's largest working set if that is unknown."""

    least: int
    wanted: int
    last: float


def outgrowing(levels: Levels, affordable: int) -> Outgrowing:
    """Return the sizes that outgrow the last of the `levels`. The wanted one is at most `affordable`, the bytes that
    can be filled in the available time, unless the least size is larger."""
    last, step, usual = levels.ends_bytes.get(levels.caches[-1]), PARAMS.step, PARAMS.usual
    if last is None:
        last, step, usual = float(SizeSweepParams().largest), PARAMS.unknown_step, PARAMS.unknown
    least = int(step * last)
    return Outgrowing(least, max(least, min(usual, affordable)), last)
