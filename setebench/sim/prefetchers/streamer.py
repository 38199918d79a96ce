"""The streamer of the paper (sections 5.3 and 6, after Srinath et al. 2007): see `spec.Streamer` for the rules.

Each record follows one stream. It is in training until `trigger` misses of its 4 KiB page went one way; then it is
active and owns the lines from the first one it fetched up to `R_NEXT`, the line at which the next batch starts.

Behind the records lies what feedback needs: how far ahead streams go now, and how many lines were fetched and used
since the last decision. Lines count as used when an access of their stream comes to them.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import claim, find_record, next_match, record_at, use
from setebench.sim.prefetchers.common import goes, hand_out, may_go

STREAM = lay.KINDS.index(spec.Streamer)
BY_BATCH, BY_NEW_LINE = 0, 1
ANY_ORDER = 1
(R_DIRECTION, R_COUNT, R_NEEDED, R_LAST, R_ACTIVE, R_FIRST, R_NEXT, R_BATCHES, R_WORDS) = range(2, 11)
(F_DISTANCE, F_FETCHED, F_USED) = range(3)
LOW, HIGH = 40, 75  # per cent of lines used, below and above which the distance changes (Srinath et al. 2007)
NEAREST, FURTHEST = 4, 64  # lines


@compiled
def _begin(c: Ints, s: Ints, p: int, record: int, line: int) -> None:
    """Start a run of misses at this line; at a page's ends only one direction is possible."""
    lines = 1 << c[lay.C_PAGE_LINES_BITS]
    at = line & (lines - 1)
    s[record + R_DIRECTION] = 0
    if at == 0:
        s[record + R_DIRECTION] = 1
    elif at == lines - 1:
        s[record + R_DIRECTION] = -1
    s[record + R_COUNT] = 1
    edges = p + lay.STREAM_TRIGGER_AT_PAGE_EDGE
    own = c[edges] > 0 and min(at, lines - 1 - at) <= 1
    s[record + R_NEEDED] = c[edges + 1 + (at if at < 2 else at + 4 - lines)] if own else c[p + lay.STREAM_TRIGGER]
    s[record + R_LAST] = line
    s[record + R_ACTIVE] = 0


@compiled
def _fetch(c: Ints, s: Ints, p: int, record: int, most: int, furthest: int) -> None:
    """The stream's next lines, at most so many, and none beyond `furthest` (a line number times the direction)."""
    step = s[record + R_DIRECTION]
    for _ in range(most):
        target = s[record + R_NEXT]
        if target * step > furthest or not may_go(c, s, p, target - step, target):
            break
        hand_out(c, s, target)
        s[record + R_NEXT] = target + step


@compiled
def _batch(c: Ints, s: Ints, p: int, record: int, line: int) -> None:
    """Fetch on in an active stream: the next batch if it starts near enough ahead of the access, or the lines of this
    access as far as they lie near enough."""
    step = s[record + R_DIRECTION]
    start = s[record + R_NEXT]
    by_batch = c[p + lay.STREAM_LEADS_BY] == BY_BATCH
    if by_batch and (start - line) * step >= s[lay.S_DISTANCE]:
        return
    batches = s[record + R_BATCHES]
    size = c[p + lay.STREAM_RAMP + 1 + batches] if batches < c[p + lay.STREAM_RAMP] else s[lay.S_DEGREE]
    s[record + R_BATCHES] += 1
    _fetch(c, s, p, record, size, lay.NEVER if by_batch else line * step + s[lay.S_DISTANCE])


@compiled
def _activate(c: Ints, s: Ints, p: int, record: int, line: int) -> None:
    """The run is long enough: the stream begins at the next line."""
    step = s[record + R_DIRECTION]
    if not goes(c, p + lay.STREAM_DIRECTIONS, step):
        return
    s[record + R_ACTIVE] = 1
    s[record + R_FIRST] = line + step
    s[record + R_NEXT] = line + step
    s[record + R_BATCHES] = 0
    _batch(c, s, p, record, line)


@compiled
def _owns(s: Ints, record: int, line: int, reach: int) -> bool:
    """Whether an active stream has fetched the line, or could fetch it within so many lines."""
    if not s[record + R_ACTIVE]:
        return False
    step = s[record + R_DIRECTION]
    return (line - s[record + R_FIRST]) * step >= 0 and (s[record + R_NEXT] - line) * step > -reach


