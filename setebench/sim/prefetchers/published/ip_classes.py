"""Instruction-pointer classes: see `spec.InstructionClasses`.

State: a table of instructions, one of regions with the lines touched, one of distances after the latest distances of an
instruction (its signature).
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.records import record_for
from setebench.sim.prefetchers.common import hand_out, may_go, next_lines

(R_TAG, R_LAST, R_DELTA, R_SURE, R_SIGNATURE, R_WORDS) = range(6)
(D_TOUCHED, D_LAST, D_UPWARDS, D_WORDS) = range(2, 6)
SIGNATURES, P_WORDS = 128, 2
REGIONS, DENSE = 8, 75  # watched; per cent of a dense one's lines
MOST_SURE, SURE = 3, 2
REGION_BITS = 11
"""Regions of 2 KiB, as in the paper."""


@compiled
def _direction_of_dense(c: Ints, s: Ints, p: int, q: int) -> int:
    """Note the access in its region; 1 or -1 where the region is dense, by the way that it is gone through, else 0."""
    line, bits = s[lay.S_SEEN_LINE], REGION_BITS - c[lay.C_LINE_BITS]
    table = q + c[p + lay.IP_CLASSES_INSTRUCTIONS] * R_WORDS
    region = record_for(s, table, REGIONS, D_WORDS, line >> bits)
    if not s[region + D_TOUCHED]:
        s[region + D_LAST] = line
    s[region + D_TOUCHED] |= 1 << (line & ((1 << bits) - 1))
    if line != s[region + D_LAST]:
        s[region + D_UPWARDS] += 1 if line > s[region + D_LAST] else -1
    s[region + D_LAST] = line
    touched, left = 0, s[region + D_TOUCHED]
    while left != 0:
        left &= left - 1
        touched += 1
    if touched * 100 < DENSE << bits:
        return 0
    return 1 if s[region + D_UPWARDS] >= 0 else -1


@compiled
def _surer(s: Ints, at: int, delta: int) -> None:
    """A distance (word `at`) and its confidence (the word behind) after one more distance."""
    if s[at] == delta:
        s[at + 1] = min(s[at + 1] + 1, MOST_SURE)
    elif s[at + 1] > 0:
        s[at + 1] -= 1
    else:
        s[at] = delta


@compiled
def _pattern(c: Ints, p: int, q: int, signature: int) -> int:
    """Where the distance after a signature lies."""
    return q + c[p + lay.IP_CLASSES_INSTRUCTIONS] * R_WORDS + REGIONS * D_WORDS + signature * P_WORDS


@compiled
def train_ip_classes(c: Ints, s: Ints, p: int, q: int) -> None:
    """Class of the access's instruction, and what that class fetches."""
    line, ip = s[lay.S_SEEN_LINE], s[lay.S_SEEN_IP]
    dense = _direction_of_dense(c, s, p, q)
    entry = q + ((ip ^ (ip >> 10)) & (c[p + lay.IP_CLASSES_INSTRUCTIONS] - 1)) * R_WORDS
    if s[entry + R_TAG] != ip + 1:
        for k in range(R_WORDS):
            s[entry + k] = 0
        s[entry + R_TAG] = ip + 1
        s[entry + R_LAST] = line
        return
    delta = line - s[entry + R_LAST]
    s[entry + R_LAST] = line
    if delta == 0:
        return
    _surer(s, entry + R_DELTA, delta)
    _surer(s, _pattern(c, p, q, s[entry + R_SIGNATURE]), delta)
    s[entry + R_SIGNATURE] = ((s[entry + R_SIGNATURE] << 1) ^ delta) & (SIGNATURES - 1)
    if dense != 0:
        next_lines(c, s, p, dense, c[p + lay.IP_CLASSES_STREAM_DEGREE])
        return
    if s[entry + R_SURE] >= SURE:
        next_lines(c, s, p, s[entry + R_DELTA], c[p + lay.IP_CLASSES_STRIDE_DEGREE])
        return
    signature = s[entry + R_SIGNATURE]
    for _ in range(c[p + lay.IP_CLASSES_COMPLEX_DEGREE]):  # predicted distances as far as they are sure
        pattern = _pattern(c, p, q, signature)
        delta = s[pattern]
        if delta == 0 or s[pattern + 1] == 0 or not may_go(c, s, p, line, line + delta):
            break
        line += delta
        hand_out(c, s, line)
        signature = ((signature << 1) ^ delta) & (SIGNATURES - 1)
