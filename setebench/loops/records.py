"""What a loop is, as far as prefetching is concerned, and what may be done for it.

An *iteration* is the unit in which distances are counted, and what one is, `Loop.unit` says: a line of each stream, a
non-zero, a lookup, a node of a list. A *stream* is one of the sequences of addresses that the loop goes through, and
belongs to one of five patterns:

* `sequential`: bytes that follow each other;
* `strided`: accesses `stride_bytes` apart;
* `indirect`: elements chosen by an index array that can be read ahead (`via` names its stream);
* `lookup`: `steps` dependent accesses (the levels of a tree, a bucket and its entries), those of different iterations
  independent of each other. Prefetched at a distance of d iterations, the loop is software-pipelined: step k of lookup
  i is done beside step 0 of lookup i + k d (Chen et al. 2007, "Improving hash join performance through prefetching");
* `chase`: every access needs the one before it; it can be prefetched only where an array of pointers can be read ahead
  (`via` names it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from setebench.errors import UsageError

Pattern = Literal["sequential", "strided", "indirect", "lookup", "chase"]
Strategy = Literal["none", "hardware", "l1_sw", "l2_sw", "two_stage_sw", "two_stage_hw_sw"]
PATTERNS: tuple[Pattern, ...] = ("sequential", "strided", "indirect", "lookup", "chase")

# The strategies of Fang et al. 2014, section 7: nothing (hardware prefetchers off), hardware alone, software prefetches
# straight to L1, to L2 alone, to L2 and from there to L1, and to L1 beside a hardware prefetcher that serves L2.
STRATEGIES: tuple[Strategy, ...] = ("none", "hardware", "l1_sw", "l2_sw", "two_stage_sw", "two_stage_hw_sw")
# The loops that come with the package, natively and as traces.
LOOP_NAMES = ("matmul", "spmv", "triad", "stencil", "strided", "hash_join", "tree_search", "list")
HINTS = ("t0", "t1", "t2", "nta", "w")
LINE_BYTES = 64
"""Of a cache line, on every x86 CPU."""

MOST_LINES = 1024
"""That an iteration may touch: each is a line of C to prefetch it, and a step of the model in every iteration."""

LEAST, ADDRESSES = 1e-6, 1 << 48
"""What is more than nothing, and the bytes that a program can address."""

STREAM_LIMITS = {
    # field: least and most
    "bytes_per_iteration": (LEAST, MOST_LINES * LINE_BYTES),
    "accesses_per_iteration": (LEAST, MOST_LINES),
    "stride_bytes": (-ADDRESSES, ADDRESSES),
    "elements": (0, ADDRESSES),
    "extent_bytes": (0, ADDRESSES),
    "steps": (1, 64),
    "address_cycles": (0, 1e6),
}
LOOP_LIMITS = {
    "cycles_per_iteration": (LEAST, 1e9),
    "working_set_bytes": (1, ADDRESSES),
    "iterations": (1, ADDRESSES),
    "measured_cycles": (0, 1e9),
    "threads_per_core": (1, 1024),
    "page_bytes": (0, ADDRESSES),
}


def _check(kind: str, name: str, described: msgspec.Struct, limits: Mapping[str, tuple[float, float]]) -> None:
    """Raise `UsageError` for a number that makes no sense: more than memory holds, or no number (NaN)."""
    for field, (least, most) in limits.items():
        if not least <= getattr(described, field) <= most:
            raise UsageError(f"{kind} {name!r}: {field} must be between {least:g} and {most:g}")


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stream of a loop.

    `bytes_per_iteration` are the bytes of it that an iteration uses, in `accesses_per_iteration` accesses (of each
    step, for a `lookup`). `stride_bytes` lies between consecutive accesses, negative downwards; 0 where the pattern has
    no stride. `elements` is how many there are, and `extent_bytes` the span of addresses they lie in. `steps` is the
    length of a lookup's chain of dependent accesses. `via` names the stream that holds the addresses or indices.
    `prefetched` says whether a policy prefetches it: streams that always hit, or that nobody can prefetch, are not.
    `address_cycles` is what it costs to compute one prefetch's address and issue it, in cycles of throughput.
    """

    name: str
    pattern: Pattern
    bytes_per_iteration: float
    stride_bytes: int = 0
    elements: int = 0
    accesses_per_iteration: float = 1.0
    writes: bool = False
    extent_bytes: int = 0
    steps: int = 1
    via: str = ""
    prefetched: bool = True
    address_cycles: float = 1.0

    def __post_init__(self) -> None:
        _check("stream", self.name, self, STREAM_LIMITS)
        if self.pattern == "strided" and not self.stride_bytes:
            raise UsageError(f"stream {self.name!r} is strided and needs stride_bytes")

    @property
    def lines_per_iteration(self) -> float:
        """Cache lines that an iteration touches for the first time: the prefetches that one stage needs."""
        if self.pattern == "sequential":
            return self.bytes_per_iteration / LINE_BYTES
        if self.pattern == "strided":
            return self.accesses_per_iteration * min(1.0, abs(self.stride_bytes) / LINE_BYTES)
        lines = max(1.0, self.bytes_per_iteration / self.accesses_per_iteration / LINE_BYTES)
        return self.accesses_per_iteration * lines * self.steps