@compiled
def _extend(c: Ints, s: Ints, p: int, record: int, line: int) -> None:
    """A miss of the record's page while it trains, or outside of what it fetched."""
    step = 1 if line > s[record + R_LAST] else -1
    if s[record + R_ACTIVE]:
        _begin(c, s, p, record, line)
    elif line != s[record + R_LAST]:
        if s[record + R_DIRECTION] in (0, step):
            s[record + R_COUNT] += 1
        else:
            s[record + R_COUNT] = 2
            s[record + R_NEEDED] = c[p + lay.STREAM_TRIGGER]
        s[record + R_DIRECTION] = step
        s[record + R_LAST] = line
    if s[record + R_COUNT] >= s[record + R_NEEDED] and s[record + R_DIRECTION] != 0:
        _activate(c, s, p, record, line)


@compiled
def _by_l1_prefetcher(c: Ints, s: Ints, p: int, record: int, line: int, first: bool) -> None:
    """A miss of a level-1 prefetcher: it says which way the stream goes, so fewer misses will do."""
    if first:
        s[record + R_DIRECTION] = 1
    elif line != s[record + R_LAST]:
        s[record + R_DIRECTION] = 1 if line > s[record + R_LAST] else -1
        s[record + R_COUNT] += 1
    s[record + R_LAST] = line
    if s[record + R_COUNT] >= c[p + lay.STREAM_TRIGGER_BY_L1_PREFETCHER]:
        _activate(c, s, p, record, line)


@compiled
def _record_for(c: Ints, s: Ints, p: int, q: int, key: int, line: int) -> tuple[int, bool]:
    """(record of the page that this miss belongs to, whether it is new)."""
    own, streams = 0, c[p + lay.STREAM_STREAMS]
    fits = -1
    other = -1
    # two streams of a page differ by nearness
    nearest = c[p + lay.STREAM_MAX_DISTANCE] if c[p + lay.STREAM_STREAMS_PER_PAGE] > 1 else lay.NEVER
    number = next_match(s, q, streams, key, 0)
    while number >= 0:
        own += 1
        other = number
        record = record_at(q, streams, R_WORDS, number)
        step = 1 if line >= s[record + R_LAST] else -1
        away = abs(line - s[record + R_LAST])
        if s[record + R_DIRECTION] in (0, step) and away <= nearest:
            nearest = away
            fits = number
        number = next_match(s, q, streams, key, number + 1)
    if fits < 0 and own >= c[p + lay.STREAM_STREAMS_PER_PAGE]:
        fits = other
    if fits >= 0:
        use(s, q, streams, fits)
        return record_at(q, streams, R_WORDS, fits), False
    record = claim(s, q, streams, R_WORDS, key)
    _begin(c, s, p, record, line)
    return record, True


@compiled
def silence(c: Ints, s: Ints, p: int, q: int) -> None:
    """A software prefetch ends every stream whose lines it wants: those fetched, and the next ones up to the stream's
    distance ahead (Fang et al. 2014, 5.3.1)."""
    if c[p + lay.P_KIND] != STREAM or not c[p + lay.STREAM_SILENCED_BY_SOFTWARE]:
        return
    streams = c[p + lay.STREAM_STREAMS]
    for number in range(streams):
        record = record_at(q, streams, R_WORDS, number)
        if _owns(s, record, s[lay.S_SEEN_LINE], c[p + lay.STREAM_MAX_DISTANCE]):
            s[record + R_ACTIVE] = 0
            s[q + number] = 0
            s[q + streams + number] = 0


