"""How many entries a table of a prefetcher has, found by doubling, then halving."""

from __future__ import annotations

from collections.abc import Callable

from setebench.prefetcher_map.visit import Access, fresh

LOW, BEHIND_RUNS = 1 << 6, 1 << 14
"""Instruction addresses this far apart look alike to a table that goes by six bits; and low bits of instruction
addresses beyond those of `visit.fresh`."""

OTHERS = 64
"""More instructions than any table holds whose size is asked for: they make it forget the runs before."""


def bisect(
    holds: Callable[[int], bool | None], most: int, plainly: Callable[[int], bool | None] | None = None
) -> int | None:
    """Size of a table: the largest number up to `most` for which something holds that holds for few and not for many.

    None where it isn't so: halving finds an edge in anything, also where a table forgets now and then, so numbers on
    both sides are asked as well. So near to `most` that none could be asked beyond, there is no answer either.

    `plainly` asks the edge again, for nearly always and nearly never: a table that forgets now and then has no size,
    and a neighbour decides where it seems to end."""
    if holds(1) is not True:
        return None
    low, high = 1, 2
    while (told := holds(high)) is True and high < most:  # doubled, as long visits cost most and are disturbed most
        low, high = high, min(2 * high, most)
    if told is not False:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        told = holds(middle)
        if told is None:
            return None
        low, high = (middle, high) if told else (low, middle)
    beyond = (low + 2, low + max(low // 4, 3))
    sure = all(holds(max(few, 1)) for few in (low - 1, low - 2, low * 3 // 4, low // 2))
    if not sure or beyond[1] > most or not all(holds(many) is False for many in beyond):
        return None
    if plainly is not None and not (plainly(low) is True and plainly(low + 1) is False):
        return None
    return low


def others_first(runs: int, at: int) -> tuple[Access, ...]:
    """One access each of many instructions, none of which looks like one of the runs'.

    Before every repetition: the same instructions made the same runs in the one before, and a table that gives up its
    oldest entry would still hold some of them, older than the runs that they now belong to."""
    taken = {fresh(run) % LOW for run in range(runs)}
    free = [low for low in range(LOW) if low not in taken] or [0]
    # behind those of runs, and so far apart that no two instructions overlap. Tables that go by eight bits tell four
    # with the same low bits apart: each round through the free ones begins at another of the four
    shift = 1 - len(free) % 2
    rounds = [(free[number % len(free)], number + number // len(free) * shift) for number in range(OTHERS)]
    addresses = [BEHIND_RUNS + low + 3 * LOW * place for low, place in rounds]
    return tuple(Access(at, ip=ip, page=runs + 1 + number) for number, ip in enumerate(addresses))
