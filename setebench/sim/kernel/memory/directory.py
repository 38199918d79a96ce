"""The directory of a third level that doesn't hold what private caches hold: a table of their lines that may be full.

A line that loses its place there leaves the private caches, as one that an inclusive level loses would (Yan et al.,
IEEE S&P 2019). Lines that private caches lose by themselves keep their places, as their caches say nothing of clean
ones.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.memory.caches import drop_private, physical_line, write_back_to_l3


@compiled
def _leave(c: Ints, s: Ints, core: int, line: int, t: int) -> None:
    """Take a line that has lost its place out of all private caches; modified data go down."""
    dirty = 0
    for other in range(c[lay.C_CORES]):
        if (s[lay.S_ACTIVE] >> other) & 1:
            dirty |= drop_private(c, s, other, line)
    if dirty:
        write_back_to_l3(c, s, core, line, lay.DIRTY, t)


@compiled
def enter_directory(c: Ints, s: Ints, core: int, line: int, t: int) -> None:
    """Note that a private cache gets a line at t."""
    v = lay.C_LEVEL + 2 * lay.L_WORDS
    bits = c[v + lay.L_DIRECTORY_BITS]
    where = physical_line(c, s, line)
    where = (where ^ (where >> bits) ^ (where >> (2 * bits))) & ((1 << bits) - 1)
    ways = c[v + lay.L_DIRECTORY_WAYS]
    first = c[v + lay.L_DIRECTORY] + where * 2 * ways
    place = first
    for at in range(first, first + 2 * ways, 2):
        if s[at] == line + 1:
            place = at
            break
        if s[at + 1] < s[place + 1]:
            place = at
    gone = s[place] - 1
    s[place] = line + 1
    s[lay.S_STAMP] += 1
    s[place + 1] = s[lay.S_STAMP]
    if gone >= 0 and gone != line:
        _leave(c, s, core, gone, t)
