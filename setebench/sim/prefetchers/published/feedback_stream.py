"""Feedback-directed prefetching: see `spec.FeedbackStream`.

State: by how much the level differs from the one at first, lines fetched and used since the last decision, then the
streams. Prefetches count as used when an access of their stream comes to them.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.prefetchers.common import claim, hand_out, may_go, use

LOW, HIGH = 40, 75  # per cent of lines used in time, below and above which the level changes, as in the paper
(R_RAISED, R_FETCHED, R_USED, R_STREAMS) = range(4)
(M_STEP, M_COUNT, M_LAST, M_NEXT, M_WORDS) = range(2, 7)  # M_COUNT 0: no longer in training
WINDOW = 16
"""Misses of one run lie at most so many lines apart while a stream is in training, as in the paper."""
LEVELS = 5


@compiled
def _level(c: Ints, s: Ints, p: int, q: int) -> int:
    return c[p + lay.FEEDBACK_STREAM_START_LEVEL] + s[q + R_RAISED]


@compiled
def _decide(c: Ints, s: Ints, p: int, q: int) -> None:
    """Raise or lower the level by what became of the latest prefetches."""
    if s[q + R_FETCHED] < c[p + lay.FEEDBACK_STREAM_INTERVAL]:
        return
    if s[q + R_USED] * 100 > HIGH * s[q + R_FETCHED] and _level(c, s, p, q) < LEVELS:
        s[q + R_RAISED] += 1
    elif s[q + R_USED] * 100 < LOW * s[q + R_FETCHED] and _level(c, s, p, q) > 1:
        s[q + R_RAISED] -= 1
    s[q + R_FETCHED] = 0
    s[q + R_USED] = 0


@compiled
def _go_on(c: Ints, s: Ints, p: int, q: int, stream: int, n: int) -> int:
    """Fetch the stream's next lines, as many and as far ahead as the level says."""
    level, step, line = _level(c, s, p, q), s[stream + M_STEP], s[lay.S_SEEN_LINE]
    distance = 4 << (level - 1)
    degree = 1 if level < 3 else 2 if level == 3 else 4
    for _ in range(degree):
        target = s[stream + M_NEXT]
        if (target - line) * step > distance or not may_go(c, s, p, target - step, target):
            break
        n = hand_out(c, s, n, target)
        s[stream + M_NEXT] = target + step
        s[q + R_FETCHED] += 1
    return n


@compiled
def _extend(c: Ints, s: Ints, p: int, stream: int, line: int) -> bool:
    """A miss near a stream in training: one way for long enough it makes it a stream. Returns whether it does."""
    if line == s[stream + M_LAST]:
        return False
    step = 1 if line > s[stream + M_LAST] else -1
    s[stream + M_COUNT] = s[stream + M_COUNT] + 1 if s[stream + M_STEP] in (0, step) else 2
    s[stream + M_STEP] = step
    s[stream + M_LAST] = line
    if s[stream + M_COUNT] < c[p + lay.FEEDBACK_STREAM_TRIGGER]:
        return False
    s[stream + M_COUNT] = 0
    s[stream + M_NEXT] = line + step
    return True


@compiled
def train_feedback_stream(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Lines of the stream that the access belongs to, after a decision on how far to go."""
    line, streams = s[lay.S_SEEN_LINE], c[p + lay.FEEDBACK_STREAM_STREAMS]
    _decide(c, s, p, q)
    near = -1
    for i in range(streams):
        stream = q + R_STREAMS + i * M_WORDS
        if s[stream] == 0:
            continue
        step = s[stream + M_STEP]
        if s[stream + M_COUNT] == 0:
            if (line - s[stream + M_LAST]) * step > 0 and (s[stream + M_NEXT] - line) * step > 0:
                use(s, stream)
                s[stream + M_LAST] = line
                s[q + R_USED] += 1
                return _go_on(c, s, p, q, stream, n)
        elif abs(line - s[stream + M_LAST]) <= WINDOW:
            near = stream
    if not s[lay.S_SEEN_MISSES]:
        return n
    if near < 0:
        stream = claim(s, q + R_STREAMS, streams, M_WORDS, 0)
        s[stream + M_COUNT] = 1
        s[stream + M_LAST] = line
        return n
    use(s, near)
    if _extend(c, s, p, near, line):
        n = _go_on(c, s, p, q, near, n)
    return n
