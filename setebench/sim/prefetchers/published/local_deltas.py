"""Deltas of one instruction: see `spec.LocalDeltas`.

A record of an instruction: accesses so far (modulo what it learns over, and in all), its latest lines, candidate deltas
with their counts, and the deltas in use.
"""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN, S_SEEN_IP, S_SEEN_LINE
from setebench.sim.prefetchers.common import claim, find_record, hand_out, may_go, use

(D_INSTRUCTIONS, D_HISTORY, D_BEFORE, D_OVER, D_COVERAGE, D_DEGREE) = range(P_OWN, P_OWN + 6)
MOST_HISTORY, CANDIDATES, MOST_DEGREE = 16, 16, 8
(R_SEEN, R_ACCESSES, R_LINES) = range(2, 5)
R_DELTAS = R_LINES + MOST_HISTORY
R_COUNTS = R_DELTAS + CANDIDATES
R_USED = R_COUNTS + CANDIDATES
R_WORDS = R_USED + MOST_DEGREE
LARGEST = 63
"""Distances beyond a page's lines are not counted, as in the paper's entries of seven bits."""


def local_deltas_settings(kind: spec.LocalDeltas, _page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    own = [kind.instructions, kind.history, kind.not_before, kind.learns_over, kind.coverage_percent, kind.degree]
    return own, kind.instructions * R_WORDS


@compiled
def _count_delta(s: Ints, record: int, delta: int) -> None:
    """One more access that this distance would have fetched; the one with the fewest gives way to a new one."""
    least = 0
    for i in range(CANDIDATES):
        if s[record + R_DELTAS + i] == delta:
            s[record + R_COUNTS + i] += 1
            return
        if s[record + R_COUNTS + i] < s[record + R_COUNTS + least]:
            least = i
    s[record + R_DELTAS + least] = delta
    s[record + R_COUNTS + least] = 1


@compiled
def _choose(c: Ints, s: Ints, p: int, record: int) -> None:
    """Use the deltas that held in enough of the accesses, those with the highest counts first, and count anew."""
    for k in range(MOST_DEGREE):
        s[record + R_USED + k] = 0
    for k in range(c[p + D_DEGREE]):
        best = 0
        for i in range(1, CANDIDATES):
            if s[record + R_COUNTS + i] > s[record + R_COUNTS + best]:
                best = i
        if s[record + R_COUNTS + best] * 100 < c[p + D_COVERAGE] * c[p + D_OVER]:
            break
        s[record + R_USED + k] = s[record + R_DELTAS + best]
        s[record + R_COUNTS + best] = 0
    for i in range(CANDIDATES):
        s[record + R_DELTAS + i] = 0
        s[record + R_COUNTS + i] = 0
    s[record + R_SEEN] = 0


@compiled
def train_local_deltas(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Count the distances from the instruction's earlier accesses, and fetch at those in use."""
    line, history = s[S_SEEN_LINE], c[p + D_HISTORY]
    record = find_record(s, q, c[p + D_INSTRUCTIONS], R_WORDS, s[S_SEEN_IP])
    if record < 0:
        record = claim(s, q, c[p + D_INSTRUCTIONS], R_WORDS, s[S_SEEN_IP])
    use(s, record)
    before = s[record + R_ACCESSES]
    for back in range(c[p + D_BEFORE], min(history, before) + 1):
        delta = line - s[record + R_LINES + (before - back) % history]
        if delta != 0 and abs(delta) <= LARGEST:
            _count_delta(s, record, delta)
    s[record + R_LINES + before % history] = line
    s[record + R_ACCESSES] = before + 1
    s[record + R_SEEN] += 1
    if s[record + R_SEEN] >= c[p + D_OVER]:
        _choose(c, s, p, record)
    for k in range(c[p + D_DEGREE]):
        target = line + s[record + R_USED + k]
        if target != line and may_go(c, s, p, line, target):
            n = hand_out(c, s, n, target)
    return n
