"""All that can be set about how misses in flight are counted, with what each number is and why."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Counts are requests, fractions are of one miss from memory unless something else is said.

    What is asked. No more than `most` requests are tried: no level-1 or level-2 miss queue of a published core is
    larger. A search ends after `questions` bursts, undecided. Every threshold is asked for in `epochs`, seconds apart
    as all others come between, and in up to `more_epochs` further ones while that leaves it open: an SMT co-runner that
    the controls missed holds entries for a second or two.

    What decides. A hit or a miss that was held up for an entry takes a whole miss longer, less what the others needed
    to set out, and nothing where it was not, so `half` a miss lies between both; half of a jump's height likewise.
    Up to `further` times the number before a jump time must not rise as much again: the next jump comes at twice that,
    but a first TLB may end before. Little's law counts `certainly` so many, as latency under load is higher than alone.
    Beside a co-runner in more than `disturbed` of all bursts, what it took may have decided: calm levels leave out more
    than as many.

    The hit in level 2. The chase behind it takes `chase` times as long as a miss, so that it shows behind two waves of
    misses, which is what more misses than level 2 has entries take; a step's time is that between chases of both
    `chase_steps`. It is timed alone in `chase_rounds`. Traversals of evictor lines that differ by `evictor_ratio` are
    tried `evictor_tries` times until the line stays in level 2. Its latency there is a mean over `hit_runs` runs,
    `hit_means` means at a time up to `most_hit_means`; up to `gone` of the loads may come from memory, as a traversal
    of half a cache that hashes its index empties some sets.

    Where prefetches land. Chases over `landing_lines` are timed in `landings` rounds, up to `most_landings`: of twelve
    rounds that are each right with 90 %, three in four (`agreeing`) are in all but 3 runs of 100; of a hint that works
    every other time, in 7 of 100. A third level less than `apart` times as slow as the second may be the second, seen
    beside lines that stayed in the first: third levels of published cores are twice as slow. Prefetches in `groups`
    (`group_rounds` rounds) are in flight by fewer at a time. When the last line comes is asked as often, of `totals`
    numbers, each a quarter larger than the one before.

    Threads. Bursts of all threads at once in `thread_rounds`, each with `next_to` requests more than there would be
    entries, which is also how many a hardware prefetcher may hold beside a burst; a hit of one thread `beside_rounds`
    times beside `fills` times as many misses of another as there are entries, so that those that get free are taken
    again. It waits half a miss or nothing: more than `waits` or less than `free`. Shared pools show `half` of one
    thread's jump, private ones less than `private`."""

    most: int = 256
    questions: int = 110
    epochs: int = 3
    more_epochs: int = 2
    half: float = 0.5
    further: float = 1.25
    certainly: float = 0.9
    disturbed: float = 0.1
    chase: float = 1.6
    chase_steps: tuple[int, int] = (100, 400)
    chase_rounds: int = 8
    evictor_ratio: float = 1.4
    evictor_tries: int = 5
    hit_runs: int = 6
    hit_means: int = 4
    most_hit_means: int = 24
    gone: float = 0.3
    landing_lines: int = 8
    landings: int = 12
    most_landings: int = 36
    agreeing: float = 0.75
    apart: float = 2.0
    groups: int = 4
    group_rounds: int = 6
    totals: int = 24
    thread_rounds: int = 10
    next_to: int = 2
    beside_rounds: int = 12
    fills: int = 2
    waits: float = 0.25
    free: float = 0.1
    private: float = 0.2

    def quicker(self) -> Params:
        """For --fast: fewer epochs, and searches that end earlier."""
        return replace(self, questions=70, epochs=2, more_epochs=1)
