"""Signature path prefetching: see `spec.SignaturePath`.

State: a table of pages (signature, last line), then the patterns: for each signature how often it was seen, and four
distances with how often each followed. A distance is kept plus BIAS, so that zero means none.
"""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.layout import P_OWN, S_SEEN_LINE
from setebench.sim.prefetchers.common import claim, find_record, hand_out, may_go, page_key, use

(G_PAGES, G_PATTERNS, G_THRESHOLD, G_TRUST, G_DEPTH) = range(P_OWN, P_OWN + 5)
(R_SIGNATURE, R_LAST, R_WORDS) = range(2, 5)
WAYS, BIAS = 4, 256
(W_SEEN, W_DELTAS) = range(2)
W_COUNTS = W_DELTAS + WAYS
W_WORDS = W_COUNTS + WAYS
SIGNATURE_MASK, SIGNATURE_SHIFT, MOST_COUNT = (1 << 12) - 1, 3, 15


def signature_path_settings(kind: spec.SignaturePath, _page_lines: int) -> tuple[list[int], int]:
    """The kind's own configuration words and how many words of state it needs."""
    own = [kind.pages, kind.patterns, kind.threshold_percent, kind.trust_percent, kind.max_depth]
    return own, kind.pages * R_WORDS + kind.patterns * W_WORDS


@compiled
def _signature(old: int, delta: int) -> int:
    """The signature after one more distance, which has seven bits with its sign in the highest."""
    coded = delta & 63 if delta > 0 else 64 | (-delta & 63)
    return ((old << SIGNATURE_SHIFT) ^ coded) & SIGNATURE_MASK


@compiled
def _pattern(c: Ints, p: int, q: int, signature: int) -> int:
    """Where a signature's pattern lies."""
    return q + c[p + G_PAGES] * R_WORDS + (signature & (c[p + G_PATTERNS] - 1)) * W_WORDS


@compiled
def _learn(s: Ints, pattern: int, delta: int) -> None:
    """Count a distance after a signature."""
    place = 0
    for way in range(WAYS):
        if s[pattern + W_DELTAS + way] == delta + BIAS:
            place = way
            break
        if s[pattern + W_COUNTS + way] < s[pattern + W_COUNTS + place]:
            place = way
    if s[pattern + W_DELTAS + place] != delta + BIAS:
        s[pattern + W_DELTAS + place] = delta + BIAS
        s[pattern + W_COUNTS + place] = 0
    s[pattern + W_SEEN] += 1
    s[pattern + W_COUNTS + place] += 1
    if s[pattern + W_SEEN] > MOST_COUNT:
        s[pattern + W_SEEN] //= 2
        for way in range(WAYS):
            s[pattern + W_COUNTS + way] //= 2


@compiled
def _follow(c: Ints, s: Ints, p: int, q: int, signature: int, n: int) -> int:
    """Fetch what the signature predicts, and what the signatures then do, while confidence (in 1/10,000) lasts."""
    base, confidence = s[S_SEEN_LINE], 10000
    least = c[p + G_THRESHOLD] * 100
    for _ in range(c[p + G_DEPTH]):
        pattern = _pattern(c, p, q, signature)
        if s[pattern + W_SEEN] == 0:
            break
        best, best_confidence = 0, 0
        for way in range(WAYS):
            if s[pattern + W_COUNTS + way] == 0:
                continue
            delta = s[pattern + W_DELTAS + way] - BIAS
            own = confidence * s[pattern + W_COUNTS + way] // s[pattern + W_SEEN]
            if own >= least and may_go(c, s, p, base, base + delta):
                n = hand_out(c, s, n, base + delta)
            if own > best_confidence:
                best, best_confidence = delta, own
        confidence = best_confidence * c[p + G_TRUST] // 100
        if best_confidence < least or not may_go(c, s, p, base, base + best):
            break
        base += best
        signature = _signature(signature, best)
    return n


@compiled
def train_signature_path(c: Ints, s: Ints, p: int, q: int, n: int) -> int:
    """Learn the distance after the page's signature, and follow the new one."""
    line = s[S_SEEN_LINE]
    key = page_key(c, s, line)
    page = find_record(s, q, c[p + G_PAGES], R_WORDS, key)
    if page < 0:
        page = claim(s, q, c[p + G_PAGES], R_WORDS, key)
        s[page + R_LAST] = line
        return n
    use(s, page)
    delta = line - s[page + R_LAST]
    if delta == 0:
        return n
    _learn(s, _pattern(c, p, q, s[page + R_SIGNATURE]), delta)
    s[page + R_SIGNATURE] = _signature(s[page + R_SIGNATURE], delta)
    s[page + R_LAST] = line
    return _follow(c, s, p, q, s[page + R_SIGNATURE], n)
