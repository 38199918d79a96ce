"""Everything that can be set of the question whether events count what their roles say."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    epochs: int = 5
    """Repeats of everything, each with all workloads in another order. Four are the least that give an interval with
    some sense (t of 3 degrees is 3.2); one more allows for an epoch that is lost to wrapped readings."""

    amounts: tuple[int, ...] = (1, 2, 4)
    """Repetitions of a workload in one reading, in units of its own: two give a slope, the third shows whether the
    count is a line. A count that grows by n^0.85 bends by 19 % between the first step and the last."""

    repetitions: int = 96
    """The unit of `amounts` for a workload of one line per repetition. 96 lines a reading and up: an interrupt's
    handful of lines is a few percent of one reading and nothing of the mean slope over epochs."""

    tries: int = 10
    """A reading that wrapped, or during which the clock shows a gap, is taken again so often. A counter that overflows
    in six of ten readings is then whole in all but 0.6 % of them."""

    trust: float = 0.02
    """Relative. An event is trusted if the interval of its scale lies within 1 +- this (the issue's definition; Röhl et
    al. 2015 find -1 to +2 % for events that they call accurate)."""

    exactness: float = 0.004
    """Relative error of a known volume: lines that an interrupt or a page walk fetches beside the 96 or more that a
    reading is about. A fifth of `trust`, so that a disagreement of `trust` between two workloads is 3.5 of it."""

    looseness: float = 0.12
    """Absolute error, lines per access, of what a level serves in a workload whose working set was found by timing: a
    prefetcher may bring a line more for some accesses, and a random replacement keeps some lines nearer. Levels differ
    by a whole line per access."""

    sampled: int = 256
    """Accesses to a working set of which is timed where their line is: the fraction in one of two levels is known
    within 0.03 then, and within `looseness` on a clock whose step is three times their difference."""

    sampled_apart: int = 31
    """One of so many accesses is such a one: few enough to leave the others as they are, and of all windows of the
    order, as an odd number is no part of their sizes."""

    jitter_ticks: float = 0.5
    """Least standard deviation of a timed load: that of rounding to whole ticks."""

    turns: int = 100
    """Of expectation maximisation over so few weights: by then they change by less than a hundredth."""

    least_fit: float = 1e-3
    """Chance below which a candidate is held to leave too much unexplained. With ten workloads of one event, a true
    candidate falls below once in a thousand events."""

    even_odds: float = 20.0
    """Candidates this close in probability to the best one are not distinguished; 20 leaves 5 % for the others."""

    slower: float = 1.3
    """A level is another one if its loads take so much longer. Levels of every published hierarchy differ by half or
    more; a TLB miss every 15 lines, or a slow slice, adds less."""

    before_memory: float = 0.6
    """A plateau is a cache if its loads take less than so much of a flushed line's. Prefetchers make a chase over a
    large working set up to a quarter faster than flushed lines; the slowest last levels published take half as long."""

    outgrow: float = 2.8
    """Times the first level that a working set for the second one has where that one hides among others: nothing of it
    stays with LRU, 7 % with random replacement, and most published second levels are four times as large as the first
    one or larger."""

    beyond: float = 5.0
    """Times a cache that a pass over other lines must have at least, so that none of its lines are left: with random
    replacement exp(-5), 0.7 %, are."""

    still_there: float = 0.1
    """Relative. Lines are still in the same place behind a longer pass if they take at most so much longer: flushed
    ones, with which they are compared too, come up to a tenth earlier or later, as rows of memory are open or not."""

    largest_pass_bytes: int = 32 << 20
    """Longer passes take too long: a few hundred are counted."""

    evicted_lines: int = 16
    """Of the modified lines, those that are timed afterwards: one in each of some pages, so that no prefetcher brings
    it, and no more than a small first TLB has entries."""

    evicted_bytes: int = 4 << 20
    """Passes longer than this are gone through twice only, shorter ones as often as there are lines to modify. Means of
    32 lines are known within a fiftieth where single ones differ by a tenth."""

    stream_bytes: int = 32768
    """Of each array of a streaming kernel over flushed lines: 512 lines, beside which a prefetcher's overshoot past the
    end (some 20 lines, resident after the first pass) is nothing."""

    level_kernels: tuple[str, ...] = ("load", "store", "copy", "triad")
    """Streaming kernels over data that the second and a third cache serve: reads, writes, one of each, and two reads
    for a write. They decide no verdict, as prefetchers take part; they show how far an event is off there."""

    chase_lines: tuple[int, int] = (8, 16)
    """Lines of a flushed chase; the difference of the two is free of what a bracket costs. No more than a first TLB of
    16 pages holds, each line being in a page of its own."""

    draws: int = 4
    """Of these lines, of which the slowest chase counts: in the first draw, one machine of fifteen (seeds from 830001)
    had a line that a prefetcher brought, as pages that follow each other by chance look like a stride."""

    burst_lines: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    """Independent misses at once: around 4, where a count that is rounded down in each cycle (a quarter of what is in
    flight, as on some cores) begins to count at all."""

    full_lines: tuple[int, int] = (480, 960)
    """Misses at once that exceed every queue of misses or stores known (128 entries): four times as many, as it takes
    some turns until a line that comes lets just one other go, and twice that, whose difference is such turns only."""

    full_pages: int = 8
    """Pages in turn: half of what the smallest first TLB holds."""

    full_apart: int = 2
    """Lines from one of them to the next in a page: a next-line or pair prefetcher brings none of them."""

    chain_cycles: tuple[int, int] = (200, 4200)
    """Of two chains of additions, whose difference calibrates cycles per tick right before the readings that it is
    for, as a core's frequency changes within an epoch: the longer one is about as long as the timed workloads."""

    chain_repetitions: int = 400
    """Two million cycles: a thousandth of a second, in which the frequency seldom changes, and which a few thousand
    readings can bear."""

    work_cycles: int = 2000
    """Cycles of the idle workload per repetition."""

    smt_loss: float = 0.04
    """Least part of the events lost beside a busy sibling thread that is called undercounting: twice `trust`."""

    prefetch_loss: float = 0.04
    """Least part of a stream's lines missing that is called missing prefetches: twice `trust`."""

    next_lines: int = 16
    """Places in an ascending chase whose next line is timed, `repetitions` times each."""

    next_fraction: float = 0.125
    """Of these places, how many must find their line brought near: prefetchers that only misses train bring every other
    line, and some that remember an earlier chase bring fewer."""

    settle_cycles: int = 2500
    """Waited before that: longer than a batch of prefetches from memory takes."""

    stall_fraction: float = 0.25
    """Of the cycles that dependent multiplications add to a chase, the part that an event must count to include other
    stalls: between 0 (it does not) and 1/2 to 3/4 (a multiplication of 2 to 4 cycles begins in one of them)."""

    background: float = 0.01
    """Events that come while nothing happens, as a part of those of the workload that the event is for: half of
    `trust`, and 0.005 events a cycle for a line of 200 cycles."""

    line_cycles: float = 200.0
    """Cycles: about what a line from memory takes. In so many cycles of nothing, background events are counted."""

    beside: tuple[str, ...] = (
        "far_load",
        "far_store",
        "remote_load",
        "far_pair",
        "hot_load_",
        "hot_store_",
        "nops_",
        "far_chase_",
        "l2_chase",
        "arithmetic_",
        "driven_out_",
        "handed_over",
        "full_",
    )
    """Beginnings of the names of workloads that are also counted beside a busy sibling thread: for each role, one that
    is about it."""

    families: tuple[tuple[str, ...], ...] = (
        ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"),
        ("l2_rfo", "l2_rfo_miss"),
        ("l1d_writeback", "l2_writeback", "mem_write", "home_write"),
        ("load_fb_hit",),
        ("hitm_local",),
        ("remote_read", "link_flit", "l1d_fill", "l2_fill", "mem_read"),
    )
    """Roles whose events might count each other's lines: those of one direction."""

    dirty_lines: int = 128
    """Lines that are modified and then driven out: more than any page or prefetcher handles at once, and a few times as
    many still fit into any second level."""

    dirty_apart: int = 7
    """One of so many lines is modified: an odd number, so that they are in all sets, in about as many pages as a small
    first TLB has entries."""

    most_epochs: int = 12
    """As many for events that are still open after `epochs`. Three times as many make an interval half as wide (1.7 by
    their number, 1.25 by Student's t); what is open then would take very long."""

    def quicker(self) -> Params:
        """With --fast: as few epochs and repetitions as give an interval at all, and nothing that decides nothing."""
        return replace(self, epochs=4, repetitions=48, level_kernels=())
