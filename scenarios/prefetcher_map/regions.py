"""Prefetchers that remember a region's footprint: the lines that followed such a first access elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from setebench.experiments.presence import Trials
from setebench.results import Outcome

from .curves import Seen
from .findings import Report
from .params import Params

METHOD = "a first access to a page after such accesses to others, and lines that followed those"


def _came(seen: Seen, lines: Sequence[int], params: Params) -> list[bool]:
    return [bool(seen.present[0, line] > params.came) for line in lines]


def remembers(practised: Mapping[str, Seen], params: Params) -> bool:
    """Whether lines came that followed elsewhere, some of them at least."""
    feet = params.footprint[1:]
    return any(bool(np.nan_to_num(practised["practice"].present[0, line]) > params.slack * 3) for line in feet)


def report_region(trials: Trials, practised: Mapping[str, Seen], params: Params) -> Report:
    """What is found of a region prefetcher of level 1."""
    report = Report("l1.region")
    feet = params.footprint[1:]
    came = _came(practised["practice"], feet, params)
    if not any(came):
        if remembers(practised, params):
            report.open("present", "some lines that followed elsewhere came in some repetitions only", METHOD)
        else:
            report.add("present", False, METHOD, outcome=Outcome.ABSENT)
        return report
    report.add("present", True, METHOD)
    furthest = max(line for line, there in zip(feet, came, strict=True) if there)
    size = 1 << (furthest.bit_length())
    report.add("region_size", size * trials.line_size, METHOD)
    shifted = [line - 4 for line in feet]
    ip = any(_came(practised["other line"], shifted, params))
    offset = any(_came(practised["other instruction"], feet, params))
    by = "offset" if offset and not ip else "ip" if ip and not offset else None if ip else "ip+offset"
    if by:
        report.add("indexed_by", by, METHOD)
    else:
        report.open("indexed_by", "it goes by any of instruction and line", METHOD)
    seen = practised["practice"]
    inner = [
        float(seen.first[0, line] / seen.present[0, line]) for line, there in zip(feet, came, strict=True) if there
    ]
    share = float(np.mean(inner))
    if share > params.one_level or share < 1 - params.one_level:
        report.add("fills", "l1" if share > 0.5 else "l2", METHOD)
    else:
        report.open("fills", "the clock can't distinguish levels 1 and 2", METHOD)
    return report
