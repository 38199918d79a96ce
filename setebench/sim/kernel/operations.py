"""Loads, stores and flushes: the operations that touch memory, but for software prefetches."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.core import block, complete, enter, hold, queue_leave, queue_wait
from setebench.sim.kernel.memory.caches import find, first_way, purge
from setebench.sim.kernel.memory.hierarchy import access
from setebench.sim.kernel.memory.translation import translate
from setebench.sim.kernel.waits import note_load

CLFLUSH, CLFLUSHOPT, CLWB = range(3)


@inlined
def vector_extra(c: Ints, size: int) -> int:
    """Extra load latency of an access size."""
    return c[lay.C_BYTES16 + (size >> 5)] if size > 8 else 0


@inlined
def _sibling_runs(c: Ints, s: Ints, cpu: int) -> bool:
    """Whether another SMT thread of the core takes part in this run."""
    cores = c[lay.C_CORES]
    for other in range(cpu % cores, cores * c[lay.C_THREADS_PER_CORE], cores):
        if other != cpu and s[c[lay.C_THREADS] + other * lay.T_WORDS + lay.T_RUNNING]:
            return True
    return False


@inlined
def load_value(c: Ints, s: Ints, cpu: int, address: int, size: int, ip: int, ready: int) -> int:
    """When the value of a load is there whose address is known at `ready`."""
    core = core_of(c, cpu)
    count(c, s, core, lay.E_LOADS, 1)
    t = translate(c, s, cpu, core, address, ready)
    done = access(c, s, cpu, core, address, ip, False, t)
    arrives = done
    done += vector_extra(c, size)
    if c[lay.C_SMT_EXTRA_CYCLES] and _sibling_runs(c, s, cpu):
        done += c[lay.C_SMT_EXTRA_CYCLES]
    if c[lay.C_COUNTING]:
        note_load(c, s, cpu, arrives)
    return done


@compiled
def load(c: Ints, s: Ints, cpu: int, address: int, size: int, ip: int, operand: int) -> int:
    """One load; `operand` is when its address is known. Returns when its value is there."""
    t = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[lay.C_LOAD_RING], c[lay.C_LOAD_QUEUE], lay.T_LOAD_POS, t)
    ready = max(t, operand)
    done = load_value(c, s, cpu, address, size, ip, ready)
    hold(c, s, cpu, max(ready, s[lay.S_ENTRY]))
    if c[lay.C_BLOCKING_LOAD] and s[lay.S_SERVED] > 1:
        block(c, s, cpu, done)
    left = complete(c, s, cpu, done)
    queue_leave(c, s, cpu, c[lay.C_LOAD_RING], c[lay.C_LOAD_QUEUE], lay.T_LOAD_POS, left)
    return done


@inlined
def store_enters(c: Ints, s: Ints, cpu: int, operand: int) -> int:
    """When an operation of the store queue has a place there and its operand, which is there at `operand`."""
    entered = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[lay.C_STORE_RING], c[lay.C_STORE_QUEUE], lay.T_STORE_POS, entered)
    count(c, s, core_of(c, cpu), lay.E_STORES_FULL_CYCLES, t // lay.UNIT - entered // lay.UNIT)
    return max(t, operand)


@inlined
def store_leaves(c: Ints, s: Ints, cpu: int, written: int) -> None:
    """The operation that entered the store queue last leaves it when it is written."""
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    s[th + lay.T_DRAINED] = max(s[th + lay.T_DRAINED], written)
    queue_leave(c, s, cpu, c[lay.C_STORE_RING], c[lay.C_STORE_QUEUE], lay.T_STORE_POS, written)


@compiled
def store(c: Ints, s: Ints, cpu: int, address: int, ip: int, operand: int) -> None:
    """One store: it retires at once and is written when its line is there, in order with the stores before it."""
    core = core_of(c, cpu)
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    count(c, s, core, lay.E_STORES, 1)
    ready = store_enters(c, s, cpu, operand)
    known = translate(c, s, cpu, core, address, ready)
    written = max(access(c, s, cpu, core, address, ip, True, known), s[th + lay.T_STORED] + c[lay.C_ISSUE])
    s[th + lay.T_STORED] = written
    hold(c, s, cpu, max(ready, s[lay.S_ENTRY]))
    if c[lay.C_BLOCKING_STORE]:
        if s[lay.S_SERVED] > 1:
            block(c, s, cpu, written)
        complete(c, s, cpu, written)
    else:
        complete(c, s, cpu, max(ready, known) + lay.UNIT)
    store_leaves(c, s, cpu, written)


@compiled
def _clean(c: Ints, s: Ints, core: int, line: int) -> int:
    """Write a line's data back and leave it where it is."""
    dirty = 0
    for level in range(c[lay.C_LEVELS]):
        at = find(c, s, level, line, first_way(c, s, level, core, line))
        if at >= 0:
            dirty |= s[at] & lay.DIRTY
            s[at] &= ~lay.DIRTY
    return dirty


@compiled
def flush(c: Ints, s: Ints, cpu: int, address: int, how: int, operand: int) -> None:
    """One flush: takes effect in program order, takes its time as a store does; clflush waits for the one before."""
    core = core_of(c, cpu)
    th = c[lay.C_THREADS] + cpu * lay.T_WORDS
    ready = translate(c, s, cpu, core, address, store_enters(c, s, cpu, operand))
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    dirty = _clean(c, s, core, line) if how == CLWB else purge(c, s, line)
    if dirty > 0:
        count(c, s, core, lay.E_MEMORY_WRITES, 1)
    start = max(ready, s[th + lay.T_STORED]) if how == CLFLUSH else ready
    done = start + c[lay.C_FLUSH_CYCLES]
    if how == CLFLUSH:
        s[th + lay.T_STORED] = done
    hold(c, s, cpu, ready)
    complete(c, s, cpu, ready + lay.UNIT)
    store_leaves(c, s, cpu, done)
