"""Stream buffers: see `spec.StreamBuffer`.

A buffer's key only says that it is in use; it holds the lines from `R_HEAD` to the one before `R_NEXT`.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.prefetchers.common import claim, find_record, hand_out, may_go, use

(R_HEAD, R_NEXT, R_WORDS) = range(2, 5)
RECENT, RECENT_WORDS = 8, 2
"""Misses that the filter remembers."""


@compiled
def _refill(c: Ints, s: Ints, p: int, record: int, n: int) -> int:
    """Fetch lines until the buffer is full again."""
    while s[record + R_NEXT] - s[record + R_HEAD] < c[p + lay.STREAM_BUFFER_DEPTH]:
        target = s[record + R_NEXT]
        if not may_go(c, s, p, target - 1, target):
            break
        n = hand_out(c, s, n, target)
        s[record + R_NEXT] = target + 1
    return n


@compiled
def _passes(c: Ints, s: Ints, p: int, q: int, line: int) -> bool:
    """Whether a miss may take a buffer: with a filter the line before must have missed not long ago."""
    if not c[p + lay.STREAM_BUFFER_FILTER]:
        return True
    recent = q + c[p + lay.STREAM_BUFFER_BUFFERS] * R_WORDS
    before = find_record(s, recent, RECENT, RECENT_WORDS, line - 1)
    if before >= 0:
        s[before] = 0
        s[before + 1] = 0
        return True
    if find_record(s, recent, RECENT, RECENT_WORDS, line) < 0:
        claim(s, recent, RECENT, RECENT_WORDS, line)
    return False


@compiled
def train_stream_buffer(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Move on the buffer that holds the line, or give a miss a buffer of its own."""
    line = s[lay.S_SEEN_LINE]
    for i in range(c[p + lay.STREAM_BUFFER_BUFFERS]):
        record = q + i * R_WORDS
        if s[record] and line == s[record + R_HEAD] and line < s[record + R_NEXT]:
            use(s, record)
            s[record + R_HEAD] = line + 1
            return _refill(c, s, p, record, n)
    if not s[lay.S_SEEN_MISSES] or not _passes(c, s, p, q, line):
        return n
    record = claim(s, q, c[p + lay.STREAM_BUFFER_BUFFERS], R_WORDS, 0)
    s[record + R_HEAD] = line + 1
    s[record + R_NEXT] = line + 1
    return _refill(c, s, p, record, n)
