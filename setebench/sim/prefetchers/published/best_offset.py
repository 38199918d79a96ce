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
(R_OFFSET, R_OFF, R_TESTED, R_ROUND, R_SCORES) = range(5)
R_RECENT = R_SCORES + MOST_OFFSET + 1


@compiled
def _after(offset: int, most: int) -> int:
    """The next larger offset in the list, `most` + 1 behind the last."""
    while offset < most:
        offset += 1
        rest = offset
        while rest % 2 == 0:
            rest //= 2
        while rest % 3 == 0:
            rest //= 3
        while rest % 5 == 0:
            rest //= 5
        if rest == 1:
            return offset
    return most + 1


@compiled
def _recent(c: Ints, p: int, q: int, line: int) -> int:
    """Where a line stands if it was accessed not long ago."""
    return q + R_RECENT + ((line ^ (line >> 8)) & (c[p + lay.BEST_OFFSET_RECENT_ENTRIES] - 1))


@compiled
def _choose(c: Ints, s: Ints, p: int, q: int) -> None:
    """Use the offset with the best score, the smallest of several, and learn anew."""
    best = 1
    for offset in range(1, c[p + lay.BEST_OFFSET_MAX_OFFSET] + 1):
        if s[q + R_SCORES + offset] > s[q + R_SCORES + best]:
            best = offset
    s[q + R_OFFSET] = best - 1
    s[q + R_OFF] = 1 if s[q + R_SCORES + best] <= BAD_SCORE else 0
    for offset in range(1, c[p + lay.BEST_OFFSET_MAX_OFFSET] + 1):
        s[q + R_SCORES + offset] = 0
    s[q + R_ROUND] = 0


@compiled
def _learn(c: Ints, s: Ints, p: int, q: int, line: int) -> None:
    """Test the next offset of the list; a round's end may be that of learning."""
    offset = _after(s[q + R_TESTED], c[p + lay.BEST_OFFSET_MAX_OFFSET])
    if s[_recent(c, p, q, line - offset)] == line - offset + 1:
        s[q + R_SCORES + offset] += 1
    s[q + R_TESTED] = offset
    if _after(offset, c[p + lay.BEST_OFFSET_MAX_OFFSET]) <= c[p + lay.BEST_OFFSET_MAX_OFFSET]:
        return
    s[q + R_TESTED] = 0
    s[q + R_ROUND] += 1
    ends = s[q + R_ROUND] >= c[p + lay.BEST_OFFSET_ROUND_MAX]
    for tried in range(1, c[p + lay.BEST_OFFSET_MAX_OFFSET] + 1):
        ends = ends or s[q + R_SCORES + tried] >= MOST_SCORE
    if ends:
        _choose(c, s, p, q)


@compiled
def train_best_offset(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Learn from the access, then fetch the line at the offset in use."""
    line = s[lay.S_SEEN_LINE]
    _learn(c, s, p, q, line)
    s[_recent(c, p, q, line)] = line + 1
    target = line + s[q + R_OFFSET] + 1
    if not s[q + R_OFF] and may_go(c, s, p, line, target):
        n = hand_out(c, s, n, target)
    return n
