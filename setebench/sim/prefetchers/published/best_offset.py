"""Best-offset prefetching: see `spec.BestOffset`.

State: the offset in use less one (so that zeros mean the next line) and whether it is out of use, where in the list of
offsets and in which round learning is, scores by offset, recent addresses.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.prefetchers.common import hand_out, may_go

MOST_SCORE, BAD_SCORE = 31, 1  # of an offset that ends learning; of the best that is not used (Michaud)
MOST_OFFSET = 63
SMOOTH = 30**6  # a multiple of every offset whose prime factors are 2, 3 and 5, and of no other
(R_OFFSET, R_OFF, R_TESTED, R_ROUND, R_SCORES) = range(5)
R_RECENT = R_SCORES + MOST_OFFSET + 1


@compiled
def _after(offset: int, most: int) -> int:
    """The next larger offset in the list, `most` + 1 behind the last."""
    offset += 1
    while offset <= most and SMOOTH % offset:
        offset += 1
    return offset


@compiled
def _recent(c: Ints, p: int, q: int, line: int) -> int:
    """Where a line stands if it was accessed not long ago."""
    return q + R_RECENT + ((line ^ (line >> 8)) & (c[p + lay.BEST_OFFSET_RECENT_ENTRIES] - 1))


@compiled
def _learn(c: Ints, s: Ints, p: int, q: int, line: int) -> None:
    """Test the next offset of the list. A round's end may be that of learning: then the offset with the best score, the
    smallest of several, is used, and scores begin anew."""
    most, scores = c[p + lay.BEST_OFFSET_MAX_OFFSET], q + R_SCORES
    offset = _after(s[q + R_TESTED], most)
    if s[_recent(c, p, q, line - offset)] == line - offset + 1:
        s[scores + offset] += 1
    s[q + R_TESTED] = offset
    if _after(offset, most) <= most:
        return
    s[q + R_TESTED] = 0
    s[q + R_ROUND] += 1
    best = 1
    for tried in range(1, most + 1):
        if s[scores + tried] > s[scores + best]:
            best = tried
    if s[scores + best] < MOST_SCORE and s[q + R_ROUND] < c[p + lay.BEST_OFFSET_ROUND_MAX]:
        return
    s[q + R_OFFSET] = best - 1
    s[q + R_OFF] = 1 if s[scores + best] <= BAD_SCORE else 0
    for tried in range(1, most + 1):
        s[scores + tried] = 0
    s[q + R_ROUND] = 0


@compiled
def train_best_offset(c: Ints, s: Ints, p: int, q: int) -> None:
    """Learn from the access, then fetch the line at the offset in use."""
    line = s[lay.S_SEEN_LINE]
    _learn(c, s, p, q, line)
    s[_recent(c, p, q, line)] = line + 1
    target = line + s[q + R_OFFSET] + 1
    if not s[q + R_OFF] and may_go(c, s, p, line, target):
        hand_out(c, s, target)
