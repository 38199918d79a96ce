"""Next lines, line pair, and the line up or down."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import record_for
from setebench.sim.prefetchers.common import hand_out, next_lines

R_COUNT, R_WORDS = 2, 3
(R_LAST, R_STEP, R_TURN_WORDS) = range(2, 5)


@compiled
def train_next_line(c: Ints, s: Ints, p: int, q: int) -> None:
    """The next lines, once a line was accessed `trigger` times."""
    if c[p + lay.NEXT_LINE_ONLY_MISSES] and not s[lay.S_SEEN_MISSES]:
        return
    line, trigger = s[lay.S_SEEN_LINE], c[p + lay.NEXT_LINE_TRIGGER]
    if trigger > 1:
        record = record_for(s, q, c[p + lay.NEXT_LINE_STREAMS], R_WORDS, line)
        s[record + R_COUNT] += 1
        if s[record + R_COUNT] != trigger:
            return
    next_lines(c, s, p, 1, c[p + lay.NEXT_LINE_DEGREE])


@compiled
def train_pair(c: Ints, s: Ints, p: int, q: int) -> None:
    """The other line of the aligned pair, on a miss."""
    if s[lay.S_SEEN_MISSES]:
        hand_out(c, s, s[lay.S_SEEN_LINE] ^ 1)


@compiled
def train_up_down(c: Ints, s: Ints, p: int, q: int) -> None:
    """On a miss the next line in the direction of the page's latest two accesses, upwards after the first one."""
    line = s[lay.S_SEEN_LINE]
    record = record_for(s, q, c[p + lay.UP_DOWN_STREAMS], R_TURN_WORDS, line >> c[lay.C_PAGE_LINES_BITS])
    if s[record + R_STEP] == 0:
        s[record + R_STEP] = 1
    elif line != s[record + R_LAST]:
        s[record + R_STEP] = 1 if line > s[record + R_LAST] else -1
    s[record + R_LAST] = line
    if s[lay.S_SEEN_MISSES]:
        next_lines(c, s, p, s[record + R_STEP], 1)
