"""Spatial patterns: see `spec.SpatialPattern`.

State: a table of regions whose visit is being recorded, then a table of visits. Footprints have a bit for every line of
a region, from its first on.
"""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN, S_SEEN_IP, S_SEEN_LINE
from setebench.sim.prefetchers.common import claim, find_record, hand_out, may_go, use

(V_LINES, V_ACTIVE, V_VISITS, V_VOTE, V_IP_MASK) = range(P_OWN, P_OWN + 5)
(A_EVENT, A_BEGAN, A_TOUCHED, A_WORDS) = range(2, 6)
(H_EVENT, H_TOUCHED, H_WORDS) = range(2, 5)
PLACES = 64  # lines of the largest region


def spatial_settings(kind: spec.SpatialPattern, page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    lines = max(kind.region_size_bytes * page_lines // 4096, 1)
    own = [lines, kind.active_regions, kind.entries, kind.vote_percent, (1 << kind.ip_bits) - 1]
    return own, kind.active_regions * A_WORDS + kind.entries * H_WORDS


@compiled
def _same_place(s: Ints, record: int, event: int, line: int) -> bool:
    """Whether a visit began with this instruction at this very line. A visit's key is the line, plus one."""
    return s[record] == line + 1 and s[record + H_EVENT] == event


@compiled
def _keep(c: Ints, s: Ints, p: int, q: int, active: int) -> None:
    """A region leaves the table of active ones: its visit is remembered if it touched more than one line."""
    touched, event, line = s[active + A_TOUCHED], s[active + A_EVENT], s[active + A_BEGAN]
    if touched & (touched - 1) == 0:
        return
    table = q + c[p + V_ACTIVE] * A_WORDS
    kept = -1
    for i in range(c[p + V_VISITS]):
        if _same_place(s, table + i * H_WORDS, event, line):
            kept = table + i * H_WORDS
    if kept < 0:
        kept = claim(s, table, c[p + V_VISITS], H_WORDS, line)
    use(s, kept)
    s[kept + H_EVENT] = event
    s[kept + H_TOUCHED] = touched


@compiled
def _touched(c: Ints, s: Ints, p: int, table: int, event: int, place: int) -> int:
    """How many of the visits that began with this event touched this line of the region; any line where it is -1."""
    visits = 0
    for i in range(c[p + V_VISITS]):
        record = table + i * H_WORDS
        if s[record] > 0 and s[record + H_EVENT] == event:
            visits += 1 if place < 0 else (s[record + H_TOUCHED] >> place) & 1
    return visits


@compiled
def _recall(c: Ints, s: Ints, p: int, q: int, event: int, n: int) -> int:
    """The lines of the region that such visits touched: those that began at this line, else those at its place."""
    line, lines = s[S_SEEN_LINE], c[p + V_LINES]
    table = q + c[p + V_ACTIVE] * A_WORDS
    exact = -1
    for i in range(c[p + V_VISITS]):
        if _same_place(s, table + i * H_WORDS, event, line):
            exact = table + i * H_WORDS
    first = line - line % lines
    visits = _touched(c, s, p, table, event, -1)
    if visits == 0:
        return n
    for place in range(lines):
        if exact >= 0:
            wanted = (s[exact + H_TOUCHED] >> place) & 1 == 1
        else:
            wanted = _touched(c, s, p, table, event, place) * 100 >= c[p + V_VOTE] * visits
        if wanted and first + place != line and may_go(c, s, p, line, first + place):
            n = hand_out(c, s, n, first + place)
    return n


@compiled
def train_spatial(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Record the access in its region's visit, or begin a visit with what earlier ones touched."""
    line, lines = s[S_SEEN_LINE], c[p + V_LINES]
    place = line % lines
    active = find_record(s, q, c[p + V_ACTIVE], A_WORDS, line // lines)
    if active >= 0:
        use(s, active)
        s[active + A_TOUCHED] |= 1 << place
        return n
    oldest = q
    for i in range(1, c[p + V_ACTIVE]):
        if s[q + i * A_WORDS + 1] < s[oldest + 1]:
            oldest = q + i * A_WORDS
    if s[oldest] > 0:
        _keep(c, s, p, q, oldest)
    event = (s[S_SEEN_IP] & c[p + V_IP_MASK]) * PLACES + place
    active = claim(s, q, c[p + V_ACTIVE], A_WORDS, line // lines)
    s[active + A_EVENT] = event
    s[active + A_BEGAN] = line
    s[active + A_TOUCHED] = 1 << place
    return _recall(c, s, p, q, event, n)
