"""What is asked alike of every prefetcher that leads runs of equal distances: which ways, by what, to which level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from setebench.prefetcher_map.across_cores import tell_across_cores
from setebench.prefetcher_map.kinds import Test, trained_by
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.shared import tell_shared
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Visit

UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
LEVEL_UNCLEAR = "its level stays unclear; run again without --fast, at a quieter time"
ANCHOR_BEHIND_MIDDLE = 13
"""Lines from the page's middle to the line that is loaded before every software prefetch: not on a usual run."""


@dataclass(frozen=True)
class LedRun:
    """The shortest run that a prefetcher leads: its visit, the line that it brings, whether runs upwards (False) and
    downwards (True) are led, and how to tell whether a visit of other accesses is led as well."""

    visit: Visit
    target: int
    ways: Mapping[bool, bool | None]
    led: Test


def directions(ways: Mapping[bool, bool | None]) -> str | None:
    """`up`, `down` or `both`, from whether runs upwards (False) and downwards (True) are led; None where a way is
    unclear, or none is led."""
    names = {(True, True): "both", (True, False): "up", (False, True): "down"}
    return None if None in ways.values() else names.get((bool(ways[False]), bool(ways[True])))


def tell_led_run(lab: Laboratory, run: LedRun, method: str, told: Told) -> None:
    """Tell directions, kinds of access, the level filled, and whether threads, or cores, share it."""
    told.value("directions", directions(run.ways), method, UNCLEAR)
    kinds, reason = trained_by(lab, run.visit, run.led, lab.page_lines // 2 + ANCHOR_BEHIND_MIDDLE)
    told.value("trained_by", kinds, "the same run by other kinds of access", reason)
    told.value("fills", lab.level(run.visit, run.target), "level of the next line", LEVEL_UNCLEAR)
    tell_shared(lab, run.visit, len(run.visit.steps) - 1, [run.target], told)
    tell_across_cores(lab, run.visit, len(run.visit.steps) - 1, [run.target], told)
