"""Lines ahead of a run by the number of its accesses: see `spec.Lead`."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.prefetchers.common import hand_out, may_go, record_for

(R_LAST, R_WAY, R_RUN, R_WORDS) = range(2, 6)


@compiled
def train_lead(c: Ints, s: Ints, p: int, q: int) -> None:
    """The lines up to the lead that the run of accesses to the page has come to."""
    line, leads = s[lay.S_SEEN_LINE], p + lay.LEAD_LEADS
    record = record_for(s, q, c[p + lay.LEAD_PAGES], R_WORDS, line >> c[lay.C_PAGE_LINES_BITS])
    if s[record + R_RUN] == 0:
        s[record + R_WAY] = 1
    elif line == s[record + R_LAST] and not c[p + lay.LEAD_ONLY_MISSES]:
        return
    elif line != s[record + R_LAST]:
        apart = abs(line - s[record + R_LAST])
        if apart > 1:
            leads = p + (lay.LEAD_LEADS_BY_TWOS if apart == 2 else lay.LEAD_LEADS_BEYOND)
        way = 1 if line > s[record + R_LAST] else -1
        if way != s[record + R_WAY] and s[record + R_RUN] > 1:
            s[record + R_RUN] = 1
        s[record + R_WAY] = way
    s[record + R_RUN] += 1
    s[record + R_LAST] = line
    if c[p + lay.LEAD_ONLY_MISSES] and not s[lay.S_SEEN_MISSES]:
        return
    way = s[record + R_WAY]
    for ahead in range(1, c[leads + min(s[record + R_RUN], c[leads])] + 1):
        if may_go(c, s, p, line, line + ahead * way):
            hand_out(c, s, line + ahead * way)
