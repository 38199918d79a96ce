"""Small pieces that every part of the kernel uses: random numbers, shared ports, entries of queues, event counts."""

from __future__ import annotations

import math

import numpy as np

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import LANES, Ints, bits_set, compiled, high_product, inlined, small_words


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
def core_of(c: Ints, cpu: int) -> int:
    """The core of a hardware thread: the remainder of a division by the number of cores, without the division."""
    while cpu >= c[lay.C_CORES]:
        cpu -= c[lay.C_CORES]
    return cpu


@inlined
def count(c: Ints, s: Ints, core: int, event: int, amount: int) -> None:
    """Add to an event count."""
    s[c[lay.C_EVENTS] + core * lay.EVENT_WORDS + event] += amount


@inlined
def _slot(s: Ints, port: int, t: int) -> int:
    """t // interval, exact for times of up to 62 bits, by a multiplication: divisions were a tenth of a miss's time."""
    return high_product(t << 1, s[port + lay.PORT_FACTOR]) >> s[port + lay.PORT_SHIFT]


@compiled
def _next_gap(s: Ints, port: int, t: int, slot: int, interval: int) -> int:
    """The first time from t on at which a use of the port can begin; `slot` is the one that t lies in."""
    while True:
        begin = slot * interval
        before = s[port + ((slot - 1) & lay.PORT_MASK)]
        if before > t and before < begin + interval:
            t = before
            continue
        own = s[port + (slot & lay.PORT_MASK)]
        if own >= begin + interval and own < begin + 2 * interval:
            t = own
            slot += 1
            continue
        behind = s[port + ((slot + 1) & lay.PORT_MASK)]
        if behind >= begin + 2 * interval and behind < begin + 3 * interval and behind - interval < t + interval:
            t = behind
            slot += 2
            continue
        return t


@inlined
def _note_full(s: Ints, port: int, start: int, end: int, interval: int) -> None:
    """Note that no use of the port can begin from `start` until `end`, where a use just noted ends.

    A stretch as long as the calendar would rest on words that are overwritten, so it is cut. A longer one is kept
    until requests beside it have walked as far as it is long: a long one of the past would have all walk for good.
    """
    first = s[port + lay.PORT_FULL_FROM]
    last = s[port + lay.PORT_FULL_TO]
    reach = (lay.PORT_SLOTS - 4) * interval
    if start >= first and start <= last:
        s[port + lay.PORT_FULL_FROM] = max(first, end - reach)
        s[port + lay.PORT_FULL_TO] = end
        s[port + lay.PORT_WALKED] = 0
        return
    walked = s[port + lay.PORT_WALKED] + end - start
    s[port + lay.PORT_WALKED] = walked
    if walked >= last - first or end - first > reach or last - start > reach:
        s[port + lay.PORT_FULL_FROM] = max(start, end - reach)
        s[port + lay.PORT_FULL_TO] = end
        s[port + lay.PORT_WALKED] = 0


@inlined
def reserve(s: Ints, port: int, t: int) -> int:
    """The time from t on at which a port is free, taking it for its interval.

    Operations are simulated in program order, which is not the order of time: a prefetch takes a fill port hundreds of
    cycles ahead, and a hit that comes next must not wait for it. So a port is a calendar: time is cut into slots one
    interval long, and a slot's word holds when the use that began in it ends. Words of other slots count as free.

    Behind a stall, requests queue up and each would walk past all uses before it. Therefore the calendar also keeps
    one stretch of time (PORT_FULL_FROM to PORT_FULL_TO) in which no use can begin any more: a long one that still
    helps. It only saves walking; when a use begins does not depend on which stretch is kept.
    """
    interval = s[port + lay.PORT_INTERVAL]
    if interval == 0:
        return t
    start = t
    if s[port + lay.PORT_FULL_FROM] <= t and t < s[port + lay.PORT_FULL_TO]:
        t = s[port + lay.PORT_FULL_TO]
    slot = _slot(s, port, t)
    if t < s[port + lay.PORT_LATEST]:
        gap = _next_gap(s, port, t, slot, interval)
        if gap != t:
            t = gap
            slot = _slot(s, port, t)
    s[port + lay.PORT_LATEST] = max(s[port + lay.PORT_LATEST], t + interval)
    s[port + (slot & lay.PORT_MASK)] = t + interval
    _note_full(s, port, start, t + interval, interval)
    return t


@inlined
def free_entry(s: Ints, base: int, entries: int, t: int) -> int:
    """Which of a queue's entries a request that comes at t takes: the one released last of those released by t, else
    the one released first. Entries are kept in the order of their release times.

    Taking the latest leaves long-free entries to requests that are simulated later but start earlier.
    """
    if s[base + entries - 1] <= t:
        return base + entries - 1
    if s[base] > t:
        return base
    free = 0
    for at in range(0, entries, LANES):  # counted, as branches would be guessed wrong
        part = small_words(s, base + at, t)
        free += bits_set(part & ((1 << min(entries - at, LANES)) - 1))
    return base + free - 1


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
