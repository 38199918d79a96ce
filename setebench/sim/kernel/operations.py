"""Loads, stores and flushes: the operations that touch memory, but for software prefetches."""

from __future__ import annotations

from setebench.sim.events import E_FLUSHES, E_LOADS, E_MEMORY_WRITES, E_STORES
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.core import block, complete, enter, hold, queue_leave, queue_wait
from setebench.sim.kernel.ledger import begins, mark
from setebench.sim.kernel.memory.caches import find, first_way, purge
from setebench.sim.kernel.memory.hierarchy import access
from setebench.sim.kernel.memory.translation import translate, translate_store
from setebench.sim.layout import (
    BASE_ADDRESS,
    C_BLOCKING_LOAD,
    C_BLOCKING_STORE,
    C_CORES,
    C_COUNTING,
    C_FLUSH,
    C_FLUSH_CACHED,
    C_ISSUE,
    C_LEVELS,
    C_LINE_BITS,
    C_LOAD_QUEUE,
    C_LOAD_RING,
    C_SMT,
    C_SMT_EXTRA,
    C_STORE_QUEUE,
    C_STORE_RING,
    C_THREADS,
    C_VECTOR_16,
    C_VECTOR_32,
    C_VECTOR_64,
    DIRTY,
    IN_FLIGHT,
    LOAD_WAITS,
    S_ENTRY,
    S_SERVED,
    STORES_FULL,
    T_DRAINED,
    T_LOAD_POS,
    T_RUNNING,
    T_STORE_POS,
    T_STORED,
    T_WORDS,
    UNIT,
)

CLFLUSH, CLFLUSHOPT, CLWB = range(3)


@inlined
def vector_extra(c: Ints, size: int) -> int:
    """Extra load latency of an access size."""
    if size == 16:
        return c[C_VECTOR_16]
    if size == 32:
        return c[C_VECTOR_32]
    return c[C_VECTOR_64] if size == 64 else 0


@inlined
def _sibling_runs(c: Ints, s: Ints, cpu: int) -> bool:
    """Whether another SMT thread of the core takes part in this run."""
    cores = c[C_CORES]
    for other in range(cpu % cores, cores * c[C_SMT], cores):
        if other != cpu and s[c[C_THREADS] + other * T_WORDS + T_RUNNING]:
            return True
    return False


@compiled
def _note_load(c: Ints, s: Ints, cpu: int, ready: int, arrives: int, done: int) -> None:
    """Note a load whose address is known at `ready`, whose line `arrives`, and whose value is there at `done`."""
    begins(c, s, cpu, ready)
    mark(c, s, cpu, ready, done, LOAD_WAITS)
    if s[S_SERVED] > 1:
        mark(c, s, cpu, s[S_ENTRY], arrives, IN_FLIGHT)


@compiled
def note_store(c: Ints, s: Ints, cpu: int, entered: int, t: int, ready: int) -> None:
    """Note a store that found the store queue full from `entered` to `t` and begins at `ready`."""
    begins(c, s, cpu, ready)
    mark(c, s, cpu, entered, t, STORES_FULL)


@inlined
def load_value(c: Ints, s: Ints, cpu: int, address: int, size: int, ip: int, ready: int) -> int:
    """When the value of a load is there whose address is known at `ready`."""
    core = core_of(c, cpu)
    count(c, s, core, E_LOADS, 1)
    t = translate(c, s, cpu, core, address, ready)
    done = access(c, s, cpu, core, address, ip, False, t)
    arrives = done
    if size > 8:
        done += vector_extra(c, size)
    if c[C_SMT_EXTRA] and _sibling_runs(c, s, cpu):
        done += c[C_SMT_EXTRA]
    if c[C_COUNTING]:
        _note_load(c, s, cpu, ready, arrives, done)
    return done


