"""Which set of a level a physical line belongs to, where that is more than bits of its number: a hash, a slice, or the
remainder of a number of sets that is no power of two."""

from __future__ import annotations

import numpy as np

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled

SLICE_MASKS = (0x1B5F575440 >> 6, 0x2EB5FAA880 >> 6, 0x3CCCC93100 >> 6)
"""Bits of a line number whose parity is one bit of the slice's number, for 2, 4 and 8 slices (Maurice et al., RAID
2015: last-level caches of Sandy Bridge to Haswell)."""

LARGEST_BY_PARITY = 1 << len(SLICE_MASKS)


@compiled
def slice_of(line: int, slices: int) -> int:
    """The slice of a physical line. Other numbers than 2, 4 and 8 have functions too long for a formula (McCalpin,
    TACC TR-2021-03): a mix of all bits stands for them, which spreads lines as evenly."""
    if slices <= LARGEST_BY_PARITY and not slices & (slices - 1):
        number = 0
        for bit in range(3):
            if slices >> bit > 1:
                chosen = line & SLICE_MASKS[bit]
                for shift in (32, 16, 8, 4, 2, 1):
                    chosen ^= chosen >> shift
                number |= (chosen & 1) << bit
        return number
    mixed = np.uint64(line)
    mixed ^= mixed >> np.uint64(15)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return int(np.int64(mixed >> np.uint64(33))) % slices


@compiled
def hashed_set(c: Ints, v: int, line: int) -> int:
    """The set of a physical line in a level whose record begins at v, its slices' sets one slice after the other."""
    bits = c[v + lay.L_SET_BITS]
    mask = (1 << bits) - 1
    own = c[v + lay.L_SLICE_SETS]
    if c[v + lay.L_INDEX] >= lay.BY_SLICE:
        inside = line % own if own & (own - 1) else line & mask
        return inside if c[v + lay.L_INDEX] == lay.BY_REMAINDER else slice_of(line, c[v + lay.L_SLICES]) * own + inside
    return (line ^ (line >> bits) ^ (line >> (2 * bits))) & mask
