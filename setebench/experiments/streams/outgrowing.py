"""Data sets that no cache holds, by where the levels end: found by following pointers, not taken from the system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from setebench.calibration import Levels
from setebench.experiments.size_sweep import SizeSweepParams


@dataclass(frozen=True, kw_only=True)
class OutgrowingParams:
    """What outgrows the last cache."""

    step: float = 4.0  # data sets over the last cache: of twice it random replacement keeps a fifth
    usual: int = 1 << 26  # bytes where time allows: what a guest has of the last cache changes by the minute
    unknown_step: float = 2.0  # over the largest working set, where none outgrew the last cache
    unknown: int = 1 << 30  # bytes where none did and time allows: it may be much larger than any working set


PARAMS = OutgrowingParams()


class Outgrowing(NamedTuple):
    """Bytes of all threads' data sets together: the `least` that outgrows the caches, and those to be `wanted`; and
    those of the last cache (`last`), or of the largest working set where none outgrew it."""

    least: int
    wanted: int
    last: float


def outgrowing(levels: Levels, affordable: int) -> Outgrowing:
    """What outgrows the last cache; `affordable` bytes can be filled in the time that there is."""
    last, step, usual = levels.ends_bytes.get(levels.caches[-1]), PARAMS.step, PARAMS.usual
    if last is None:
        last, step, usual = float(SizeSweepParams().largest), PARAMS.unknown_step, PARAMS.unknown
    least = int(step * last)
    return Outgrowing(least, max(least, min(usual, affordable)), last)