@compiled
def load(c: Ints, s: Ints, cpu: int, address: int, size: int, ip: int, operand: int) -> int:
    """One load; `operand` is when its address is known. Returns when its value is there."""
    t = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[C_LOAD_RING], c[C_LOAD_QUEUE], T_LOAD_POS, t)
    ready = max(t, operand)
    done = load_value(c, s, cpu, address, size, ip, ready)
    hold(c, s, cpu, max(ready, s[S_ENTRY]))
    if c[C_BLOCKING_LOAD] and s[S_SERVED] > 1:
        block(c, s, cpu, done)
    left = complete(c, s, cpu, done)
    queue_leave(c, s, cpu, c[C_LOAD_RING], c[C_LOAD_QUEUE], T_LOAD_POS, left)
    return done


@compiled
def store(c: Ints, s: Ints, cpu: int, address: int, ip: int, operand: int) -> None:
    """One store: it retires at once and is written when its line is there, in order with the stores before it."""
    core = core_of(c, cpu)
    th = c[C_THREADS] + cpu * T_WORDS
    count(c, s, core, E_STORES, 1)
    entered = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[C_STORE_RING], c[C_STORE_QUEUE], T_STORE_POS, entered)
    ready = max(t, operand)
    if c[C_COUNTING]:
        note_store(c, s, cpu, entered, t, ready)
    known = translate_store(c, s, cpu, core, address, ready)
    written = max(access(c, s, cpu, core, address, ip, True, known), s[th + T_STORED] + c[C_ISSUE])
    s[th + T_STORED] = written
    s[th + T_DRAINED] = max(s[th + T_DRAINED], written)
    hold(c, s, cpu, max(ready, s[S_ENTRY]))
    if c[C_BLOCKING_STORE]:
        if s[S_SERVED] > 1:
            block(c, s, cpu, written)
        complete(c, s, cpu, written)
    else:
        complete(c, s, cpu, max(ready, known) + UNIT)
    queue_leave(c, s, cpu, c[C_STORE_RING], c[C_STORE_QUEUE], T_STORE_POS, written)


@compiled
def _clean(c: Ints, s: Ints, core: int, line: int) -> int:
    """Write a line's data back and leave it where it is."""
    dirty = 0
    for level in range(c[C_LEVELS]):
        at = find(c, s, level, line, first_way(c, s, level, core, line))
        if at >= 0:
            dirty |= s[at] & DIRTY
            s[at] &= ~DIRTY
    return dirty


@compiled
def flush(c: Ints, s: Ints, cpu: int, address: int, how: int, operand: int) -> None:
    """One flush: takes effect in program order, takes its time as a store does; clflush waits for the one before."""
    core = core_of(c, cpu)
    th = c[C_THREADS] + cpu * T_WORDS
    count(c, s, core, E_FLUSHES, 1)
    t = enter(c, s, cpu)
    t = queue_wait(c, s, cpu, c[C_STORE_RING], c[C_STORE_QUEUE], T_STORE_POS, t)
    if c[C_COUNTING]:
        begins(c, s, cpu, max(t, operand))
    ready = translate(c, s, cpu, core, address, max(t, operand))
    line = (address - BASE_ADDRESS) >> c[C_LINE_BITS]
    cost = c[C_FLUSH]
    if how == CLWB:
        dirty = _clean(c, s, core, line)
    else:
        dirty = purge(c, s, line)
        if dirty >= 0:
            cost += c[C_FLUSH_CACHED]
    if dirty > 0:
        count(c, s, core, E_MEMORY_WRITES, 1)
    start = max(ready, s[th + T_STORED]) if how == CLFLUSH else ready
    done = start + cost
    if how == CLFLUSH:
        s[th + T_STORED] = done
    s[th + T_DRAINED] = max(s[th + T_DRAINED], done)
    hold(c, s, cpu, ready)
    complete(c, s, cpu, ready + UNIT)
    queue_leave(c, s, cpu, c[C_STORE_RING], c[C_STORE_QUEUE], T_STORE_POS, done)
