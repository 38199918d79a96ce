"""What hardware prefetchers ask for, and how level-2 prefetchers get it."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.memory.below import arrive, fetch_below_l2
from setebench.sim.kernel.memory.caches import find, first_way, put_l2
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.prefetchers import silence, train

L1, L2, L3 = lay.C_LEVEL, lay.C_LEVEL + lay.L_WORDS, lay.C_LEVEL + 2 * lay.L_WORDS


@compiled
def ask(c: Ints, s: Ints, cpu: int, level: int, address: int, ip: int, misses: bool, source: int, n: int) -> int:
    """Show an access to every prefetcher of a level; returns how many lines they ask for, fill levels beside them."""
    core = core_of(c, cpu)
    s[lay.S_SEEN_ADDRESS] = address
    s[lay.S_SEEN_LINE] = address >> c[lay.C_LINE_BITS]
    s[lay.S_SEEN_IP] = ip
    s[lay.S_SEEN_MISSES] = misses
    s[lay.S_SEEN_SOURCE] = source
    for i in range(c[lay.C_PREFETCHERS]):
        p = lay.C_PREFETCHER + i * lay.P_WORDS
        if c[p + lay.P_LEVEL] != level or (c[p + lay.P_OFF] >> core) & 1:
            continue
        owner = cpu // c[lay.C_CORES] if c[p + lay.P_OWNED] else 0
        table = 0 if c[p + lay.P_SHARED_BY_CORES] else core
        q = c[p + lay.P_STATE] + table * c[p + lay.P_STATE_WORDS] + owner * c[p + lay.P_THREAD_WORDS]
        s[lay.S_SEEN_OWNER] = owner
        if source == lay.BY_PREFETCH:
            silence(c, s, p, q)
        if not (c[p + lay.P_TRAINED] >> source) & 1:
            continue
        before = n
        n = train(c, s, p, q, n)
        for k in range(before, n):
            s[c[lay.C_OUT] + k] = s[c[lay.C_OUT] + k] * 8 + c[p + lay.P_FILLS] * 2 + c[p + lay.P_DROPS]
    return n


@compiled
def _virtual_line(c: Ints, s: Ints, physical: int) -> int:
    """Virtual number of a physical line, -1 for memory that nobody has."""
    bits = c[lay.C_PAGE_LINES_BITS]
    frame = physical >> bits
    if frame < 0 or frame >= c[lay.C_PAGES]:
        return -1
    page = s[c[lay.C_FRAME_TABLE] + frame] - 1
    if page < 0 or not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        return -1
    return (page << bits) | (physical & ((1 << bits) - 1))


@compiled
def prefetch_l3(c: Ints, s: Ints, cpu: int, line: int, drops: bool, t: int) -> None:
    """A hardware prefetch that only level 3 gets."""
    core = core_of(c, cpu)
    if c[lay.C_LEVELS] < 3 or find(c, s, 2, line, first_way(c, s, 2, core, line)) >= 0:
        return
    if drops and not entry_free(c, s, 2, cpu, lay.HARDWARE, t):
        return
    fetch_below_l2(c, s, core, cpu, line, lay.HARDWARE, t, False, True)


@compiled
def _prefetch_l2(c: Ints, s: Ints, cpu: int, word: int, t: int) -> None:
    """Carry out what a level-2 prefetcher asked for."""
    core = core_of(c, cpu)
    line = _virtual_line(c, s, word >> 3)
    drops = (word & 1) != 0
    if line < 0 or find(c, s, 1, line, first_way(c, s, 1, core, line)) >= 0:
        return
    if (word >> 1) & 3 == 3:
        prefetch_l3(c, s, cpu, line, drops, t)
        return
    if c[L2 + lay.L_INCLUSION] == lay.EXCLUSIVE and find(c, s, 0, line, first_way(c, s, 0, core, line)) >= 0:
        return
    if drops and not entry_free(c, s, 1, cpu, lay.HARDWARE, t):
        return
    count(c, s, core, lay.E_L2_FILLS, 1)
    count(c, s, core, lay.E_L2_FILLS_HARDWARE, 1)
    start, entry_at, limited = take_entry(c, s, 1, cpu, lay.HARDWARE, t)
    done = arrive(c, s, 1, core, fetch_below_l2(c, s, core, cpu, line, lay.HARDWARE, start, False, False))
    keep_entry(c, s, 1, cpu, lay.HARDWARE, entry_at, limited, done)
    put_l2(c, s, core, line, s[lay.S_FOUND_META], done)


@compiled
def train_l2(c: Ints, s: Ints, cpu: int, line: int, ip: int, misses: bool, source: int, t: int) -> None:
    bits = c[lay.C_PAGE_LINES_BITS]
    frame = s[c[lay.C_PAGE_TABLE] + (line >> bits)] >> lay.FRAME_BITS
    physical = (frame << bits) | (line & ((1 << bits) - 1))
    n = ask(c, s, cpu, 2, physical << c[lay.C_LINE_BITS], ip, misses, source, 0)
    first = c[lay.C_OUT]
    for k in range(n):
        _prefetch_l2(c, s, cpu, s[first + k], t)