@compiled
def _any_order(c: Ints, s: Ints, p: int, q: int) -> None:
    """Distinct lines of a page count: of its record R_FIRST and R_LAST are the lowest and the highest, R_BATCHES has a
    bit of each."""
    line, misses = s[lay.S_SEEN_LINE], s[lay.S_SEEN_MISSES]
    key = line >> c[lay.C_PAGE_LINES_BITS]
    bit = 1 << (line & ((1 << c[lay.C_PAGE_LINES_BITS]) - 1))
    record = find_record(s, q, c[p + lay.STREAM_STREAMS], R_WORDS, key)
    if record < 0:
        if not misses:
            return
        record = claim(s, q, c[p + lay.STREAM_STREAMS], R_WORDS, key)
        s[record + R_FIRST] = line
        s[record + R_LAST] = line
    if s[record + R_BATCHES] & bit or not (misses or s[record + R_ACTIVE]):
        return
    s[record + R_BATCHES] |= bit
    s[record + R_COUNT] += 1
    s[record + R_FIRST] = min(s[record + R_FIRST], line)
    s[record + R_LAST] = max(s[record + R_LAST], line)
    if s[record + R_COUNT] < c[p + lay.STREAM_TRIGGER]:
        return
    if not s[record + R_ACTIVE]:
        step = 1 if line == s[record + R_LAST] or line != s[record + R_FIRST] else -1
        if not goes(c, p + lay.STREAM_DIRECTIONS, step):
            return
        s[record + R_ACTIVE] = 1
        s[record + R_DIRECTION] = step
        s[record + R_NEXT] = line + step
    step = s[record + R_DIRECTION]
    if step > 0:
        s[record + R_NEXT] = max(s[record + R_NEXT], s[record + R_LAST] + 1)
    else:
        s[record + R_NEXT] = min(s[record + R_NEXT], s[record + R_FIRST] - 1)
    _fetch(c, s, p, record, c[p + lay.STREAM_DEGREE], line * step + c[p + lay.STREAM_MAX_DISTANCE])


@compiled
def _one_way(c: Ints, s: Ints, p: int, q: int) -> None:
    """Lines that an access has a streamer request that counts misses in one direction."""
    line, misses, streams = s[lay.S_SEEN_LINE], s[lay.S_SEEN_MISSES], c[p + lay.STREAM_STREAMS]
    key = line >> c[lay.C_PAGE_LINES_BITS]
    for number in range(streams):
        record = record_at(q, streams, R_WORDS, number)
        if _owns(s, record, line, 0):
            ahead = (line - s[record + R_LAST]) * s[record + R_DIRECTION] > 0
            if misses and not ahead:
                break  # fetched, used, and gone again: a new run
            if ahead:
                s[record + R_LAST] = line
                s[q + streams * R_WORDS + F_USED] += 1
            s[q + number] = key + 1
            use(s, q, streams, number)
            if c[p + lay.STREAM_LEADS_BY] == BY_NEW_LINE and not ahead:
                return
            _batch(c, s, p, record, line)
            return
    if not misses:
        return
    record, first = _record_for(c, s, p, q, key, line)
    if (
        s[lay.S_SEEN_SOURCE] == lay.BY_L1_PREFETCHER
        and c[p + lay.STREAM_TRIGGER_BY_L1_PREFETCHER] > 0
        and not s[record + R_ACTIVE]
    ):
        _by_l1_prefetcher(c, s, p, record, line, first)
        return
    _extend(c, s, p, record, line)


@compiled
def _decide(c: Ints, s: Ints, p: int, feedback: int) -> None:
    """How far ahead streams go, and by how many lines at once: further where the latest lines were of use."""
    s[lay.S_DEGREE], s[lay.S_DISTANCE] = c[p + lay.STREAM_DEGREE], c[p + lay.STREAM_MAX_DISTANCE]
    if not c[p + lay.STREAM_FEEDBACK_INTERVAL]:
        return
    distance = s[feedback + F_DISTANCE] if s[feedback + F_DISTANCE] else c[p + lay.STREAM_MAX_DISTANCE]
    fetched, used = s[feedback + F_FETCHED], s[feedback + F_USED]
    if fetched >= c[p + lay.STREAM_FEEDBACK_INTERVAL]:
        if used * 100 > HIGH * fetched:
            distance = min(2 * distance, FURTHEST)
        elif used * 100 < LOW * fetched:
            distance = max(distance // 2, NEAREST)
        s[feedback + F_FETCHED] = 0
        s[feedback + F_USED] = 0
    s[feedback + F_DISTANCE] = distance
    s[lay.S_DEGREE], s[lay.S_DISTANCE] = min(max(distance // 8, 1), 4), distance


@compiled
def train_streamer(c: Ints, s: Ints, p: int, q: int) -> None:
    """Lines that an access has the streamer request; see the module's text."""
    if c[p + lay.STREAM_COUNTS] == ANY_ORDER:
        _any_order(c, s, p, q)
        return
    feedback, before = q + c[p + lay.STREAM_STREAMS] * R_WORDS, s[lay.S_WANTED]
    _decide(c, s, p, feedback)
    _one_way(c, s, p, q)
    s[feedback + F_FETCHED] += s[lay.S_WANTED] - before
