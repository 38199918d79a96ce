"""Evidence to look at: which lines of a page are in which level after each access of a run (the paper's Figure 7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from setebench.prefetcher_map.laboratory import SCAN, Laboratory
from setebench.prefetcher_map.strides import SAME
from setebench.prefetcher_map.visit import Access, Visit

MOST_ACCESSES, CHART_STRIDE = 16, 5


def charts(lab: Laboratory) -> dict[str, Any]:
    """A chart of a sequential run by many instructions and one of a stride by one instruction."""
    upwards = [Access(line * lab.line_size) for line in range(MOST_ACCESSES)]
    strided = [Access(line * lab.line_size, ip=SAME) for line in range(0, lab.page_lines, CHART_STRIDE)]
    return {
        "line after line": chart(lab, upwards),
        f"every {CHART_STRIDE}th line, by one instruction": chart(lab, strided),
    }


def chart(lab: Laboratory, run: list[Access]) -> dict[str, Any]:
    """Level of every line of the page after 0, 1, 2, ... accesses: index into `levels` of the largest share."""
    levels = list(lab.references.levels)
    rows = []
    for count in range(len(run) + 1):
        footprint = lab.sample(Visit(tuple(run[:count])), range(lab.page_lines), SCAN)
        rows.append(np.argmax(footprint.trained.value, axis=1).tolist())
    touched = [access.at // lab.line_size for access in run]
    return {"levels": levels, "touched": touched, "nearest": rows}
