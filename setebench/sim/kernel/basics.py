"""Small pieces that every part of the kernel uses: random numbers, shared ports, entries of queues, event counts."""

from __future__ import annotations

import math

import numpy as np

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled, inlined


@compiled
def random_bits(s: Ints) -> int:
    """A non-negative 62-bit random number (xorshift64*)."""
    x = np.uint64(s[lay.S_RANDOM])
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    s[lay.S_RANDOM] = int(np.int64(x))
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
    s[c[lay.C_EVENTS] + core * lay.EVENT_WORDS + event] += amount


@inlined
def reserve(s: Ints, port: int, t: int) -> int:
    """The time from t on at which a port is free, taking it for its interval.

    Operations are simulated in program order, which is not the order of time: a prefetch takes a fill port hundreds of
    cycles ahead, and a hit that comes next must not wait for it. So a port is a calendar: time is cut into slots one
    interval long, in each of which one use begins; a slot's word is its number where it is taken. Behind a stall all
    would go past the uses before them, so the latest stretch of taken slots that one had to go past is kept as well.
    """
    interval = s[port + lay.PORT_INTERVAL]
    if interval == 0:
        return t
    first = int(np.int64(np.uint64(t) // np.uint64(interval)))  # twice as fast as by floating-point numbers
    slot = first
    within = s[port + lay.PORT_FULL_FROM] <= first < s[port + lay.PORT_FULL_TO]
    if within:
        slot = s[port + lay.PORT_FULL_TO]
    while s[port + (slot & lay.PORT_MASK)] == slot:
        slot += 1
    s[port + (slot & lay.PORT_MASK)] = slot
    if within:
        s[port + lay.PORT_FULL_TO] = slot + 1
    elif slot > first:
        s[port + lay.PORT_FULL_FROM] = first
        s[port + lay.PORT_FULL_TO] = slot + 1
    return max(t, slot * interval)


@inlined
def free_entry(s: Ints, base: int, entries: int, t: int) -> int:
    """Which of a queue's entries a request that comes at t takes: the one released last of those released by t, else
    the one released first. Entries are kept in the order of their release times.

    Taking the latest leaves long-free entries to requests that are simulated later but start earlier.
    """
    free = entries - 1
    while free > 0 and s[base + free] > t:
        free -= 1
    return base + free


@inlined
def hold_entry(s: Ints, base: int, entries: int, entry: int, release: int) -> None:
    """Keep an entry taken by `free_entry` until `release`, and the queue in order."""
    last = base + entries - 1
    if s[last] < release:
        for at in range(entry, last):
            s[at] = s[at + 1]
        s[last] = release
        return
    while entry < last and s[entry + 1] < release:
        s[entry] = s[entry + 1]
        entry += 1
    while entry > base and s[entry - 1] > release:
        s[entry] = s[entry - 1]
        entry -= 1
    s[entry] = release
