"""Next line and line pair."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN
from setebench.sim.prefetchers.common import claim, find_record, hand_out, may_go, use

N_TRIGGER, N_ONLY_MISSES, N_STREAMS = P_OWN, P_OWN + 1, P_OWN + 2
R_COUNT, R_WORDS = 2, 3


def next_line_settings(kind: spec.NextLine, _page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    return [kind.trigger, int(kind.only_misses), kind.streams], kind.streams * R_WORDS


def pair_settings(_kind: spec.LinePair, _page_lines: int) -> tuple[list[int], int]:
    """As above: a pair prefetcher has neither settings of its own nor state."""
    return [], 0


@compiled
def train_next_line(c: Ints, s: Ints, p: int, q: int, key_line: int, line: int, misses: bool, n: int) -> int:
    """The next line, once a line was accessed `trigger` times. `key_line` carries the SMT thread where that counts."""
    if c[p + N_ONLY_MISSES] and not misses:
        return n
    trigger = c[p + N_TRIGGER]
    if trigger > 1:
        record = find_record(s, q, c[p + N_STREAMS], R_WORDS, key_line)
        if record < 0:
            record = claim(s, q, c[p + N_STREAMS], R_WORDS, key_line)
        use(s, record)
        s[record + R_COUNT] += 1
        if s[record + R_COUNT] != trigger:
            return n
    if may_go(c, s, p, line, line + 1):
        n = hand_out(c, s, n, line + 1)
    return n


@compiled
def train_pair(c: Ints, s: Ints, line: int, misses: bool, n: int) -> int:
    """The other line of the aligned pair, on a miss."""
    return hand_out(c, s, n, line ^ 1) if misses else n
