"""Tunables of the mshr scenario, which counts misses in flight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables of how bursts are timed, and of how far their time must rise to count as a jump. Where a value is in
    units, a unit is the extra time that a miss takes over a hit."""

    most: int = 256  # requests of a burst at most; no published miss queue of a core is larger
    epochs: int = 3  # epochs in which each jump gets votes; all searches take turns
    apart_seconds: float = 0.4  # time between epochs: another thread of the core may be active for as long
    more_epochs: int = 4  # further epochs where counts are so near that a co-runner may have held an entry
    near: float = 0.15  # largest relative difference of such counts
    chain: float = 3.5  # units that the chain behind the timed line lasts: longer than two bursts of slow misses
    level: float = 0.3  # quantile of the line's times: in some, misses outlast the chain, or the line stays in L1
    tries: int = 3  # measurements of a hit in L1 behind as many loads as fit; the least counts
    chain_steps: tuple[int, int] = (4, 12)  # lengths of two chains, whose times give that of a step
    calm: tuple[float, float] = (0.1, 0.35)  # quantiles of a burst's repetitions, between which their mean is taken
    half: float = 0.5  # units; waiting for an entry takes about one, not waiting takes none
    shows: float = 0.3  # units; least difference of a flushed and a loaded line behind a burst, or it says nothing
    certainly: float = 0.9  # of the count by Little's law, as latency under load is higher than alone
    in_time: float = 0.8  # share of the issued prefetches whose lines must arrive as soon as a single one would
    disturbed: float = 0.1  # share of bursts beside a co-runner above which counts are lower bounds
    next_to: int = 2  # entries that lines of a hardware prefetcher may take beside a burst
    rounds: int = 8  # bursts of two threads for each count
    fills: int = 2  # misses of the other thread, relative to the entries, so that freed entries are taken again
    waits: float = 0.25  # units; a hit beside another thread's misses that is delayed by more waits for an entry
    free: float = 0.1  # units; a hit that is delayed by less doesn't wait
