"""All that can be set about the bandwidth of levels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Data sets, what is timed of them, and what decides."""

    part: float = 0.5  # of a level's share of a thread: less hides in the level before, more loses lines to conflicts
    outgrows: float = 2.0  # data sets over the level before: half as much would partly be served by it
    widest_part: float = 0.75  # of a share, where twice the level before is more than a part of it
    shared_step: float = 4.0  # most over the level before in a cache that others may use, of which a part is theirs
    memory_step: float = 4.0  # data sets of memory over the last cache: of twice it random replacement keeps a fifth
    unknown_step: float = 2.0  # the same over the largest working set that did not outgrow the last cache
    memory_least: int = 1 << 26  # of memory where time allows: what a guest has of the last cache changes by the minute
    memory_time: float = 0.03  # of the time, for passing over that once
    memory_like: float = 0.85  # a cache that takes so much of memory's latency is memory that was disturbed
    block_bytes: int = 1 << 16  # of a data set that a sample passes over: in so short a time the clock hardly changes
    spaced: float = 1.25  # memory over data: arrays of a block lie apart
    small_bytes: int = 1 << 19  # passed over in a sample of a small data set: branch predictors learn where a pass ends
    small_least: int = 1 << 17  # where a machine takes long: brackets and the last stores are 2 % of it
    small_time: float = 1 / 8000  # of the time, for passing over so much

    samples: int = 16  # of a round: paired ones need half of that
    rounds: int = 6  # fewer leave no quantile of quiet ones
    apart_seconds: float = 0.5  # between starts of rounds: bursts of other load are often shorter
    least_rounds: int = 3  # whatever the budget: Student's t of two makes much of any difference
    seconds: float = 18.0  # of `Budget` for all rounds
    fast_seconds: float = 6.0  # the same with --fast
    both_forms: int = 2  # rounds that time both forms of a loop, as something may disturb one of them
    placing: float = 0.03  # of a rate: what all rounds have in common, where pages and instructions lie

    prefetched: int = 16384  # bytes of lines that prefetches must bring: many times what a core has in flight
    brought: float = 0.9  # of them, or prefetches were dropped


PARAMS = Params()
