"""Lines ahead of a run by the number of its accesses: see `spec.Lead`."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import claim, next_match, record_at, use
from setebench.sim.prefetchers.common import hand_out, may_go

(R_LAST, R_WAY, R_RUN, R_FURTHEST, R_WORDS) = range(2, 7)


@compiled
def _run_of(c: Ints, s: Ints, p: int, q: int, line: int) -> int:
    """The nearest run of the page that the line goes on or turns, rather one that it goes on. A first access to a page
    begins one that may bring lines; beside other runs of the page a run does so from its second access on."""
    page, runs, nearest, found, there = line >> c[lay.C_PAGE_LINES_BITS], c[p + lay.LEAD_RUNS], lay.NEVER, -1, False
    number = next_match(s, q, runs, page, 0)
    while number >= 0:
        record = record_at(q, runs, R_WORDS, number)
        there, step = True, line - s[record + R_LAST]
        turns = step * s[record + R_WAY] < 0
        if abs(step) <= c[p + lay.LEAD_REACH] and abs(step) + turns * lay.PAGE_BITS < nearest:
            nearest, found = abs(step) + turns * lay.PAGE_BITS, number
        number = next_match(s, q, runs, page, number + 1)
    if found >= 0:
        use(s, q, runs, found)
        return record_at(q, runs, R_WORDS, found)
    record = claim(s, q, runs, R_WORDS, page)
    s[record + R_LAST] = line
    s[record + R_FURTHEST] = line
    s[record + R_RUN] = there
    return record


@compiled
def train_lead(c: Ints, s: Ints, p: int, q: int) -> None:
    """The lines up to the lead that the run of accesses has come to."""
    line = s[lay.S_SEEN_LINE]
    record = _run_of(c, s, p, q, line)
    step, leads = line - s[record + R_LAST], p + lay.LEAD_LEADS
    if abs(step) > 1:
        leads = p + (lay.LEAD_LEADS_BY_TWOS if abs(step) == 2 else lay.LEAD_LEADS_BEYOND)
    if step == 0 and s[record + R_RUN] > 0:
        return
    if step * s[record + R_WAY] < 0 and s[record + R_RUN] > 1:
        s[record + R_RUN] = 1
        s[record + R_FURTHEST] = line
    if step != 0 or s[record + R_RUN] == 0:
        s[record + R_WAY] = -1 if step < 0 else 1
    s[record + R_RUN] += 1
    s[record + R_LAST] = line
    way = s[record + R_WAY]
    for ahead in range(c[p + lay.LEAD_NEAREST], c[leads + min(s[record + R_RUN], c[leads])] + 1):
        target = line + ahead * way
        if (target - s[record + R_FURTHEST]) * way > 0 and may_go(c, s, p, line, target):
            hand_out(c, s, target)
            s[record + R_FURTHEST] = target
