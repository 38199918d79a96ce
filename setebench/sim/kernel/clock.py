"""Reading the clock, and fences: what waits for what before time is read."""

from __future__ import annotations

import math

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import random_below, random_bits
from setebench.sim.kernel.compiler import Floats, Ints, compiled
from setebench.sim.kernel.disturbances import disturb
from setebench.sim.layout import DITHER, INTERVAL, VARIANT

FENCE_L, FENCE_S, FENCE_SERIALIZE = 1, 2, 3
BRACKET_MFENCE, BRACKET_CPUID = 2, 3


@compiled
def clock_ticks(f: Floats, t: int) -> int:
    """What the time-stamp counter shows at time t.

    Where a recording is replayed, these are the ticks since it began: the time in which its core did so many cycles,
    and the gaps that lie before, in which it did none. Blocks are counted by cycles at the median pace; the recording
    repeats itself.
    """
    cycles = t / lay.UNIT
    ticks = cycles * f[lay.F_TICKS_PER_CYCLE]
    if f[lay.F_DRIFT] > 0.0:
        turn = 2.0 * math.pi / f[lay.F_DRIFT_PERIOD_CYCLES]
        swing = math.cos(f[lay.F_DRIFT_PHASE]) - math.cos(cycles * turn + f[lay.F_DRIFT_PHASE])
        ticks += f[lay.F_TICKS_PER_CYCLE] * f[lay.F_DRIFT] * swing / turn
    blocks, gaps = int(f[lay.F_BLOCKS]), int(f[lay.F_GAPS])
    if blocks > 0:
        lasting = lay.F_WORDS + 2 * blocks + gaps + 3
        place = cycles / f[lay.F_BLOCK_CYCLES] + f[lay.F_BEGIN]
        turns = math.floor(place / blocks)
        place -= turns * blocks
        block = min(int(place), blocks - 1)
        gap = int(f[lay.F_WORDS + blocks + 1 + block])
        while f[lay.F_WORDS + 2 * blocks + 2 + gap] <= place:
            gap += 1
        at = lay.F_WORDS + block
        time = f[at] + (place - block) * (f[at + 1] - f[at]) + f[lasting + gap]
        replayed = f[lay.F_BLOCK_TICKS] * (turns * (f[lay.F_WORDS + blocks] + f[lasting + gaps]) + time)
        ticks += replayed - cycles * f[lay.F_TICKS_PER_CYCLE]
    steps = math.floor((ticks + f[lay.F_PHASE]) / f[lay.F_STEP_TICKS])
    return math.floor(steps * f[lay.F_STEP_TICKS] + 0.5)


@compiled
def all_done(s: Ints, th: int, stores: bool) -> int:
    """When everything before is done, and written if `stores` says so."""
    t = max(s[th + lay.T_CLOCK], s[th + lay.T_COMPLETE])
    return max(t, s[th + lay.T_DRAINED]) if stores else t


@compiled
def _bracketed(s: Ints, th: int, bracket: int) -> int:
    """When everything before a bracket is done; mfence and cpuid wait for stores to be written as well."""
    return all_done(s, th, bracket in (BRACKET_MFENCE, BRACKET_CPUID))


@compiled
def start(s: Ints, f: Floats, th: int, program: Ints, row: int) -> None:
    t = _bracketed(s, th, program[row + VARIANT])
    if program[row + DITHER]:  # a random wait of up to two steps of the clock, triangular
        steps = (random_bits(s) & 0xFFFFFFFF) / 4294967296.0 + (random_bits(s) & 0xFFFFFFFF) / 4294967296.0
        t += int(steps * f[lay.F_STEP_TICKS] / f[lay.F_TICKS_PER_CYCLE] * lay.UNIT)
    s[th + lay.T_STARTED + program[row + INTERVAL]] = clock_ticks(f, t)
    s[th + lay.T_CLOCK] = t


@compiled
def stop(c: Ints, s: Ints, f: Floats, th: int, program: Ints, row: int, out: Ints) -> None:
    done, jitter = _bracketed(s, th, program[row + VARIANT]), c[lay.C_JITTER_CYCLES]
    t = done + c[lay.C_BRACKET + program[row + VARIANT]]
    if jitter:
        t = max(done, t + random_below(s, 2 * jitter + 1) - jitter)
    if t >= s[th + lay.T_DISTURBED]:
        t = disturb(c, s, th, t)
    began = s[th + lay.T_STARTED + program[row + INTERVAL]]
    out[s[th + lay.T_OUT] + program[row + INTERVAL]] = clock_ticks(f, t) - began
    s[th + lay.T_CLOCK] = t


@compiled
def fence(c: Ints, s: Ints, th: int, kind: int) -> None:
    """An sfence orders stores, which are in order anyway."""
    if kind != FENCE_S:
        t = all_done(s, th, kind != FENCE_L)
        s[th + lay.T_CLOCK] = t + (c[lay.C_CPUID] if kind == FENCE_SERIALIZE else 0)
