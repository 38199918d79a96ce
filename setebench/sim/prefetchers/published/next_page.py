"""Next page: see `spec.NextPage`."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import C_PAGE_LINES_BITS, P_OWN, S_SEEN_LINE
from setebench.sim.prefetchers.common import claim, find_record, hand_out, page_key, use

(N_TRIGGER, N_REACH, N_DEGREE, N_PAGES) = range(P_OWN, P_OWN + 4)
(R_LAST, R_STEP, R_RUN, R_DONE, R_WORDS) = range(2, 7)
NEAR = 2
"""Accesses of one run lie at most so many lines apart."""


def next_page_settings(kind: spec.NextPage, _page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    return [kind.trigger, kind.reach, kind.degree, kind.pages], kind.pages * R_WORDS


@compiled
def train_next_page(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """The next page's first lines, once, when a run of the page comes near the end that it goes to."""
    line, lines = s[S_SEEN_LINE], 1 << c[C_PAGE_LINES_BITS]
    key = page_key(c, s, line)
    record = find_record(s, q, c[p + N_PAGES], R_WORDS, key)
    if record < 0:
        record = claim(s, q, c[p + N_PAGES], R_WORDS, key)
        s[record + R_LAST] = line
        s[record + R_RUN] = 1
        return n
    use(s, record)
    if line == s[record + R_LAST]:
        return n
    step = 1 if line > s[record + R_LAST] else -1
    near = abs(line - s[record + R_LAST]) <= NEAR
    s[record + R_RUN] = s[record + R_RUN] + 1 if near and s[record + R_STEP] in (0, step) else (2 if near else 1)
    s[record + R_STEP] = step if near else 0
    s[record + R_LAST] = line
    place = line & (lines - 1)
    left = lines - 1 - place if step > 0 else place
    if s[record + R_DONE] or s[record + R_RUN] < c[p + N_TRIGGER] or left >= c[p + N_REACH]:
        return n
    s[record + R_DONE] = 1
    first = line + (left + 1) * step
    for k in range(c[p + N_DEGREE]):
        if first + k * step >= 0:
            n = hand_out(c, s, n, first + k * step)
    return n
