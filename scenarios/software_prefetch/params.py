"""Tunables of the software-prefetch scenario, which finds what prefetch hints do, and which misses block a core."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """How much is measured, and which shares decide: a share passes a threshold if its 95 % interval does."""

    bursts: int = 4  # programs of a question, each on new lines, with 20 repetitions of each state
    clear: float = 0.7  # a share above it is the rule
    small: float = 0.3  # a share below it is an exception: a line that was evicted, a prefetch without an entry
    quiet: float = 0.8  # least share of lines without a prefetch that are in memory; else something else loads them
    penalty: float = 2.0  # least cycles of a TLB miss on any core
    errors: float = 4.0  # standard errors by which a difference is clear
    first_tlb: int = 192  # pages traversed: more than any first data TLB of an x86-64 CPU holds (96 at most so far)
    second_tlb: int = 8192  # pages: more than any second TLB holds (4,096 at most so far)
    touches: int = 32  # repetitions of first touches
    fresh_pages: int = 20  # pages touched in one repetition
    spacing: int = 16  # distance of these in pages, as a kernel may map several at one fault
    saved: float = 0.5  # share of a page fault's time: a first touch that takes no more found the page mapped
    kept: float = 0.75  # share of a page fault's time: a first touch that takes more found it unmapped
    fault: float = 1.5  # memory latencies that a page fault takes at least
    additions: int = 100  # additions behind a miss; any reorder window holds them together with the access
    burst: int = 224  # prefetches of a burst: published first levels keep 124 in flight at most
    per_page: int = 8  # prefetches per page: 28 pages fit any first TLB
    lost: float = 0.2  # share of a burst's late lines that are missing, above which prefetches are dropped
    held: float = 0.5  # memory latencies: a burst that takes so much longer than one of present lines had to wait
    store_rounds: int = 32  # rounds of stores at each time of the run at which they are measured
    vague: float = 0.15  # of a store's latency: an interval with a larger half width is not reported
    vague_cycles: float = 1.0  # the same in cycles, where that is more
    least_cycles: float = 0.5  # cycles; least half width of the interval, as fence and store overlap

    def quicker(self) -> Params:
        """Return the settings of --fast: half as many samples."""
        return replace(self, bursts=2, store_rounds=16, touches=16)
