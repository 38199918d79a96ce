"""All that can be set about the bandwidth of levels, with what each number is and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Sizes are bytes of one thread's data set, seconds are of `streams.budget.Budget`.

    Which data sets lie in which level. They begin at `smallest` and are half octaves apart up to `fine`, then octaves,
    as passing over large ones takes time; finding out may cost `sizing_seconds`. One lies in a level when its lines,
    after a pass over all of it (the least of `passes` up to `fine`), come from nearer levels to no more than `left`: a
    cache that replaces the longest unused line then serves nothing of a stream, and one that replaces at random 2 %,
    as either keeps a quarter of four times its size. And when they answer within `same_latency` of that level: lines
    from further levels take so much longer that few of them would take most of a stream's time; a TLB miss for every
    15 lines, and neighbours on a shared cache, take as much. Whole blocks make a data set smaller than was asked for,
    by less than `almost`.

    What is timed. At most `rounds` (`fast_rounds` with --fast) as the budget of `seconds` (`fast_seconds`) lasts: the
    mean of so many is known to 0.8 and 1.0 of their standard deviations. In the first `deciding_rounds` forms of loops
    are chosen and all data sets measured. The best of `repetitions` counts, of `large_repetitions` beyond `large`,
    where a single pass takes long enough by itself. A case that takes more than `round_fraction` of its time in the
    first round has no other, as the rest may need what is left; the other form of a loop is tried where that takes no
    more than `form_fraction`: without it there still is a figure, without the fifteen data sets behind there is none.
    The sweep goes on to `widest` times the data set that outgrows the last level, which is some four times that level;
    memory for one thread and for several is held at once, so more would be much.

    What decides. Data sets `apart` times as large that reach `agreeing` of each other's rate lie in the same level: one
    of which one line in ten came from a level five times slower would be slower by a third. Those `clear` times as
    large as the smallest of a level are taken first, as the level before serves the less of them.

    Prefetches. Those to lines of `prefetched` (many times what a core has in flight) must bring `brought` of them."""

    smallest: int = 4096
    fine: int = 8 << 20
    sizing_seconds: float = 20.0
    passes: int = 3
    left: float = 0.25
    same_latency: float = 1.4
    almost: float = 0.99

    rounds: int = 8
    fast_rounds: int = 6
    seconds: float = 22.0
    fast_seconds: float = 6.0
    deciding_rounds: int = 2
    repetitions: int = 4
    large_repetitions: int = 2
    large: int = 16 << 20
    round_fraction: float = 0.15
    form_fraction: float = 0.02
    widest: float = 2.0

    apart: float = 1.15
    agreeing: float = 0.93
    clear: float = 2.0

    prefetched: int = 16384
    brought: float = 0.9


PARAMS = Params()
