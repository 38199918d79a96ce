"""All that can be set about latency under load, with what each number is and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Load points are numbers of loading threads, of no-operations (`delays`) between four lines, and of written lines.

    Which ones. `delays` span from a full load to one of a few percent; with --fast, and for mixes with writes, only
    `fast_delays`. No more than `threads` load (`fast_threads` with --fast) unless asked for: each point takes longer
    the more there are. The first `fewest_points` (the delays of --fast, and fewer threads) are measured whatever the
    budget.

    How often. Every point once in each of `rounds`, at least in `fewest_rounds`: a neighbour that uses memory is there
    for a while, so it takes part in all of what is measured in one moment, or in nothing. A point gets
    `point_fraction` of the budget of `seconds` in each round (27 points eight times), as `repetitions` of a chase
    (`fast_repetitions`, never less than `fewest_repetitions`), which make one figure: what they vary by says nothing of
    other times. What lasted in fewer than `least_rounds` is no figure.

    One chase follows `groups` of lines of `chased` bytes. A loading thread uses four independent lines a round (Helm
    and Taura 2019) of streams of at most `stream` bytes, which lie `stagger` lines apart within their pages, as they
    would fight for the same sets of the caches otherwise; a stored line is written back `lag` rounds later, when its
    store is done and the flush waits for nothing. Its time is cut into `segments`, and only those beside which all
    others ran count; it runs `spare` times as long as the chase is expected to, as that slows down as the load grows.
    Its pace is taken from `pace_rounds`. A chase of which fewer than `least_groups` ran under load is not used.

    Intervals reach `run_to_run` to either side: what neighbours leave of memory drifts more slowly than a run. Latency
    without load is a value where it is known to `precise` of itself, else the lower end of its interval is a bound.

    Prefetchers off: a traversal of `traversed` neighbouring lines, the median of `traversals`, must take `slower` times
    as long: without prefetchers it takes as long as memory, with them a fraction of that, and latency of memory alone
    drifts by a few percent between two samples."""

    delays: tuple[int, ...] = (0, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048)
    fast_delays: tuple[int, ...] = (0, 16, 64, 256, 1024)
    threads: int = 64
    fast_threads: int = 16
    fewest_points: int = 9

    rounds: int = 8
    fewest_rounds: int = 4
    seconds: float = 4.0
    point_fraction: float = 0.005
    repetitions: int = 12
    fast_repetitions: int = 2
    fewest_repetitions: int = 2
    least_rounds: int = 2

    groups: int = 9
    chased: int = 32 << 20
    stream: int = 4 << 20
    stagger: int = 5
    lag: int = 16
    segments: int = 20
    spare: float = 1.3
    pace_rounds: int = 8
    least_groups: int = 2

    run_to_run: float = 0.02
    precise: float = 0.1

    traversed: int = 1024
    traversals: int = 16
    slower: float = 1.2


PARAMS = Params()
