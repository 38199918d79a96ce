"""Software prefetches: the rules that drop them, and their way through the levels."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.core import block, complete, enter, hold, queue_leave, queue_wait
from setebench.sim.kernel.memory.below import arrive, fetch_below_l2, invalidate_others
from setebench.sim.kernel.memory.caches import find, first_way, put_l1, ready_at
from setebench.sim.kernel.memory.hierarchy import fetch_l2, own_l2, own_line, train_l1
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import touch
from setebench.sim.kernel.memory.translation import ABSENT, UNMAPPED, make_present, page_state, tlb_misses, translate


@compiled
def soft_prefetch_l1(c: Ints, s: Ints, cpu: int, address: int, ip: int, exclusive: bool, bypass: bool, t: int) -> int:
    """A software prefetch into level 1; returns when it got its miss entry (t if it needed none)."""
    core = core_of(c, cpu)
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    first = first_way(c, s, 0, core, line)
    at = find(c, s, 0, line, first)
    entry = t
    if at >= 0:
        touch(c, s, 0, first, at)
        if exclusive:
            ready = ready_at(c, 0, at)
            s[ready] = max(s[ready], t + own_line(c, s, core, at, line))
    else:
        count(c, s, core, lay.E_L1_PREFETCH_MISSES, 1)
        entry, entry_at, limited = take_entry(c, s, 0, cpu, lay.SOFTWARE, t)
        keep = -1 if bypass else 0
        done = arrive(
            c, s, 0, core, fetch_l2(c, s, cpu, line, ip, lay.SOFTWARE, lay.BY_PREFETCH, entry, exclusive, keep)
        )
        found = s[lay.S_FOUND_META]
        if exclusive and not found & lay.OWNED:
            if s[lay.S_ACTIVE] & ~(1 << core):
                done += invalidate_others(c, s, core, line)
            own_l2(c, s, core, line)
            found |= lay.OWNED
        keep_entry(c, s, 0, cpu, lay.SOFTWARE, entry_at, limited, done)
        put_l1(c, s, core, line, found, done)
    if c[lay.C_L1_PREFETCHERS]:
        train_l1(c, s, cpu, address - lay.BASE_ADDRESS, ip, at < 0, lay.BY_PREFETCH, entry)
    return entry


@compiled
def soft_prefetch_l2(c: Ints, s: Ints, cpu: int, address: int, ip: int, exclusive: bool, takes_l1: bool, t: int) -> int:
    """A software prefetch into level 2; returns when it got its miss entry (t if it needed none)."""
    core = core_of(c, cpu)
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    if find(c, s, 0, line, first_way(c, s, 0, core, line)) >= 0:
        return t
    if not takes_l1:
        fetch_l2(c, s, cpu, line, ip, lay.SOFTWARE, lay.BY_PREFETCH, t, exclusive, 1)
        return s[lay.S_ENTRY]
    entry, entry_at, limited = take_entry(c, s, 0, cpu, lay.SOFTWARE, t)
    done = fetch_l2(c, s, cpu, line, ip, lay.SOFTWARE, lay.BY_PREFETCH, entry, exclusive, 1)
    keep_entry(c, s, 0, cpu, lay.SOFTWARE, entry_at, limited, done)
    return entry


@compiled
def soft_prefetch_l3(c: Ints, s: Ints, cpu: int, address: int, exclusive: bool, t: int) -> int:
    """A software prefetch into level 3 only."""
    core = core_of(c, cpu)
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    for level in range(3):
        if find(c, s, level, line, first_way(c, s, level, core, line)) >= 0:
            return t
    fetch_below_l2(c, s, core, cpu, line, lay.SOFTWARE, t, exclusive, True)
    return t


@compiled
def _prefetch_dropped(c: Ints, s: Ints, cpu: int, address: int, level: int) -> bool:
    """Whether translation rules drop a software prefetch, and count why."""
    core = core_of(c, cpu)
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
    if not (c[lay.C_PF_ON_L1_TLB_MISS] and c[lay.C_PF_ON_L2_TLB_MISS]):
        missed = tlb_misses(c, s, core, address)
        return (missed > 0 and not c[lay.C_PF_ON_L1_TLB_MISS]) or (missed > 1 and not c[lay.C_PF_ON_L2_TLB_MISS])
    return False


@compiled
def _prefetch_finds_full(c: Ints, s: Ints, cpu: int, address: int, level: int, t: int) -> bool:
    """Whether a software prefetch would need a miss entry of the level it fills and find none."""
    core = core_of(c, cpu)
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    for upper in range(level):
        if find(c, s, upper, line, first_way(c, s, upper, core, line)) >= 0:
            return False
    if level > 1 and c[lay.C_PF_LOWER_HINT_TAKES_L1_ENTRY] and not entry_free(c, s, 0, cpu, lay.SOFTWARE, t):
        return True
    return not entry_free(c, s, level - 1, cpu, lay.SOFTWARE, t)


@compiled
def _prefetch_entry(c: Ints, s: Ints, cpu: int, address: int, hint: int, ip: int, t: int) -> int:
    """Carry a software prefetch out; returns when it has its miss entry, which is when it is complete."""
    core = core_of(c, cpu)
    h = lay.C_HINT + hint * lay.H_WORDS
    level = c[h + lay.H_FILLS]
    if level == 3 and c[lay.C_LEVELS] < 3:
        level = 2
    if _prefetch_dropped(c, s, cpu, address, level):
        return t
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    page = s[th + lay.T_PAGE]
    t = translate(c, s, cpu, core, address, t)
    if not c[lay.C_PF_ACROSS_PAGE]:
        s[th + lay.T_PAGE] = page
    if c[lay.C_PF_DROPS] and _prefetch_finds_full(c, s, cpu, address, level, t):
        return t
    exclusive = c[h + lay.H_EXCLUSIVE] != 0
    if level == 1:
        return soft_prefetch_l1(c, s, cpu, address, ip, exclusive, c[h + lay.H_BYPASS] != 0, t)
    if level == 2:
        return soft_prefetch_l2(c, s, cpu, address, ip, exclusive, c[lay.C_PF_LOWER_HINT_TAKES_L1_ENTRY] != 0, t)
    return soft_prefetch_l3(c, s, cpu, address, exclusive, t)


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
    core = core_of(c, cpu)
    t = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[lay.C_LOAD_RING], c[lay.C_LOAD_QUEUE], lay.T_LOAD_POS, t)
    ready = max(t, operand)
    done = _prefetch_entry(c, s, cpu, address, hint, ip, ready)
    hold(c, s, cpu, done)
    if c[lay.C_BLOCKING_PREFETCH]:
        line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
        block(c, s, cpu, max(done, _line_ready(c, s, core, line)))
    left = complete(c, s, cpu, done)
    queue_leave(c, s, cpu, c[lay.C_LOAD_RING], c[lay.C_LOAD_QUEUE], lay.T_LOAD_POS, left)
