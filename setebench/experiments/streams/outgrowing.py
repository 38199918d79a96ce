"""Choose sizes of data sets that no cache holds, from measured cache capacities (not those that the system reports)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from setebench.calibration import Levels
from setebench.experiments.size_sweep import SizeSweepParams


@dataclass(frozen=True, kw_only=True)
class OutgrowingParams:
    """Sizes of data sets that outgrow the last cache."""

    step: float = 4.0  # least size over the last cache's capacity: of twice the capacity a fifth may still hit
    usual: int = 1 << 26  # bytes if there is time: a guest's share of the last cache changes from minute to minute
    unknown_step: float = 2.0  # least size over the largest working set of the sweep, if that fits into the last cache
    unknown: int = 1 << 30  # bytes in that case if there is time, as the last cache may be much larger


PARAMS = OutgrowingParams()


class Outgrowing(NamedTuple):
    """Bytes of all threads' data sets together: the `least` size that outgrows the caches and the `wanted` size; and
    the capacity of the last cache in bytes (`last`; the sweep's largest working set if the capacity is unknown)."""

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
