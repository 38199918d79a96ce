"""Evidence to look at: which lines of a page are in which level after each access of a run (the paper's Figure 7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from setebench.prefetcher_map.laboratory import SCAN, Laboratory
from setebench.prefetcher_map.strides import SAME
from setebench.prefetcher_map.visit import Access, Visit

CHART_STRIDE = 5


def charts(lab: Laboratory) -> dict[str, Any]:
    """A chart of a sequential run through a page by many instructions and one of a stride by one instruction."""
    upwards = [Access(line * lab.line_size) for line in range(lab.page_lines)]
    strided = [Access(line * lab.line_size, ip=SAME) for line in range(0, lab.page_lines, CHART_STRIDE)]
    return {
        "line after line": chart(lab, upwards),
        f"every {CHART_STRIDE}th line, by one instruction": chart(lab, strided),
    }


def chart(lab: Laboratory, run: list[Access]) -> dict[str, Any]:
    """Level of every line of the page after 0, 1, 2, ... accesses, until all of them are in a cache: index into
    `levels` of the largest share. Beside it, per access, the lines that it fetched and the lines ahead of it that are
    there then without a gap: degree and distance of the paper's Figure 7, whose distance counts to the line behind."""
    levels = list(lab.references.levels)
    rows: list[list[int]] = []
    for count in range(len(run) + 1):
        shares = lab.levels_after(Visit(tuple(run[:count])), range(lab.page_lines), SCAN)
        rows.append(np.argmax(shares.value, axis=1).tolist())
        if max(rows[-1]) < len(levels) - 1:  # none in memory: the run brings nothing more
            break
    touched = [access.at // lab.line_size for access in run[: len(rows) - 1]]
    fetched, ahead = led(rows, touched, len(levels) - 1)
    return {"levels": levels, "touched": touched, "nearest": rows, "fetched": fetched, "ahead": ahead}


def led(rows: list[list[int]], touched: list[int], memory: int) -> tuple[list[int], list[int]]:
    """(lines that each access of an upward run fetched, lines ahead of it that are in a cache then without a gap), from
    the level of every line after 0, 1, 2, ... of the accesses `touched`."""
    fetched, ahead, before = [], [], 0
    for row, line in zip(rows[1:], touched, strict=True):
        end = next((other for other in range(line + 1, len(row)) if row[other] == memory), len(row))
        ahead.append(end - 1 - line)
        fetched.append(max(end - max(before, line + 1), 0))
        before = end
    return fetched, ahead
