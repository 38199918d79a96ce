"""One question in a short notation, and charts: which lines are where after some accesses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from setebench.errors import UsageError
from setebench.experiments.visits import LAYOUT, Access, Kind, Visit, instruction
from setebench.results import Finding

from .lab import Lab

KINDS: dict[str, Kind] = {"": "load", "load": "load", "store": "store", "flush": "flush"}
KINDS |= {"t0": "t0", "t1": "t1", "t2": "t2", "nta": "nta", "w": "w"}
HELP = (
    "ask one thing: accesses to a fresh page as LINE, KIND:LINE (store, flush, t0, t1, t2, nta, w) or LINE@NAME where "
    "accesses with one NAME share an instruction address; '4 5 6' is three ascending loads from line 4"
)
_WORD = re.compile(r"(?:(?P<kind>[a-z0-9]+):)?(?P<line>\d+)(?:@(?P<name>\w+))?")
NAMED = LAYOUT.instructions * 5 // 8
"""Instruction addresses from this number on belong to names."""


def parse(text: str, page_lines: int, line_size: int) -> Visit:
    """The visit that a pattern describes. Raises `UsageError` for a word that is none."""
    steps: list[Access] = []
    names: list[str] = []
    for word in text.replace(",", " ").split():
        found = _WORD.fullmatch(word)
        if found is None or (found["kind"] or "") not in KINDS or int(found["line"]) >= page_lines:
            raise UsageError(f"{word!r} is no access; write LINE, KIND:LINE or LINE@NAME, lines 0 to {page_lines - 1}")
        name = found["name"]
        if name is not None and name not in names:
            names.append(name)
        ip = None if name is None else instruction(NAMED + names.index(name))
        steps.append(Access(int(found["line"]) * line_size, KINDS[found["kind"] or ""], ip))
    most = LAYOUT.instructions - NAMED
    if not steps or len(steps) > NAMED or len(names) > most:
        raise UsageError(f"a pattern has 1 to {NAMED} accesses and at most {most} names")
    return Visit(tuple(steps))


def ask(lab: Lab, text: str) -> Iterator[Finding]:
    """Every line of the page that the pattern leaves in a cache, with its level."""
    visit = parse(text, lab.page_lines, lab.line_size)
    brought = sorted(line for line, came in lab.scan(visit, range(lab.page_lines)).items() if came)
    lab.context.evidence["pattern"] = {"pattern": text, "lines": brought}
    for line in brought:
        level = lab.level(visit, line) or "unclear"
        yield Finding(parameter=f"pattern.line_{line}", value=level, unit="string", method=text, evidence="pattern")


def charts(lab: Lab) -> dict[str, Any]:
    """A chart of a sequential run through a page by many instructions and one of a stride by one instruction."""
    stride = sum(lab.params.gaps) // 2 - 1
    upwards = [Access(line * lab.line_size) for line in range(lab.page_lines)]
    strided = [Access(line * lab.line_size, ip=lab.params.same_ip) for line in range(0, lab.page_lines, stride)]
    return {
        "line after line": chart(lab, upwards),
        f"every {stride}th line, by one instruction": chart(lab, strided),
    }


def chart(lab: Lab, run: list[Access]) -> dict[str, Any]:
    """Level of every line of the page after 0, 1, 2, ... accesses, until all of them are in a cache: index into
    `levels` of the largest fraction. Beside it, per access, the lines that it fetched and the lines ahead of it that
    are there then without a gap: degree and distance of Figure 7 of Fang et al. 2014, whose distance counts to the line
    behind."""
    levels = list(lab.references.levels)
    memory = len(levels) - 1
    rows = [_nearest(lab, [], [memory] * lab.page_lines)]
    for count in range(1, len(run) + 1):
        if max(rows[-1]) < memory:  # none is left there: the run brings nothing more
            break
        rows.append(_nearest(lab, run[:count], rows[-1]))
    touched = [access.at // lab.line_size for access in run[: len(rows) - 1]]
    fetched, ahead = led(rows, touched, memory)
    return {"levels": levels, "touched": touched, "nearest": rows, "fetched": fetched, "ahead": ahead}


def _nearest(lab: Lab, run: list[Access], before: list[int]) -> list[int]:
    """Where every line of the page is after a run, as an index of its level, from where it was before the last access:
    level 1 keeps what it holds. Half as often as for an answer, as nothing follows from it."""
    row = list(before)
    for access in run[-1:]:
        row[access.at // lab.line_size] = 0
    asked = [line for line, level in enumerate(row) if level]
    if asked:
        shares = lab.shares_after(Visit(tuple(run)), asked, lab.params.first // 2)
        for line, nearest in zip(asked, np.argmax(shares.value, axis=1).tolist(), strict=True):
            row[line] = nearest
    return row


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
