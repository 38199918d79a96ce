"""What prefetcher kinds share: the page-boundary rules, handing out lines."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled


@compiled
def goes(c: Ints, at: int, step: int) -> bool:
    """Whether the directions at `at` (up, down, both) are those of a step."""
    return c[at] == 2 or c[at] == (0 if step > 0 else 1)


@compiled
def may_go(c: Ints, s: Ints, p: int, line: int, target: int) -> bool:
    """Whether the boundary rules of the prefetcher at `p` let it go from one line to another."""
    bits = c[lay.C_PAGE_LINES_BITS]
    if line >> bits == target >> bits:
        return True
    if target < 0:
        return False
    if c[p + lay.P_CROSSES_4K]:
        return True
    huge_bits = bits + lay.HUGE_BITS - lay.PAGE_BITS
    if not c[p + lay.P_CROSSES_4K_IN_2M] or line >> huge_bits != target >> huge_bits:
        return False
    page = line >> bits
    if c[p + lay.P_LEVEL] == 2 and 0 <= page < c[lay.C_PAGES]:
        page = s[c[lay.C_FRAME_TABLE] + page] - 1
    return 0 <= page < c[lay.C_PAGES] and (s[c[lay.C_PAGE_TABLE] + page] & lay.HUGE) != 0


@compiled
def hand_out(c: Ints, s: Ints, line: int) -> None:
    """Request a line, filled as the prefetcher does."""
    s[s[lay.S_WANTED]] = line * 8 + s[lay.S_SEEN_FILL]
    s[lay.S_WANTED] += 1


@compiled
def next_lines(c: Ints, s: Ints, p: int, step: int, degree: int) -> None:
    """Request so many lines, a step apart, behind the access that is shown."""
    line = s[lay.S_SEEN_LINE]
    for k in range(1, degree + 1):
        if not may_go(c, s, p, line, line + k * step):
            break
        hand_out(c, s, line + k * step)
