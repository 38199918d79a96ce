"""Reading the clock, and fences: what waits for what before time is read."""

from __future__ import annotations

import math

from setebench.sim.kernel.basics import random_below, random_bits
from setebench.sim.kernel.compiler import Floats, Ints, compiled
from setebench.sim.kernel.disturbances import disturb
from setebench.sim.layout import (
    C_BRACKET,
    C_CPUID,
    C_JITTER,
    F_BEGIN,
    F_BLOCK_CYCLES,
    F_BLOCK_TICKS,
    F_BLOCKS,
    F_DRIFT,
    F_DRIFT_PHASE,
    F_GAPS,
    F_JUMP,
    F_JUMP_PERIOD,
    F_PERIOD,
    F_PHASE,
    F_STEP,
    F_TICKS_PER_CYCLE,
    F_WORDS,
    T_CLOCK,
    T_COMPLETE,
    T_DISTURBED,
    T_DRAINED,
    T_STARTED,
    UNIT,
)

KIND, BASE, OFFSET, SIZE, VARIANT, COUNT, IP, AFTER, INTERVAL, DITHER, WORDS = range(11)
FENCE_M, FENCE_L, FENCE_S, FENCE_SERIALIZE = range(4)
BRACKET_MFENCE, BRACKET_CPUID = 2, 3


@compiled
def _ahead(cycles: float, period: float) -> float:
    """By how many cycles of a core whose frequency jumps the counter is ahead, for a jump of one: of every two periods
    it gains in one and loses in the other, which one comes first being as good as random."""
    pair = math.floor(cycles / (2.0 * period))
    inside = cycles - pair * 2.0 * period
    turned = (int(pair) * 0x9E3779B1 >> 13) & 1
    gained = min(inside, 2.0 * period - inside)
    return gained if turned else -gained


@compiled
def _replayed(f: Floats, cycles: float) -> float:
    """Ticks since the recording's begin: the time in which its core did so many cycles, and the gaps that lie before,
    in which it did none. Blocks are counted by cycles at the median pace; the recording repeats itself."""
    blocks = int(f[F_BLOCKS])
    gaps = int(f[F_GAPS])
    lasting = F_WORDS + 2 * blocks + gaps + 3
    place = cycles / f[F_BLOCK_CYCLES] + f[F_BEGIN]
    turns = math.floor(place / blocks)
    place -= turns * blocks
    block = min(int(place), blocks - 1)
    gap = int(f[F_WORDS + blocks + 1 + block])
    while f[F_WORDS + 2 * blocks + 2 + gap] <= place:
        gap += 1
    at = F_WORDS + block
    time = f[at] + (place - block) * (f[at + 1] - f[at]) + f[lasting + gap]
    return f[F_BLOCK_TICKS] * (turns * (f[F_WORDS + blocks] + f[lasting + gaps]) + time)


@compiled
def clock_ticks(f: Floats, t: int) -> int:
    """What the time-stamp counter shows at time t."""
    cycles = t / UNIT
    ticks = cycles * f[F_TICKS_PER_CYCLE]
    if f[F_DRIFT] > 0.0:
        turn = 2.0 * math.pi / f[F_PERIOD]
        swing = math.cos(f[F_DRIFT_PHASE]) - math.cos(cycles * turn + f[F_DRIFT_PHASE])
        ticks += f[F_TICKS_PER_CYCLE] * f[F_DRIFT] * swing / turn
    if f[F_JUMP] > 0.0:
        ticks += f[F_TICKS_PER_CYCLE] * f[F_JUMP] * _ahead(cycles, f[F_JUMP_PERIOD])
    if f[F_BLOCKS] > 0.0:
        ticks += _replayed(f, cycles) - cycles * f[F_TICKS_PER_CYCLE]
    steps = math.floor((ticks + f[F_PHASE]) / f[F_STEP])
    return math.floor(steps * f[F_STEP] + 0.5)


@compiled
def _dither(s: Ints, f: Floats) -> int:
    """A random wait of up to two steps of the clock, triangular, in UNIT parts of a cycle."""
    u = (random_bits(s) & 0xFFFFFFFF) / 4294967296.0 + (random_bits(s) & 0xFFFFFFFF) / 4294967296.0
    return int(u * f[F_STEP] / f[F_TICKS_PER_CYCLE] * UNIT)


@compiled
def all_done(s: Ints, th: int, bracket: int) -> int:
    """When everything before a bracket is done; mfence and cpuid wait for stores to be written as well."""
    t = max(s[th + T_CLOCK], s[th + T_COMPLETE])
    if bracket in (BRACKET_MFENCE, BRACKET_CPUID):
        t = max(t, s[th + T_DRAINED])
    return t


@compiled
def start(c: Ints, s: Ints, f: Floats, th: int, program: Ints, row: int) -> None:
    t = all_done(s, th, program[row + VARIANT])
    if program[row + DITHER]:
        t += _dither(s, f)
    s[th + T_STARTED + program[row + INTERVAL]] = clock_ticks(f, t)
    s[th + T_CLOCK] = t


@compiled
def stop(c: Ints, s: Ints, f: Floats, cpu: int, th: int, program: Ints, row: int, out: Ints, first: int) -> None:
    t = all_done(s, th, program[row + VARIANT]) + c[C_BRACKET + program[row + VARIANT]]
    if c[C_JITTER]:
        t = max(all_done(s, th, program[row + VARIANT]), t + random_below(s, 2 * c[C_JITTER] + 1) - c[C_JITTER])
    if t >= s[th + T_DISTURBED]:
        t = disturb(c, s, cpu, t)
    out[first + program[row + INTERVAL]] = clock_ticks(f, t) - s[th + T_STARTED + program[row + INTERVAL]]
    s[th + T_CLOCK] = t


@compiled
def fence(c: Ints, s: Ints, th: int, kind: int) -> None:
    t = s[th + T_CLOCK]
    if kind == FENCE_S:
        return
    t = max(t, s[th + T_COMPLETE])
    if kind in (FENCE_M, FENCE_SERIALIZE):
        t = max(t, s[th + T_DRAINED])
    if kind == FENCE_SERIALIZE:
        t += c[C_CPUID]
    s[th + T_CLOCK] = t
