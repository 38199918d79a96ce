"""Everything that can be set of the question whether events count what their roles say."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables, each with its unit and why it is what it is."""

    epochs: int = 5  # of everything, in another order each: one more than give an interval, as readings may wrap
    most_epochs: int = 12  # for events still open: half as wide an interval, and what is open then takes very long
    amounts: tuple[int, ...] = (1, 2, 4)  # units in a reading: two give a slope, the third a bend (19 % for n^0.85)
    repetitions: int = 96  # a unit of single lines: an interrupt's handful is a few percent of one reading
    tries: int = 10  # of a reading that wrapped or shows a gap; one that wraps in six of ten is whole then
    trust: float = 0.02  # relative: a scale within this is trusted (Röhl et al. 2015: -1 to +2 % are accurate)
    exactness: float = 0.004  # relative error of a known volume: lines of interrupts and page walks; a fifth of `trust`
    looseness: float = 0.12  # lines per access, of what a level serves: replacement and prefetchers are not known
    store_looseness: float = 0.3  # the same of stores: a prefetcher may have owned the line, which no load's time shows
    least_fit: float = 1e-3  # chance below which a candidate leaves too much unexplained: once in 1,000 true ones
    even_odds: float = 20.0  # candidates this close in probability are not distinguished; 5 % for the others
    slower: float = 1.3  # times a level's latency that the next one's is at least; published ones differ by half
    before_memory: float = 0.6  # of a flushed line's latency: a faster plateau is a cache
    outgrow: float = 2.8  # times L1, of a working set for a second level that hides among others: none stays with LRU
    beyond: float = 5.0  # times a cache, of a pass that leaves none of its lines: exp(-5) at random
    still_there: float = 0.1  # relative: lines that take no longer than this are where they were; rows of memory vary
    largest_pass_bytes: int = 32 << 20  # longer passes take too long: a few hundred are counted
    long_pass_bytes: int = 4 << 20  # a longer one is timed twice only, a shorter one as often as there are lines
    evicted_lines: int = 16  # modified lines that are timed afterwards: a page each, fewer than a small TLB's entries
    stream_bytes: int = 32768  # of each array of a stream: 512 lines, beside which a prefetcher's overshoot is nothing
    chase_lines: tuple[int, int] = (8, 16)  # of flushed chases, whose difference is free of a bracket's cost
    draws: int = 4  # of these lines, the slowest counts: pages in a row by chance look like a stride to a prefetcher
    burst_lines: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # misses at once, around the 4 where a floor of quarters begins
    full_lines: tuple[int, int] = (480, 960)  # misses at once, four and eight times the largest queue known
    full_pages: int = 8  # of these in turn: half of what the smallest first TLB holds
    full_apart: int = 2  # lines from one to the next in a page: no next-line or pair prefetcher brings one
    chain_cycles: tuple[int, int] = (200, 4200)  # of additions, whose difference calibrates cycles per tick
    chain_repetitions: int = 400  # of these: a thousandth of a second, in which the frequency seldom changes
    work_cycles: int = 2000  # of the idle workload
    smt_loss: float = 0.04  # least part of events lost beside a sibling that is undercounting: twice `trust`
    prefetch_loss: float = 0.04  # least part of a stream's lines missing that is missing prefetches: twice `trust`
    stall_fraction: float = 0.25  # of the cycles that multiplications add: 0 where they are not counted, else over 1/2
    background: float = 0.01  # events while nothing happens, as a part of those of a line: half of `trust`
    line_cycles: float = 200.0  # about what a line from memory takes: in that time background is counted
    dirty_lines: int = 128  # modified, then driven out: a few times as many fit any second level
    dirty_apart: int = 7  # lines from one of these to the next: odd, so that they are in all sets

    def quicker(self) -> Params:
        """With --fast: as few epochs and repetitions as give an interval at all."""
        return replace(self, epochs=4, repetitions=48)
