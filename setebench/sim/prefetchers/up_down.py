"""Up/down prefetcher: on a miss the next or the previous line, whichever way the page's accesses went last."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN, S_SEEN_LINE, S_SEEN_MISSES
from setebench.sim.prefetchers.common import claim, find_record, hand_out, may_go, page_key, use

U_STREAMS = P_OWN
(R_LAST, R_STEP, R_WORDS) = range(2, 5)


def up_down_settings(kind: spec.UpDown, _page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    return [kind.streams], kind.streams * R_WORDS


@compiled
def train_up_down(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """One neighbour of a line that missed; upwards as long as a page has no history."""
    line = s[S_SEEN_LINE]
    key = page_key(c, s, line)
    record = find_record(s, q, c[p + U_STREAMS], R_WORDS, key)
    if record < 0:
        record = claim(s, q, c[p + U_STREAMS], R_WORDS, key)
        s[record + R_STEP] = 1
    elif line != s[record + R_LAST]:
        s[record + R_STEP] = 1 if line > s[record + R_LAST] else -1
    use(s, record)
    s[record + R_LAST] = line
    target = line + s[record + R_STEP]
    if s[S_SEEN_MISSES] and may_go(c, s, p, line, target):
        n = hand_out(c, s, n, target)
    return n
