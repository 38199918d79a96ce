"""Next lines and line pair."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import record_for
from setebench.sim.prefetchers.common import hand_out, next_lines

R_COUNT, R_WORDS = 2, 3


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
