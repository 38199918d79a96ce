"""Stream buffers: see `spec.StreamBuffer`.

A buffer's key only says that it is in use; it holds the lines from `R_HEAD` to the one before `R_NEXT`.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import claim, record_at, use
from setebench.sim.prefetchers.common import hand_out, may_go

(R_HEAD, R_NEXT, R_WORDS) = range(2, 5)


@compiled
def _refill(c: Ints, s: Ints, p: int, record: int) -> None:
    """Fetch lines until the buffer is full again."""
    while s[record + R_NEXT] - s[record + R_HEAD] < c[p + lay.STREAM_BUFFER_DEPTH]:
        target = s[record + R_NEXT]
        if not may_go(c, s, p, target - 1, target):
            break
        hand_out(c, s, target)
        s[record + R_NEXT] = target + 1


@compiled
def train_stream_buffer(c: Ints, s: Ints, p: int, q: int) -> None:
    """Move on the buffer that holds the line, or give a miss a buffer of its own."""
    line, buffers = s[lay.S_SEEN_LINE], c[p + lay.STREAM_BUFFER_BUFFERS]
    for i in range(buffers):
        record = record_at(q, buffers, R_WORDS, i)
        if s[q + i] and line == s[record + R_HEAD] and line < s[record + R_NEXT]:
            use(s, q, buffers, i)
            s[record + R_HEAD] = line + 1
            _refill(c, s, p, record)
            return
    if not s[lay.S_SEEN_MISSES]:
        return
    record = claim(s, q, buffers, R_WORDS, 0)
    s[record + R_HEAD] = line + 1
    s[record + R_NEXT] = line + 1
    _refill(c, s, p, record)
