"""All that can be set about the questions on software prefetches."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """Settings of the scenario. A share of lines or repetitions passes a threshold if its 95 % interval does."""

    bursts: int = 8  # programs of a question, each on new lines, with 15 repetitions of each state
    clear: float = 0.7  # what holds for more is the rule
    small: float = 0.3  # what holds for less is an exception: a line pushed out, a prefetch that found no entry
    quiet: float = 0.8  # lines that nobody prefetched must be in memory so often, or something else brings them
    penalty: float = 2.0  # cycles that a TLB miss costs at least on any core
    errors: float = 4.0  # standard errors that it is clear by
    first_tlb: int = 192  # pages traversed: more than any first data TLB of an x86-64 CPU holds, 96 at most so far
    second_tlb: int = 8192  # more than any second one holds, 4,096 so far
    touches: int = 32  # repetitions of first touches
    fresh_pages: int = 20  # touched in one repetition
    spacing: int = 16  # pages between them, as a kernel may map several at one fault
    saved: float = 0.5  # a first touch that takes less of a page fault found the page there
    kept: float = 0.75  # and one that takes more did not
    fault: float = 1.5  # memory latencies that a page fault takes at least
    additions: int = 100  # behind a miss, which fit any reorder window together with the access
    burst: int = 224  # prefetches, more than published first levels keep in flight (124 at most)
    per_page: int = 8  # of them: 28 pages fit any first TLB
    lost: float = 0.2  # of late lines of a burst: more did not come where prefetches are dropped
    held: float = 0.5  # memory latencies longer than a burst of present lines: it had to wait
    store_rounds: int = 8  # of stores at one time of the run
    vague: float = 0.15  # of a store's latency, half an interval that is too wide to report
    vague_cycles: float = 1.0  # or so many cycles
    least_cycles: float = 0.5  # half an interval is no less, as fence and store overlap

    def quicker(self) -> Params:
        """For --fast: fewer samples."""
        return replace(self, bursts=4, store_rounds=4, touches=16)