class Loop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop: its streams, the core cycles that an iteration takes on data in L1, the bytes that it goes through, and
    how many iterations one pass has. `unit` is what an iteration is, in the plural, for sentences and tables. A loop
    whose iterations are `dependent` can't overlap the misses of one with those of the next. `measured_cycles` are the
    core cycles that an iteration takes now, on its own data, without software prefetches; 0 where nobody timed it.
    `page_bytes` is the size of the pages that its data lie on; 0 stands for the largest that the machine has."""

    name: str
    streams: tuple[Stream, ...]
    cycles_per_iteration: float
    working_set_bytes: int
    iterations: int
    unit: str = "iterations"
    dependent: bool = False
    measured_cycles: float = 0.0
    threads_per_core: int = 1
    page_bytes: int = 0

    def __post_init__(self) -> None:
        if not self.streams:
            raise UsageError(f"loop {self.name!r} needs at least one stream")
        _check("loop", self.name, self, LOOP_LIMITS)
        if sum(stream.lines_per_iteration for stream in self.streams) > MOST_LINES:
            raise UsageError(f"loop {self.name!r}: an iteration touches more than {MOST_LINES} lines; describe a part")
        names = [stream.name for stream in self.streams]
        missing = [stream.via for stream in self.streams if stream.via and stream.via not in names]
        if len(set(names)) < len(names) or missing:
            raise UsageError(f"loop {self.name!r}: names of streams must differ, and `via` must name one of them")

    @property
    def prefetched(self) -> tuple[Stream, ...]:
        """The streams that a policy prefetches."""
        return tuple(stream for stream in self.streams if stream.prefetched)


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is prefetched how far ahead, for every `prefetched` stream of a loop alike.

    Distances are in iterations of the loop, 0 for none. The L2 stage brings lines from memory with `l2_hint`, the L1
    stage brings them on with `l1_hint`; one stage alone brings them all the way to where its hint fills. With
    `hardware` off the hardware prefetchers are switched off, where the machine can do that. With `compiler` on, the
    loop holds what the compiler puts in by itself (`-fprefetch-loop-arrays`) in place of both stages."""

    l1_distance: int = 0
    l1_hint: str = "t0"
    l2_distance: int = 0
    l2_hint: str = "t1"
    hardware: bool = True
    compiler: bool = False

    def __post_init__(self) -> None:
        if self.l1_distance < 0 or self.l2_distance < 0:
            raise UsageError("a prefetch distance can't be negative")
        if self.compiler and self.stages:
            raise UsageError("the compiler chooses its distances itself; a policy of the compiler's has none")
        for hint in (self.l1_hint, self.l2_hint):
            if hint not in HINTS:
                raise UsageError(f"{hint!r} is no prefetch hint; use one of {', '.join(HINTS)}")

    @property
    def parts(self) -> tuple[tuple[str, int, str], ...]:
        """The stages that it has, the further one first: to which level, how far ahead, with which hint."""
        both = (("l2", self.l2_distance, self.l2_hint), ("l1", self.l1_distance, self.l1_hint))
        return tuple(each for each in both if each[1])

    @property
    def stages(self) -> int:
        """How many software prefetches a line gets: 0, 1 or 2."""
        return len(self.parts)

    @property
    def furthest(self) -> int:
        """The longer one of the distances."""
        return max(self.l1_distance, self.l2_distance)
