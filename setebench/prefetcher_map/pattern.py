"""One question in a short notation: accesses to a page, then which of its lines are where."""

from __future__ import annotations

import re
from collections.abc import Iterator

from setebench.errors import UsageError
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.visit import Access, Kind, Visit, fresh
from setebench.results import Finding

KINDS: dict[str, Kind] = {
    "": "load",
    "load": "load",
    "store": "store",
    "flush": "flush",
    "t0": "t0",
    "t1": "t1",
    "t2": "t2",
    "nta": "nta",
    "w": "w",
}
HELP = (
    "ask one thing: accesses to a fresh page as LINE, KIND:LINE (store, flush, t0, t1, t2, nta, w) or LINE@NAME where "
    "accesses with one NAME share an instruction address; '4 5 6' is three ascending loads from line 4"
)
_WORD = re.compile(r"(?:(?P<kind>[a-z0-9]+):)?(?P<line>\d+)(?:@(?P<name>\w+))?")
NAMED = 40
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
        ip = None if name is None else fresh(NAMED + names.index(name))
        steps.append(Access(int(found["line"]) * line_size, KINDS[found["kind"] or ""], ip))
    if not steps or len(steps) > NAMED or len(names) > 64 - NAMED:
        raise UsageError(f"a pattern has 1 to {NAMED} accesses and at most {64 - NAMED} names")
    return Visit(tuple(steps))


def ask(lab: Laboratory, text: str) -> Iterator[Finding]:
    """Every line of the page that the pattern leaves in a cache, with its level."""
    visit = parse(text, lab.page_lines, lab.line_size)
    brought = lab.lines(visit, range(lab.page_lines))
    lab.context.evidence["pattern"] = {"pattern": text, "lines": sorted(brought)}
    for line in sorted(brought):
        level = lab.level(visit, line)
        value = "unclear" if level is None else level
        yield Finding(parameter=f"pattern.line_{line}", value=value, unit="string", method=text, evidence="pattern")
