"""All that can be set about how misses in flight are counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Times are in units: what a miss takes longer than a hit."""

    most: int = 256  # requests of a burst; no published miss queue of a core is larger
    epochs: int = 3  # of votes on each jump; others come between
    apart_seconds: float = 0.4  # between epochs: what another thread of the core does may last as long
    more_epochs: int = 4  # of numbers that differ so little that a co-runner may have taken an entry
    near: float = 0.15  # of the larger of two numbers, the difference that is so little
    chain: float = 3.5  # of hits and multiplications behind the one line: longer than two waves of slow misses
    level: float = 0.3  # quantile of times of the one line: slow misses outlast the chain, some lines stay in level 1
    tries: int = 3  # of a hit in level 1 behind as many loads as fit; the least counts
    chain_steps: tuple[int, int] = (4, 12)  # of chains whose difference gives the time of a step
    calm: tuple[float, float] = (0.1, 0.35)  # quantiles of a burst's repetitions that its time is the mean between
    half: float = 0.5  # what waits for an entry takes about a unit longer, what doesn't takes nothing
    shows: float = 0.3  # least difference of a flushed and a loaded line behind a burst for it to say anything
    certainly: float = 0.9  # of what Little's law counts, as latency under load is higher than alone
    in_time: float = 0.8  # of prefetches that set out, those whose last line comes as soon as one would
    disturbed: float = 0.1  # of bursts beside which a co-runner was seen: then numbers are bounds
    next_to: int = 2  # entries that a hardware prefetcher's lines may take beside a burst
    rounds: int = 8  # of bursts of several threads
    fills: int = 2  # times the entries: so many misses of another thread, so that freed entries are taken again
    waits: float = 0.25  # a hit beside another thread's misses that takes so much longer waits for an entry
    free: float = 0.1  # and one that takes less does not
