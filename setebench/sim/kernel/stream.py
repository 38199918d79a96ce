"""Streaming kernels: the loads, arithmetic, stores and prefetches of a loop over arrays, a block at a time.

A kernel comes as one word of bits, which `layout` has the places of.
Arithmetic takes the time of a multiplication; that a sum needs the one before is left out, as kernels use several, and
so are the moves by which sums change places in a rolled loop. An unrolled loop has an instruction address for every
access of a block and turns once a block; a rolled one has an address for each array and turns at each access.
"""

from __future__ import annotations

from setebench.probe.kernels import BLOCK_BYTES, CHUNK_BYTES, RANDOM_FACTOR, RANDOM_STEP
from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count, reserve
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.kernel.core import complete, enter, hold
from setebench.sim.kernel.memory.caches import purge
from setebench.sim.kernel.memory.software_prefetch import prefetch
from setebench.sim.kernel.memory.translation import UNMAPPED, fault, page_state, translate
from setebench.sim.kernel.operations import load, store, store_enters, store_leaves
from setebench.sim.layout import (
    ARRAYS,
    BYPASS_AT,
    COUNT,
    DESCRIPTION,
    EXCLUSIVE_AT,
    FETCHES_AT,
    FLOPS_AT,
    IP,
    RANDOM_AT,
    ROLLED_AT,
    SIZE,
    SPACING,
    WRITES_AT,
)

ELEMENT = 8  # bytes that one floating-point operation works on
HINT_SHARED, HINT_EXCLUSIVE = 0, 4


@compiled
def _store_past_caches(c: Ints, s: Ints, th: int, address: int, operand: int) -> None:
    """One non-temporal store. The first of a line takes the line from all caches and writes it to memory; the others
    join it in a write-combining buffer."""
    core = s[th + lay.T_CORE]
    count(c, s, core, lay.E_STORE, 1)
    ready = store_enters(c, s, th, operand)
    written = translate(c, s, th, address, ready)
    place = address - lay.BASE_ADDRESS
    line = place >> c[lay.C_LINE_BITS]
    if place == line << c[lay.C_LINE_BITS]:
        purge(c, s, line)
        count(c, s, core, lay.E_MEM_WRITE, 1)
        written = reserve(s, c[lay.C_MEMORY_PORT], written)
    hold(c, s, th, ready)
    complete(c, s, th, ready + lay.UNIT)
    store_leaves(c, s, th, written)


@compiled
def _element(c: Ints, s: Ints, th: int, address: int, word: int, spacing: int, width: int, ip: int) -> None:
    """One access to every array, and the arithmetic between; `ip` is the first of four instruction addresses."""
    ready = 0
    for array in range(ARRAYS):
        if (word >> array) & 1:
            s[lay.S_SEEN_IP] = ip + array
            ready = max(ready, load(c, s, th, address + array * spacing, width, 0))
    for _ in range((word >> FLOPS_AT) & 15):
        hold(c, s, th, ready)
        ready = max(ready, enter(c, s, th)) + c[lay.C_MULTIPLY_CYCLES]
        if c[lay.C_COUNTING]:
            count(c, s, s[th + lay.T_CORE], lay.E_FP_OP, width // ELEMENT)
            s[th + lay.T_WAITS_FOR] = lay.FOR_CHAIN
        complete(c, s, th, ready)
    for array in range(ARRAYS):
        if (word >> (WRITES_AT + array)) & 1:
            s[lay.S_SEEN_IP] = ip + array
            if (word >> BYPASS_AT) & 1:
                _store_past_caches(c, s, th, address + array * spacing, ready)
            else:
                store(c, s, th, address + array * spacing, width, ready)


@compiled
def _turn(c: Ints, s: Ints, th: int) -> None:
    """The end of a loop's round: a subtraction and a branch."""
    for _ in range(2):
        t = enter(c, s, th)
        complete(c, s, th, t + lay.UNIT)


@compiled
def _chunk(c: Ints, s: Ints, th: int, address: int, word: int, spacing: int, width: int, ip: int) -> None:
    """The accesses to one chunk of every array. Every instruction of the unrolled loop has an address of its own."""
    rolled = (word >> ROLLED_AT) & 1
    if word >> FETCHES_AT & 15:
        hint = HINT_EXCLUSIVE if (word >> EXCLUSIVE_AT) & 1 else HINT_SHARED
        s[lay.S_SEEN_IP] = ip
        prefetch(c, s, th, address, hint, 0)
        if rolled:
            _turn(c, s, th)
        return
    for place in range(0, CHUNK_BYTES, width):
        own = 0 if rolled else place // width * ARRAYS
        _element(c, s, th, address + place, word, spacing, width, ip + own)
        if rolled:
            _turn(c, s, th)


@compiled
def _unmapped(c: Ints, s: Ints, address: int, word: int, spacing: int) -> int:
    """The first address of a block's arrays that has no page, -1 if all have."""
    used = (word | word >> WRITES_AT) & 15
    for array in range(ARRAYS):
        if (used >> array) & 1:
            for place in range(0, BLOCK_BYTES, CHUNK_BYTES):
                if page_state(c, s, address + array * spacing + place) == UNMAPPED:
                    return address + array * spacing + place
    return -1


@compiled
def stream(c: Ints, s: Ints, th: int, program: Ints, row: int, first: int) -> bool:
    """One block of a stream whose first array begins at `first`. Returns whether the stream is over."""
    word, spacing, width = program[row + DESCRIPTION], program[row + SPACING], max(program[row + SIZE], 1)
    size = program[row + COUNT]
    if s[th + lay.T_CHASE_LEFT] == 0:
        s[th + lay.T_CHASE_LEFT] = size // BLOCK_BYTES
        s[th + lay.T_CHASE_ADDRESS] = first
    address = s[th + lay.T_CHASE_ADDRESS]
    missing = _unmapped(c, s, first if (word >> RANDOM_AT) & 1 else address, word, spacing)
    if missing >= 0:
        fault(s, th, missing)
        return True
    rolled = (word >> ROLLED_AT) & 1
    for number in range(BLOCK_BYTES // CHUNK_BYTES):
        if (word >> RANDOM_AT) & 1:
            offset = ((address - first) * RANDOM_FACTOR + RANDOM_STEP * CHUNK_BYTES) & (size - 1)
            address = first + offset
        own = 0 if rolled else number * (CHUNK_BYTES // width) * ARRAYS
        _chunk(c, s, th, address, word, spacing, width, program[row + IP] + own)
        if not (word >> RANDOM_AT) & 1:
            address += CHUNK_BYTES
    if not rolled:
        _turn(c, s, th)
    s[th + lay.T_CHASE_ADDRESS] = address
    s[th + lay.T_CHASE_LEFT] -= 1
    s[th + lay.T_CHASE_READY] = s[th + lay.T_CLOCK]
    return s[th + lay.T_CHASE_LEFT] == 0
