"""One row of a probe: which operation it is, and what a thread does for it."""

from __future__ import annotations

from setebench.probe import CHASE_WORK, WORKS, Kind
from setebench.sim import layout as lay
from setebench.sim.kernel.clock import all_done, fence, start, stop
from setebench.sim.kernel.compiler import Floats, Ints, bring_near, compiled, inlined
from setebench.sim.kernel.core import block, chain, complete, enter, free_instructions, hold
from setebench.sim.kernel.disturbances import disturb
from setebench.sim.kernel.memory.software_prefetch import prefetch
from setebench.sim.kernel.memory.translation import UNMAPPED, fault, page_state
from setebench.sim.kernel.operations import flush, load, load_value, store
from setebench.sim.kernel.stream import stream
from setebench.sim.kernel.waits import note_complete
from setebench.sim.layout import AFTER, BASE, COUNT, IP, KIND, OFFSET, ROW_WORDS, SIZE, VALUE, VARIANT

CHAINED = WORKS.index("chained")


@inlined
def _address(s: Ints, th: int, program: Ints, row: int, addresses: Ints) -> int:
    """The operand's address."""
    return addresses[s[th + lay.T_COLUMN] + program[row + BASE]] + program[row + OFFSET] + s[th + lay.T_ADVANCE]


@inlined
def _operand(program: Ints, row: int) -> int:
    """When the value is there that the operation waits for, 0 for none."""
    return program[program[row + AFTER] * ROW_WORDS + VALUE] if program[row + AFTER] >= 0 else 0


@compiled
def _work(c: Ints, s: Ints, th: int, work: int, value: int) -> int:
    """The multiplications between two steps of a chase; returns when the pointer is there that came at `value`."""
    for _ in range(CHASE_WORK):
        t = enter(c, s, th)
        if work == CHAINED:
            hold(c, s, th, value)
            t = max(t, value)
            value = t + c[lay.C_MULTIPLY_CYCLES]
            s[th + lay.T_WAITS_FOR] = lay.FOR_CHAIN
        complete(c, s, th, t + c[lay.C_MULTIPLY_CYCLES])
    return value


@compiled
def _chase(c: Ints, s: Ints, th: int, program: Ints, row: int) -> bool:
    """Follow pointers: dependent loads; at most S_QUANTUM of them now. Returns whether the chase is over."""
    left = s[lay.S_QUANTUM]
    while True:
        address = s[th + lay.T_CHASE_ADDRESS]
        following = s[c[lay.C_LINKS] + ((address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS])]
        bring_near(s, c[lay.C_LINKS] + ((following - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]))
        bring_near(s, c[lay.C_PAGE_TABLE] + ((following - lay.BASE_ADDRESS) >> lay.PAGE_BITS))
        enter(c, s, th)
        done = load_value(c, s, th, address, program[row + SIZE], s[th + lay.T_CHASE_READY])
        if program[row + SIZE] > 8:
            done += c[lay.C_VECTOR_TO_INTEGER_CYCLES]
        hold(c, s, th, s[th + lay.T_CHASE_READY])
        if c[lay.C_BLOCKING_LOAD] and s[lay.S_SERVED] > 1:
            block(c, s, th, done)
        complete(c, s, th, done)
        if program[row + VARIANT]:
            done = _work(c, s, th, program[row + VARIANT], done)
        s[th + lay.T_CHASE_READY] = done
        s[th + lay.T_CHASE_ADDRESS] = following
        s[th + lay.T_CHASE_LEFT] -= 1
        if s[th + lay.T_CHASE_LEFT] == 0:
            return True
        if page_state(c, s, following) == UNMAPPED:
            fault(s, th, following)
            return True
        left -= 1
        if left == 0:
            return False


@inlined
def _load_row(c: Ints, s: Ints, th: int, program: Ints, row: int, addresses: Ints) -> None:
    """A load, the operation that most rows are."""
    address = _address(s, th, program, row, addresses)
    if page_state(c, s, address) == UNMAPPED:
        fault(s, th, address)
        return
    following = row + ROW_WORDS
    if following < s[th + lay.T_END] * ROW_WORDS and program[following + KIND] == Kind.LOAD:
        place = _address(s, th, program, following, addresses) - lay.BASE_ADDRESS
        bring_near(s, c[lay.C_PAGE_TABLE] + (place >> lay.PAGE_BITS))
    s[lay.S_SEEN_IP] = program[row + IP]
    value = load(c, s, th, address, program[row + SIZE], _operand(program, row))
    # an address is made in integer registers, so one that waits for a vector waits for its way there as well
    program[row + VALUE] = value + (c[lay.C_VECTOR_TO_INTEGER_CYCLES] if program[row + SIZE] > 8 else 0)


