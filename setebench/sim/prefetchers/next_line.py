"""Next lines and line pair."""

from __future__ import annotations

from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN, S_SEEN_LINE, S_SEEN_MISSES
from setebench.sim.prefetchers.common import hand_out, may_go, record_for

(N_TRIGGER, N_ONLY_MISSES, N_STREAMS, N_DEGREE) = range(P_OWN, P_OWN + 4)
R_COUNT, R_WORDS = 2, 3


@compiled
def train_next_line(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """The next lines, once a line was accessed `trigger` times."""
    if c[p + N_ONLY_MISSES] and not s[S_SEEN_MISSES]:
        return n
    line, trigger = s[S_SEEN_LINE], c[p + N_TRIGGER]
    if trigger > 1:
        record = record_for(s, q, c[p + N_STREAMS], R_WORDS, line)
        s[record + R_COUNT] += 1
        if s[record + R_COUNT] != trigger:
            return n
    for target in range(line + 1, line + 1 + c[p + N_DEGREE]):
        if not may_go(c, s, p, line, target):
            break
        n = hand_out(c, s, n, target)
    return n


@compiled
def train_pair(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """The other line of the aligned pair, on a miss."""
    return hand_out(c, s, n, s[S_SEEN_LINE] ^ 1) if s[S_SEEN_MISSES] else n
