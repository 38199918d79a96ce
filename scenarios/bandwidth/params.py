"""All that can be set about the bandwidth of levels, with what each number is and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Sizes are bytes of one thread's data set, seconds are of `streams.budget.Budget`.

    Which data sets lie in which level. Those that are `parts_of_first` of the first level lie there. For each further
    one the search begins a `step` above what was seen to lie in the level before and goes up in such steps until
    further levels serve too much; that for memory's may cost `sizing_seconds` for each team of threads. A data set lies
    in a level when the lines that a pass over it met first, after it (the least of `passes` up to `fine` for all
    threads), come from nearer levels to no more than `left`, as a stream would be faster by about as much, and when
    they answer within `same_latency` of that level and no more than `beyond` come from further ones: a TLB miss for
    every 15 lines, and neighbours on a shared cache, take as much. A last level that was not outgrown ends where the
    size sweep does. Data sets are multiples of `whole`: blocks of up to three arrays.

    What is timed. At most `rounds` (`fast_rounds` with --fast) as the budget of `seconds` (`fast_seconds`) lasts: the
    mean of so many is known to 0.8 and 1.0 of their standard deviations. The first, which also decides between forms of
    loops, has `first_fraction` of it, so that there is a second: of caches' rates on random machines that one round
    alone showed 7 of 51 were wrong, of others 3 of 194. Of a data set whose rounds are within `equal`,
    half of what runs differ by, as many as show a drift are enough. The best of `repetitions` counts, and fewer where
    they cost more than `point_fraction` of what is left; the other form of a loop is tried in the first round where
    that takes no more: without it there still is a figure. Data sets that findings come from are measured first, those
    between them, from `smallest` on, once at the end on `plot_fraction` of what is left: they are for the plot alone.
    That of memory is `widest` times the one that was seen to outgrow all caches: of one that a random replacement keeps
    a seventh of it keeps a fiftieth. Memory for one thread and for several is held at once, so more would be much.

    What decides. Data sets `apart` times as large that reach `agreeing` of each other's rate lie in the same level: one
    of which one line in ten came from a level five times slower would be slower by a third.

    Prefetches. Those to lines of `prefetched` (many times what a core has in flight) must bring `brought` of them."""

    parts_of_first: tuple[float, ...] = (0.25, 0.5)
    step: float = 2**0.5
    sizing_seconds: float = 10.0
    fine: int = 8 << 20
    passes: int = 3
    left: float = 0.1
    same_latency: float = 1.4
    beyond: float = 0.25
    whole: int = 768

    rounds: int = 8
    fast_rounds: int = 6
    seconds: float = 18.0
    fast_seconds: float = 6.0
    repetitions: int = 4
    first_fraction: float = 0.5
    equal: float = 0.985
    point_fraction: float = 0.02
    plot_fraction: float = 0.25
    smallest: int = 4096
    widest: float = 2**0.5

    apart: float = 1.15
    agreeing: float = 0.93

    prefetched: int = 16384
    brought: float = 0.9


PARAMS = Params()
