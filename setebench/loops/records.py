"""What a loop is, as far as prefetching is concerned, and what may be done for it.

An *iteration* is the unit in which distances are counted, and what one is, `Loop.unit` says: a line of each stream, a
non-zero, a lookup, a node of a list. A *stream* is one of the sequences of addresses that the loop goes through:

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

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, runtime_checkable

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from setebench.errors import UsageError

Pattern = Literal["sequential", "strided", "indirect", "lookup", "chase"]
Strategy = Literal["none", "hardware", "l1_sw", "l2_sw", "two_stage_sw", "two_stage_hw_sw"]
"""Those of Fang et al. 2014, section 7: nothing (hardware prefetchers off), hardware alone, software prefetches
straight to L1, to L2 alone, to L2 and from there to L1, and to L1 beside a hardware prefetcher that serves L2."""

HINTS = ("t0", "t1", "t2", "nta", "w")
LINE_BYTES, PAGE_BYTES = 64, 4096
"""Of a cache line, on every x86 CPU, and of the smallest page."""

MOST_LINES = 1024
"""That an iteration may touch: each is a line of C to prefetch it."""

ADDRESSES = 1 << 48
"""Bytes that a program can address."""

Amount = Annotated[float, Meta(ge=1e-6, le=MOST_LINES * LINE_BYTES)]
Cycles = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=ADDRESSES)]
Bytes = Annotated[int, Meta(ge=0, le=ADDRESSES)]


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stream of a loop.

    `bytes_per_iteration` are the bytes of it that an iteration uses (in each step, for a `lookup`). `stride_bytes` lies
    between consecutive accesses, negative downwards; 0 where the pattern has no stride. `extent_bytes` is the span of
    addresses that it goes through. `steps` is the length of a lookup's chain of dependent accesses. `via` names the
    stream that holds the addresses or indices.
    `prefetched` says whether a policy prefetches it: streams that always hit, or that nobody can prefetch, are not.
    `address_cycles` is what it costs to compute one prefetch's address and issue it, in cycles of throughput.
    """

    name: str
    pattern: Pattern
    bytes_per_iteration: Amount
    stride_bytes: Annotated[int, Meta(ge=-ADDRESSES, le=ADDRESSES)] = 0
    writes: bool = False
    extent_bytes: Bytes = 0
    steps: Annotated[int, Meta(ge=1, le=64)] = 1
    via: str = ""
    prefetched: bool = True
    address_cycles: Annotated[float, Meta(ge=0, le=1e6)] = 1.0

    def __post_init__(self) -> None:
        if self.pattern == "strided" and not self.stride_bytes:
            raise UsageError(f"stream {self.name!r} is strided and needs stride_bytes")

    @property
    def regular(self) -> bool:
        """Whether its addresses follow from a counter, so that hardware can foresee them."""
        return self.pattern in ("sequential", "strided")

    @property
    def step_bytes(self) -> float:
        """How far a regular stream comes in an iteration."""
        return {"strided": float(self.stride_bytes), "sequential": self.bytes_per_iteration}.get(self.pattern, 0.0)

    @property
    def lines_per_iteration(self) -> float:
        """Cache lines that an iteration touches for the first time: the prefetches that one stage needs."""
        if self.regular:
            return min(abs(self.step_bytes), max(self.bytes_per_iteration, LINE_BYTES)) / LINE_BYTES
        return max(1.0, self.bytes_per_iteration / LINE_BYTES) * self.steps


class Loop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop: its streams, the core cycles that an iteration takes on data in L1, the bytes that it goes through, and
    how many iterations one pass has. `unit` is what an iteration is, in the plural, for sentences and tables. A loop
    whose iterations are `dependent` can't overlap the misses of one with those of the next. `measured_cycles` are the
    core cycles that an iteration takes now, on its own data, without software prefetches; 0 where nobody timed it."""

    name: str
    streams: Annotated[tuple[Stream, ...], Meta(min_length=1)]
    cycles_per_iteration: Annotated[float, Meta(ge=1e-6, le=1e9)]
    working_set_bytes: Count
    iterations: Count
    unit: str = "iterations"
    dependent: bool = False
    measured_cycles: Cycles = 0.0
    threads_per_core: Annotated[int, Meta(ge=1, le=1024)] = 1

    def __post_init__(self) -> None:
        if sum(stream.lines_per_iteration for stream in self.streams) > MOST_LINES:
            raise UsageError(f"loop {self.name!r}: an iteration touches more than {MOST_LINES} lines; describe a part")
        names = {stream.name for stream in self.streams}
        if len(names) < len(self.streams) or any(stream.via and stream.via not in names for stream in self.streams):
            raise UsageError(f"loop {self.name!r}: names of streams must differ, and `via` must name one of them")

    @property
    def prefetched(self) -> tuple[Stream, ...]:
        """The streams that a policy prefetches."""
        return tuple(stream for stream in self.streams if stream.prefetched)


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is prefetched how far ahead, for every `prefetched` stream of a loop alike.

    Distances are in iterations of the loop, 0 for none. The L2 stage brings lines from memory with `l2_hint`, the L1
    stage brings them on with `l1_hint`; one stage alone brings them all the way to where its hint fills."""

    l1_distance: int = 0
    l1_hint: str = "t0"
    l2_distance: int = 0
    l2_hint: str = "t1"

    def __post_init__(self) -> None:
        if self.l1_distance < 0 or self.l2_distance < 0:
            raise UsageError("a prefetch distance can't be negative")
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


@runtime_checkable
class RunsLoops(Protocol):
    """The capability of a machine to run whole loops with a prefetch policy: this CPU. Where a machine lacks it,
    `setebench.loops.traces` turns the same loops into probes."""

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """Ticks of one pass of the loop (`Loop.iterations`), int64, shape (rounds, len(policies)): in every round each
        policy once, in an order drawn anew, from the same state of the data. What a policy without any prefetch runs
        holds no prefetch instruction.

        Raises `UsageError` for an unknown name, `UnsupportedError` for a hint or memory that the machine lacks."""
        ...
