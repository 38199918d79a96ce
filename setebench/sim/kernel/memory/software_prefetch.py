"""Software prefetches: the rules that drop them, and their way through the levels."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.core import LOADS, block, complete, enter, hold, queue_leave, queue_wait
from setebench.sim.kernel.memory.below import fetch_below_l2
from setebench.sim.kernel.memory.caches import find, first_way, locate, ready_at
from setebench.sim.kernel.memory.hierarchy import fetch_l1, fetch_l2, own_line, train_l1
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import note
from setebench.sim.kernel.memory.translation import ABSENT, UNMAPPED, make_present, page_state, tlb_misses, translate


@compiled
def _into_l1(c: Ints, s: Ints, th: int, address: int, exclusive: bool, t: int) -> int:
    """A prefetch into level 1; returns when it got its miss entry (t if it needed none)."""
    core, line = s[th + lay.T_CORE], (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    first = first_way(c, s, 0, core, line)
    at = find(c, s, 0, line, first)
    entry = t
    if at >= 0:
        note(c, s, 0, first, at, False)
        if exclusive:
            ready = ready_at(c, 0, at)
            s[ready] = max(s[ready], t + own_line(c, s, core, at, line))
    else:
        fetch_l1(c, s, th, line, lay.BY_PREFETCH, t, exclusive)
        entry = s[lay.S_ENTRY]
    if c[lay.C_L1_PREFETCHERS]:
        train_l1(c, s, th, address, at < 0, lay.BY_PREFETCH, entry)
    return entry


@compiled
def _into_l2(c: Ints, s: Ints, th: int, line: int, exclusive: bool, t: int) -> int:
    """A prefetch into level 2 of a line that level 1 lacks; returns when it got its miss entry, if any."""
    if not c[lay.C_PF_LOWER_HINT_TAKES_L1_ENTRY]:
        fetch_l2(c, s, th, line, lay.BY_PREFETCH, t, exclusive, True)
        return s[lay.S_ENTRY]
    entry = take_entry(c, s, 0, th, lay.SOFTWARE, t)
    done = fetch_l2(c, s, th, line, lay.BY_PREFETCH, entry, exclusive, True)
    keep_entry(c, s, 0, th, lay.SOFTWARE, done)
    return entry


@compiled
def _nearest(c: Ints, s: Ints, core: int, line: int, levels: int) -> int:
    """Which of the first `levels` levels (0 on) has a line, `levels` if none."""
    for level in range(levels):
        if locate(c, s, level, core, line) >= 0:
            return level
    return levels


@compiled
def _dropped(c: Ints, s: Ints, th: int, address: int, level: int) -> bool:
    """Whether translation rules drop a software prefetch."""
    page, state, last = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS, page_state(c, s, address), s[th + lay.T_PAGE]
    if state == UNMAPPED or level == 0 or (not c[lay.C_PF_ACROSS_PAGE] and last >= 0 and last != page):
        return True
    if state == ABSENT:
        if not c[lay.C_PF_ON_PAGE_FAULT]:
            return True
        make_present(c, s, page)
    if c[lay.C_PF_ON_L1_TLB_MISS] and c[lay.C_PF_ON_L2_TLB_MISS]:
        return False
    missed = tlb_misses(c, s, s[th + lay.T_CORE], address)
    return (missed > 0 and not c[lay.C_PF_ON_L1_TLB_MISS]) or (missed > 1 and not c[lay.C_PF_ON_L2_TLB_MISS])


@compiled
def _carry_out(c: Ints, s: Ints, th: int, address: int, hint: int, t: int) -> int:
    """Carry a software prefetch out; returns when it has its miss entry, which is when it is complete."""
    h, line = lay.C_HINT + hint * lay.H_WORDS, (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    level, exclusive = min(c[h + lay.H_FILLS], c[lay.C_LEVELS]), c[h + lay.H_EXCLUSIVE] != 0
    if _dropped(c, s, th, address, level):
        return t
    page = s[th + lay.T_PAGE]
    t = translate(c, s, th, address, t)
    if not c[lay.C_PF_ACROSS_PAGE]:
        s[th + lay.T_PAGE] = page
    lacks = _nearest(c, s, s[th + lay.T_CORE], line, level) == level
    if c[lay.C_PF_WHEN_FULL] and lacks:
        takes = level > 1 and c[lay.C_PF_LOWER_HINT_TAKES_L1_ENTRY]
        if takes and not entry_free(c, s, 0, th, lay.SOFTWARE, t):
            return t
        if not entry_free(c, s, level - 1, th, lay.SOFTWARE, t):
            return t
    if level == 1:
        return _into_l1(c, s, th, address, exclusive, t)
    if level == 2:
        return t if locate(c, s, 0, s[th + lay.T_CORE], line) >= 0 else _into_l2(c, s, th, line, exclusive, t)
    if lacks:
        fetch_below_l2(c, s, th, line, lay.SOFTWARE, t, exclusive, True)
    return t


@compiled
def prefetch(c: Ints, s: Ints, th: int, address: int, hint: int, operand: int) -> None:
    """One software prefetch. It is complete once it has a miss entry (or needs none); a blocking one holds the core
    until its line is in a private level."""
    t = enter(c, s, th)
    t = queue_wait(c, s, th, LOADS, t)
    done = _carry_out(c, s, th, address, hint, max(t, operand))
    hold(c, s, th, done)
    if c[lay.C_BLOCKING_PREFETCH]:
        core, line = s[th + lay.T_CORE], (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
        level = _nearest(c, s, core, line, 2)
        block(c, s, th, max(done, s[ready_at(c, level, locate(c, s, level, core, line))]) if level < 2 else done)
    left = complete(c, s, th, done)
    queue_leave(c, s, th, LOADS, left)
