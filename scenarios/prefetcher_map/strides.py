"""A stride prefetcher of level 1 by itself: where no known rules explain all curves, two of them isolate it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from setebench.results import Outcome

from .curves import BY_MANY, BY_ONE, Seen
from .findings import Report
from .fit import first_rules
from .model import Rules
from .params import Params
from .rules import Asker, ask_kinds

METHOD = "further strides come ahead of a run by one instruction, and of no run by as many as there are accesses"


def isolated(
    curves: Mapping[str, Seen], leads: Mapping[str, list[int]], line_size: int, params: Params
) -> Rules | None:
    """The rules of a stride prefetcher by instruction, or None where there is no sign of one."""
    many = _ahead(curves[BY_MANY], line_size, params)
    found = {count: each for count, each in _ahead(curves[BY_ONE], line_size, params).items() if each[0]}
    filled = any(between > params.few * strides for strides, between in found.values())
    if 1 in found or len(found) < params.other_lines or filled or any(strides for strides, _ in many.values()):
        return None
    more, furthest = [1], max(strides for strides, _ in found.values())
    for stride in params.strides[1:]:
        lead = [each // stride for each in leads[f"one.stride_{stride}"]]
        more += [after - before + 1 for before, after in pairwise(lead) if 0 < before < after]
        furthest = max(furthest, *lead)
    rules = {"trigger": min(found), "degree": max(more, key=more.count), "max_distance": furthest}
    return {**first_rules("l1.stride"), **rules, "min_stride": 2}


def _ahead(seen: Seen, line_size: int, params: Params) -> dict[int, tuple[int, int]]:
    """By accesses made: how many strides come one after the other, and how many lines between them."""
    lines = [access.at // line_size for access in seen.curve.trial.accesses]
    stride, found = lines[1] - lines[0], {}
    for count, row in zip(seen.curve.counts, np.nan_to_num(seen.present) >= params.lead_share, strict=True):
        strides = int(np.argmin([*row[lines[count - 1] + stride :: stride], False]))
        between = int(row[lines[count - 1] :][: strides * stride + 1].sum()) - strides
        found[count] = strides, between
    return found


def report_stride(asker: Asker, report: Report) -> None:
    """What the two curves say of it, and which kinds and directions it follows."""
    rules = asker.fit.model["l1.stride"]
    report.add("present", True, METHOD)
    report.add("trigger", rules["trigger"], METHOD)
    report.add("degree", rules["degree"], METHOD)
    reason = "the page holds no more"
    report.add("max_distance", rules["max_distance"], METHOD, outcome=Outcome.AT_LEAST, reason=reason)
    for name in ("fills", "indexed_by", "crosses_4k"):
        report.open(name, "the curves of other prefetchers hide it", METHOD)
    *run, following = (asker.params.first_line + 3 * number for number in range(rules["trigger"] + 1))
    last = asker.page_lines - 1
    falls = asker.comes(asker.made([last - line for line in run], 1), last - following)
    report.one_of("directions", {None: ["up", "both"], True: ["both"], False: ["up"]}[falls], METHOD)
    ask_kinds(asker, report, asker.made(run, 1), [following])
