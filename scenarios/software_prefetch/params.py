"""All that can be set about the questions on software prefetches, with what each number is and why."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """How much is measured. `samples` loads a condition show 6 cycles on a clock that moves in steps of 70.

    What decides, by the ends of 95 % intervals. What holds for more than `clear` of all lines (or of the work) is the
    rule, for less than `small` an exception (a line pushed out, a prefetch that found no entry free). With less than
    `quiet` of the baseline in memory something else brings the lines, and nothing can be said of the prefetch; that it
    brought lines can be said with `enough` of it there. A hint that leaves more than `quiet` of a turn's lines where
    they were did nothing in that turn: turns go one way or the other, and what drops single prefetches leaves a
    mixture. Lines nobody asked for came by training in more than `trained` of the cases, not in less than `untrained`.

    A level that the sweep did not show is one whose loads take `between` times as long as those of the level they are
    taken for, or that part as long, by `errors` standard errors: no two levels of a core are nearer to each other, and
    core clocks drift by a tenth of that between loads and their references. So many standard errors, and `penalty`
    cycles, has a TLB miss at least: it costs several cycles on every core.

    First touches that take less than `saved` of an unprepared one found the page there, more than `kept` did not; a
    page fault takes longer than `fault` loads from memory. A burst in which more than `lost` of the late lines did not
    come dropped them; it was held up if it took `held` memory latencies longer than one of present lines.

    Stores. A latency is reported whose interval reaches no further than `vague` of it, or `vague_cycles`, to either
    side. What lies between two cores answered 3 % faster or slower some seconds later (standard deviation of 20 times
    on an idle machine): with three times as epochs, 2 of 100 intervals are wider than `vague`. The interval reaches
    `least_cycles` at least, as where fence and store overlap half a cycle is lost or won. One time has `store_rounds`
    of `store_repetitions`, up to `more_rounds` times as many where they differ; with several holders of the line, up
    to `most_holders`, `holder_rounds`. Reported from `least_times` on."""

    samples: int = 2000
    clear: float = 0.7
    small: float = 0.3
    quiet: float = 0.8
    enough: float = 0.4
    trained: float = 0.1
    untrained: float = 0.05
    between: float = 1.15
    errors: float = 4.0
    penalty: float = 2.0
    saved: float = 0.5
    kept: float = 0.75
    fault: float = 1.5
    lost: float = 0.2
    held: float = 0.5
    vague: float = 0.15
    vague_cycles: float = 1.0
    least_cycles: float = 0.5
    store_rounds: int = 8
    store_repetitions: int = 120
    more_rounds: int = 3
    holder_rounds: int = 2
    most_holders: int = 8
    least_times: int = 2
    first_samplings: int = 3
    touches: int = 32

    def quicker(self) -> Params:
        """For --fast: fewer samples."""
        return replace(self, samples=800, store_rounds=4, store_repetitions=60, more_rounds=2, touches=16)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the lines of probes lie, and how long they wait.

    A burst has `burst_lines` in each of `burst_pages` pages: 224 prefetches, more than published first levels keep in
    flight (124 at most), in fewer pages than any first TLB holds, with few lines a page so that hardware prefetchers
    find no pattern. `burst_timed` lines of its second half are loaded afterwards. Pages lie in a stretch of
    `stretch_pages`, shifted by up to `shifts` lines.

    A TLB-evicting traversal takes one line of `walk_lines` in each page: targets are below, so in a first cache indexed
    by the offset in a page (all are) they never fall into a target's set. It goes over `first_tlb` pages, more than any
    first data TLB of an x86-64 CPU holds (96 at most so far) and fewer than any second one (512 since 2008), and over
    `second_tlb`, more than any second one (4,096 so far). `warmed` targets show that entries were gone: so few fit the
    fewest ways of a first cache. Fresh pages lie `spacing` apart, as a kernel that maps several pages at one fault must
    not map the next one too; there are `fresh_pages` of them.

    A run that may train prefetchers has `run_lines` lines in each of `run_pages` pages, from `run_line` on; its last
    line is flushed and prefetched `again` times, for prefetchers that wait for several misses of one line. Between two
    pass `space_cycles`, in which a line arrives and a prefetcher may act. `visited` pages train one that remembers
    regions, more than it keeps under observation at once, and `new_pages` are looked at then, at lines `first_line` and
    `second_line`; `beside` is loaded to warm the page's TLB entry.

    Up to `additions` are put behind a miss: they fit the reorder window of any core that has one, together with the
    access in front."""

    burst_pages: int = 28
    burst_lines: int = 8
    burst_timed: int = 60
    stretch_pages: int = 64
    shifts: int = 8
    walk_lines: tuple[int, int] = (48, 63)
    first_tlb: int = 192
    second_tlb: int = 8192
    warmed: int = 32
    spacing: int = 16
    fresh_pages: int = 20
    run_lines: int = 8
    run_pages: int = 16
    run_line: int = 16
    again: int = 2
    space_cycles: int = 700
    visited: int = 40
    new_pages: int = 8
    first_line: int = 8
    second_line: int = 13
    beside: int = 54
    additions: int = 100
