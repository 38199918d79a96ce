"""Small pieces that every part of the kernel uses: random numbers, shared ports, miss-entry slots, event counts."""

from __future__ import annotations

import math

import numpy as np

from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import C_EVENTS, EVENT_WORDS, NEVER, PORT_WORDS, S_RANDOM


@compiled
def random_bits(s: Ints) -> int:
    """A non-negative 62-bit random number (xorshift64*)."""
    x = np.uint64(s[S_RANDOM])
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    s[S_RANDOM] = int(np.int64(x))
    return int(np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(2)))


@compiled
def random_below(s: Ints, limit: int) -> int:
    """A random integer from 0 to limit - 1; 0 for a limit of 0 or less."""
    if limit <= 0:
        return 0
    return random_bits(s) % limit


@compiled
def random_exponential(s: Ints, mean: int) -> int:
    """A random waiting time with that mean, at least 1."""
    u = (random_bits(s) + 1) / 4611686018427387905.0
    return int(-math.log(u) * mean) + 1


@inlined
def count(c: Ints, s: Ints, core: int, event: int, amount: int) -> None:
    """Add to an event count."""
    s[c[C_EVENTS] + core * EVENT_WORDS + event] += amount


@inlined
def reserve(s: Ints, port: int, t: int, interval: int) -> int:
    """The time from t on at which a port is free, taking it for `interval`.

    Operations are simulated in program order, which is not the order of time: a prefetch takes a fill port hundreds of
    cycles ahead, and a hit that comes next must not wait for it. So a port is a calendar: time is cut into slots one
    interval long, and a slot's word holds when the use that began in it ends. Words of other slots count as free.
    """
    if interval == 0:
        return t
    while True:
        slot = t // interval
        before = s[port + (slot - 1) % PORT_WORDS]
        if before > t and before // interval == slot:
            t = before
            continue
        own = s[port + slot % PORT_WORDS]
        if own // interval == slot + 1:
            t = own
            continue
        behind = s[port + (slot + 1) % PORT_WORDS]
        if behind // interval == slot + 2 and behind - interval < t + interval:
            t = behind
            continue
        s[port + slot % PORT_WORDS] = t + interval
        return t


@compiled
def best_slot(s: Ints, base: int, slots: int, t: int) -> int:
    """The slot whose release is the latest that is not after t, else the one released first.

    Taking the latest leaves long-free slots to requests that are simulated later but start earlier.
    """
    best = base
    best_release = -1
    first = base
    first_release = NEVER
    for i in range(base, base + slots):
        release = s[i]
        if release <= t:
            if release > best_release:
                best_release = release
                best = i
        elif release < first_release:
            first_release = release
            first = i
    return best if best_release >= 0 else first
