"""Access map pattern matching: see `spec.AccessMap`. A page with more than 64 lines has a map for each 64 of them."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN, S_SEEN_LINE
from setebench.sim.prefetchers.common import claim, find_record, hand_out, use

(M_MAPS, M_DEGREE, M_STRIDE, M_ZONE) = range(P_OWN, P_OWN + 4)
(R_ACCESSED, R_FETCHED, R_WORDS) = range(2, 5)
MOST_LINES = 64


def access_map_settings(kind: spec.AccessMap, page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    own = [kind.maps, kind.degree, kind.max_stride, min(page_lines, MOST_LINES)]
    return own, kind.maps * R_WORDS


@compiled
def _accessed(s: Ints, record: int, zone: int, place: int) -> bool:
    return 0 <= place < zone and (s[record + R_ACCESSED] >> place) & 1 == 1


@compiled
def _new(s: Ints, record: int, zone: int, place: int) -> bool:
    """Whether a line of the zone was neither accessed nor fetched."""
    return 0 <= place < zone and ((s[record + R_ACCESSED] | s[record + R_FETCHED]) >> place) & 1 == 0


@compiled
def train_access_map(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Note the access in its map, and fetch the lines that go on with a stride seen in it."""
    line, zone = s[S_SEEN_LINE], c[p + M_ZONE]
    place = line % zone
    record = find_record(s, q, c[p + M_MAPS], R_WORDS, line // zone)
    if record < 0:
        record = claim(s, q, c[p + M_MAPS], R_WORDS, line // zone)
    use(s, record)
    s[record + R_ACCESSED] |= 1 << place
    left = c[p + M_DEGREE]
    for stride in range(1, c[p + M_STRIDE] + 1):
        for way in range(2):
            step = stride if way == 0 else -stride
            if left == 0 or not _new(s, record, zone, place + step):
                continue
            if _accessed(s, record, zone, place - step) and _accessed(s, record, zone, place - 2 * step):
                s[record + R_FETCHED] |= 1 << (place + step)
                n = hand_out(c, s, n, line + step)
                left -= 1
    return n
