"""Lines by the number of accesses: see `spec.LineTable`."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import record_for
from setebench.sim.prefetchers.common import hand_out, may_go

(R_LAST, R_STEP, R_RUN, R_WORDS) = range(2, 6)


@compiled
def train_table(c: Ints, s: Ints, p: int, q: int) -> None:
    """The lines of the row that the run of accesses to the page has come to."""
    line = s[lay.S_SEEN_LINE]
    record = record_for(s, q, c[p + lay.TABLE_PAGES], R_WORDS, line >> c[lay.C_PAGE_LINES_BITS])
    if s[record + R_RUN] == 0:
        s[record + R_STEP] = 1
    elif line == s[record + R_LAST] and not c[p + lay.TABLE_ONLY_MISSES]:
        return
    elif line != s[record + R_LAST]:
        step = 1 if line > s[record + R_LAST] else -1
        if step != s[record + R_STEP] and s[record + R_RUN] > 1:
            s[record + R_RUN] = 1
        s[record + R_STEP] = step
    s[record + R_RUN] += 1
    s[record + R_LAST] = line
    row = min(s[record + R_RUN] - c[p + lay.TABLE_TRIGGER], c[p + lay.TABLE_LINES] - 1)
    if row < 0 or (c[p + lay.TABLE_ONLY_MISSES] and not s[lay.S_SEEN_MISSES]):
        return
    for k in range(lay.MOST_NUMBERS):
        ahead = c[p + lay.TABLE_LINES + 1 + row * lay.MOST_NUMBERS + k] * s[record + R_STEP]
        if ahead != 0 and may_go(c, s, p, line, line + ahead):
            hand_out(c, s, line + ahead)