@compiled
def _memory_row(c: Ints, s: Ints, th: int, program: Ints, row: int, addresses: Ints) -> bool:
    """An operation with an operand. Returns whether it is finished (a chase may take several calls)."""
    kind, operand = program[row + KIND], _operand(program, row)
    address = _address(s, th, program, row, addresses)
    s[lay.S_SEEN_IP] = program[row + IP]
    if kind == Kind.CHASE and s[th + lay.T_CHASE_LEFT] > 0:
        address = s[th + lay.T_CHASE_ADDRESS]
    if kind == Kind.PREFETCH:
        prefetch(c, s, th, address, program[row + VARIANT], operand)
    elif kind == Kind.STREAM:
        return stream(c, s, th, program, row, address)
    elif page_state(c, s, address) == UNMAPPED:
        fault(s, th, address)
    elif kind == Kind.STORE:
        store(c, s, th, address, program[row + SIZE], operand)
    elif kind == Kind.FLUSH:
        flush(c, s, th, address, operand)
    else:
        if s[th + lay.T_CHASE_LEFT] == 0:
            s[th + lay.T_CHASE_ADDRESS] = address
            s[th + lay.T_CHASE_LEFT] = program[row + COUNT]
            s[th + lay.T_CHASE_READY] = max(s[th + lay.T_CLOCK], operand)
        finished = _chase(c, s, th, program, row)
        program[row + VALUE] = s[th + lay.T_CHASE_READY]
        return finished
    return True


@compiled
def _arithmetic_row(c: Ints, s: Ints, th: int, program: Ints, row: int) -> None:
    """Instructions that neither touch memory nor order anything."""
    kind, number = program[row + KIND], program[row + COUNT]
    if kind == Kind.WAIT:
        chain(c, s, th, number, lay.UNIT, -1)
    elif kind == Kind.ADD:
        chain(c, s, th, number, lay.UNIT, lay.T_CHAIN)
    elif kind == Kind.TRANSFER:
        chain(c, s, th, number, c[lay.C_TRANSFER], lay.T_CHAIN_TRANSFER)
    elif kind == Kind.NOP:
        free_instructions(c, s, th, number, 0)
    elif kind == Kind.MULTIPLY and program[row + VARIANT]:
        chain(c, s, th, number, c[lay.C_MULTIPLY_CYCLES], lay.T_CHAIN_MULTIPLY)
    elif kind == Kind.MULTIPLY:
        free_instructions(c, s, th, number, c[lay.C_MULTIPLY_CYCLES])


@compiled
def _plain_row(c: Ints, s: Ints, f: Floats, th: int, program: Ints, row: int, out: Ints) -> None:
    """An operation without an operand."""
    kind = program[row + KIND]
    if kind == Kind.FENCE:
        fence(c, s, th, program[row + VARIANT])
    elif kind == Kind.START:
        start(s, f, th, program, row)
    elif kind == Kind.STOP:
        stop(c, s, f, th, program, row, out)
    elif kind == Kind.REPEAT:
        s[th + lay.T_LOOP_ROW] = s[th + lay.T_ROW]
        s[th + lay.T_LOOP_LEFT] = program[row + COUNT]
        s[th + lay.T_ADVANCE] = 0
        return
    elif kind == Kind.BARRIER:
        s[th + lay.T_WAITING] = 1
        s[th + lay.T_CLOCK] = all_done(s, th, True)
    else:
        _arithmetic_row(c, s, th, program, row)
        return
    if c[lay.C_COUNTING]:
        note_complete(c, s, th, 1, s[th + lay.T_CLOCK])


@inlined
def step(c: Ints, s: Ints, f: Floats, th: int, program: Ints, addresses: Ints, out: Ints) -> None:
    """One operation of a thread; of a chase no more steps than S_QUANTUM says."""
    at = s[th + lay.T_ROW]
    row = at * ROW_WORDS
    clock = s[th + lay.T_CLOCK]
    if clock >= s[th + lay.T_DISTURBED]:
        s[th + lay.T_CLOCK] = disturb(c, s, th, clock)
    if program[row + KIND] == Kind.LOAD:
        _load_row(c, s, th, program, row, addresses)
    elif program[row + BASE] >= 0:
        if not _memory_row(c, s, th, program, row, addresses):
            return
    elif program[row + KIND] == Kind.END:
        s[th + lay.T_LOOP_LEFT] -= 1
        if s[th + lay.T_LOOP_LEFT] > 0:
            at = s[th + lay.T_LOOP_ROW]
            s[th + lay.T_ADVANCE] += program[at * ROW_WORDS + OFFSET]
        else:
            s[th + lay.T_ADVANCE] = 0
    else:
        _plain_row(c, s, f, th, program, row, out)
    s[th + lay.T_ROW] = at + 1
