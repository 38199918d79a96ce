"""Software prefetches: the rules that drop them, and their way through the levels."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.core import block, complete, enter, hold, queue_leave, queue_wait
from setebench.sim.kernel.memory.below import fetch_below_l2
from setebench.sim.kernel.memory.caches import find, first_way, ready_at
from setebench.sim.kernel.memory.hierarchy import fetch_l1, fetch_l2, holds, own_line, train_l1
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import touch
from setebench.sim.kernel.memory.translation import ABSENT, UNMAPPED, make_present, page_state, tlb_misses, translate


@compiled
def _into_l1(c: Ints, s: Ints, cpu: int, address: int, ip: int, h: int, t: int) -> int:
    """A prefetch into level 1 by the hint whose rules begin at `h`; returns when it got its miss entry (t if it needed
    none)."""
    core = core_of(c, cpu)
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    first = first_way(c, s, 0, core, line)
    at = find(c, s, 0, line, first)
    entry = t
    if at >= 0:
        touch(c, s, 0, first, at)
        if c[h + lay.H_EXCLUSIVE]:
            ready = ready_at(c, 0, at)
            s[ready] = max(s[ready], t + own_line(c, s, core, at, line))
    else:
        count(c, s, core, lay.E_L1_PREFETCH_MISSES, 1)
        fetch_l1(c, s, cpu, line, ip, lay.BY_PREFETCH, t, c[h + lay.H_EXCLUSIVE] != 0)
        entry = s[lay.S_ENTRY]
    if c[lay.C_L1_PREFETCHERS]:
        train_l1(c, s, cpu, address, ip, at < 0, lay.BY_PREFETCH, entry)
    return entry


@compiled
def _into_l2(c: Ints, s: Ints, cpu: int, line: int, ip: int, exclusive: bool, t: int) -> int:
    """A prefetch into level 2; returns when it got its miss entry (t if it needed none)."""
    if holds(c, s, 0, core_of(c, cpu), line):
        return t
    if not c[lay.C_PF_LOWER_HINT_TAKES_L1_ENTRY]:
        fetch_l2(c, s, cpu, line, ip, lay.BY_PREFETCH, t, exclusive, True)
        return s[lay.S_ENTRY]
    entry, entry_at, limited = take_entry(c, s, 0, cpu, lay.SOFTWARE, t)
    done = fetch_l2(c, s, cpu, line, ip, lay.BY_PREFETCH, entry, exclusive, True)
    keep_entry(c, s, 0, cpu, lay.SOFTWARE, entry_at, limited, done)
    return entry


@compiled
def _held(c: Ints, s: Ints, core: int, line: int, levels: int) -> bool:
    """Whether one of the first `levels` levels has a line."""
    found = False
    for level in range(levels):
        found = found or holds(c, s, level, core, line)
    return found


@compiled
def _dropped(c: Ints, s: Ints, cpu: int, address: int, level: int) -> bool:
    """Whether translation rules drop a software prefetch."""
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    state = page_state(c, s, address)
    if state == UNMAPPED or level == 0:
        return True
    last = s[c[lay.C_THREADS] + cpu * lay.T_WORDS + lay.T_PAGE]
    if not c[lay.C_PF_ACROSS_PAGE] and last >= 0 and last != page:
        return True
    if state == ABSENT:
        if not c[lay.C_PF_ON_PAGE_FAULT]:
            return True
        make_present(c, s, page)
    if c[lay.C_PF_ON_L1_TLB_MISS] and c[lay.C_PF_ON_L2_TLB_MISS]:
        return False
    missed = tlb_misses(c, s, core_of(c, cpu), address)
    return (missed > 0 and not c[lay.C_PF_ON_L1_TLB_MISS]) or (missed > 1 and not c[lay.C_PF_ON_L2_TLB_MISS])


@compiled
def _finds_full(c: Ints, s: Ints, cpu: int, line: int, level: int, t: int) -> bool:
    """Whether a software prefetch would need a miss entry of the level it fills and find none."""
    if _held(c, s, core_of(c, cpu), line, level):
        return False
    if level > 1 and c[lay.C_PF_LOWER_HINT_TAKES_L1_ENTRY] and not entry_free(c, s, 0, cpu, lay.SOFTWARE, t):
        return True
    return not entry_free(c, s, level - 1, cpu, lay.SOFTWARE, t)


@compiled
def _carry_out(c: Ints, s: Ints, cpu: int, address: int, hint: int, ip: int, t: int) -> int:
    """Carry a software prefetch out; returns when it has its miss entry, which is when it is complete."""
    core, h = core_of(c, cpu), lay.C_HINT + hint * lay.H_WORDS
    level = min(c[h + lay.H_FILLS], c[lay.C_LEVELS])
    if _dropped(c, s, cpu, address, level):
        return t
    latest = c[lay.C_THREADS] + cpu * lay.T_WORDS + lay.T_PAGE
    page = s[latest]
    t = translate(c, s, cpu, core, address, t)
    if not c[lay.C_PF_ACROSS_PAGE]:
        s[latest] = page
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    if c[lay.C_PF_WHEN_FULL] and _finds_full(c, s, cpu, line, level, t):
        return t
    if level == 1:
        return _into_l1(c, s, cpu, address, ip, h, t)
    if level == 2:
        return _into_l2(c, s, cpu, line, ip, c[h + lay.H_EXCLUSIVE] != 0, t)
    if not _held(c, s, core, line, 3):
        fetch_below_l2(c, s, core, cpu, line, lay.SOFTWARE, t, c[h + lay.H_EXCLUSIVE] != 0, True)
    return t


@compiled
def _line_ready(c: Ints, s: Ints, core: int, line: int) -> int:
    """When the data of a line arrive in the nearest private level that has it, 0 if none has."""
    for level in range(2):
        at = find(c, s, level, line, first_way(c, s, level, core, line))
        if at >= 0:
            return s[ready_at(c, level, at)]
    return 0


@compiled
def prefetch(c: Ints, s: Ints, cpu: int, address: int, hint: int, ip: int, operand: int) -> None:
    """One software prefetch. It is complete once it has a miss entry (or needs none)."""
    t = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[lay.C_LOAD_RING], c[lay.C_LOAD_QUEUE], lay.T_LOAD_POS, t)
    done = _carry_out(c, s, cpu, address, hint, ip, max(t, operand))
    hold(c, s, cpu, done)
    if c[lay.C_BLOCKING_PREFETCH]:
        line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
        block(c, s, cpu, max(done, _line_ready(c, s, core_of(c, cpu), line)))
    left = complete(c, s, cpu, done)
    queue_leave(c, s, cpu, c[lay.C_LOAD_RING], c[lay.C_LOAD_QUEUE], lay.T_LOAD_POS, left)
