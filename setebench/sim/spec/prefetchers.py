"""The schema of a machine file's `[[prefetchers]]`: what all kinds have in common, and each kind with its source.

What a publication leaves to timing (when a prefetch arrives, when a block leaves a cache) is put in numbers of accesses
here, as prefetchers of this simulator see accesses and no times.
"""

from __future__ import annotations

from typing import Annotated, Literal

from setebench.sim.spec.table import Lines, Size, Table, WhenFull, between, says, several

AccessKind = Literal["load", "store", "prefetch", "l1_prefetcher"]
"""What may train a prefetcher: loads, stores, software prefetches, and (at level 2) requests of level-1 prefetchers."""

Directions = Literal["up", "down", "both"]
Leads = Annotated[tuple[Annotated[int, between(0, 63, "lines")], ...], several(1, 32, "after 1, 2, 3, ... accesses")]
Mapped = Literal[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
IP_BITS = between(1, 26, "low bits of the instruction address that distinguish keys")


class Prefetcher(Table, frozen=True, kw_only=True, tag_field="kind"):
    """What all hardware prefetchers have in common."""

    level: Annotated[Literal[1, 2], says("whose accesses it sees: by virtual addresses at 1, physical ones at 2")]
    fills: Annotated[Literal["l1", "l2", "l3"], says("nearest level that gets the lines (not above `level`)")] = "l2"
    trained_by: Annotated[tuple[AccessKind, ...], several(1, 4, "what trains it; the last only at level 2")] = ("load",)
    crosses_4k: Annotated[bool, says("goes past a 4 KiB boundary (at level 2: to the physically next page)")] = False
    crosses_4k_in_2m: Annotated[bool, says("goes past a 4 KiB boundary inside a 2 MiB page")] = False
    shared_by_smt: Annotated[bool, says("false: each SMT thread trains entries of its own")] = True
    when_full: Annotated[WhenFull, says("what a prefetch does that finds no miss entry free")] = "drops"


class NextLine(Prefetcher, frozen=True, kw_only=True, tag="next_line"):
    """The lines after one that was accessed `trigger` times (Sandy Bridge's level-1 streamer: 3 loads).

    With a degree above 1 it is next-N-line prefetching (Smith, ACM Computing Surveys 14(3), 1982).
    """

    trigger: Annotated[Lines, says("accesses to the same line before the next one is fetched")] = 1
    only_misses: Annotated[bool, says("only accesses that miss this level count")] = False
    streams: Annotated[Size, says("lines watched at once (LRU); matters for trigger > 1 only")] = 8
    degree: Annotated[Lines, says("lines fetched after it")] = 1


class LinePair(Prefetcher, frozen=True, kw_only=True, tag="pair"):
    """The other line of an aligned pair of lines, on a miss."""


class Streamer(Prefetcher, frozen=True, kw_only=True, tag="stream"):
    """Ascending or descending misses in a 4 KiB page, then batches ahead of the accesses (the paper's Figure 7).

    A batch starts after the last line fetched. On an access to a line fetched before, the next batch follows if its
    first line lies less than `max_distance` lines ahead of the access; so batches reach `max_distance + degree - 2`
    lines ahead at most. With trigger 3, degree 4, ramp 2, 3 and distance 16 that is Figure 7 line for line.

    Other streamers fetch `degree` further lines at every access to a new line of the run, or at every access, and never
    a line more than `max_distance` ahead (after the optimization manuals of Intel, 248966, whose streamer runs up to 20
    lines ahead of the loads). With a ramp of 1, 2 and a degree of 3 such a one goes from one line per access to three.

    With a `feedback_interval` prefetching is feedback-directed (Srinath et al., HPCA 2007): after so many lines fetched
    `max_distance` doubles, to 64 at most, where more than 75 % of them were accessed in time, and halves, to 4 at
    least, below 40 %. The degree follows from it: 1 below 16 lines, 2 below 32, else 4.
    """

    trigger: Annotated[Lines, says("misses in one direction before the first batch")] = 3
    trigger_at_page_edge: Annotated[
        tuple[Lines, ...],
        several(0, 4, "misses that a run from line 0, 1, last but one, last of a page needs; empty = `trigger`"),
    ] = ()
    trigger_by_l1_prefetcher: Annotated[int, between(0, 16, "misses needed of those; 0 = as of any other")] = 0
    degree: Annotated[Lines, says("lines per batch in steady state")] = 4
    ramp: Annotated[tuple[Lines, ...], several(0, 4, "lines of the first batches, before `degree` holds")] = ()
    max_distance: Annotated[Size, says("lines, see above")] = 16
    directions: Annotated[Directions, says("which runs it follows")] = "both"
    streams: Annotated[Size, says("streams followed at once (LRU)")] = 16
    streams_per_page: Annotated[Literal[1, 2], says("2 = one upwards and one downwards")] = 1
    leads_by: Annotated[
        Literal["batch", "new_line", "access"],
        says("what makes a stream fetch on: an access near its end, one to a line not reached before, or any"),
    ] = "batch"
    counts: Annotated[
        Literal["run", "distinct"],
        says(
            "what counts before the first line: misses that go one way, or of distinct lines of the page in any order "
            "(Golden Cove's); then each new line brings `degree` beyond the furthest"
        ),
    ] = "run"
    feedback_interval: Annotated[
        int, between(0, 8192, "lines fetched between two decisions by their use; 0 = none")
    ] = 0
    silenced_by_software: Annotated[bool, says("true: a software prefetch of its lines ends a stream")] = False


class Stride(Prefetcher, frozen=True, kw_only=True, tag="stride"):
    """Equal distances between the accesses of one instruction (or page)."""

    trigger: Annotated[int, between(2, 16, "accesses at equal distances before the first prefetch")] = 3
    degree: Annotated[Lines, says("prefetches per access at most")] = 1
    max_distance: Annotated[Size, says("furthest prefetch, in strides; at least the degree")] = 1
    min_stride_bytes: Annotated[int, between(1, 1 << 21, "smaller strides are not followed")] = 1
    max_stride_bytes: Annotated[int, between(1, 1 << 21, "larger strides are not followed")] = 2048
    directions: Annotated[Directions, says("which strides it follows")] = "both"
    entries: Annotated[Size, says("table size (LRU)")] = 8
    indexed_by: Annotated[Literal["ip", "page", "ip+page"], says("what selects the entry an access trains")] = "ip"
    ip_bits: Annotated[int, IP_BITS] = 8


class Region(Prefetcher, frozen=True, kw_only=True, tag="region"):
    """On the first access to a region the lines of it that earlier generations of the same key had touched.

    By default it is spatial memory streaming (SMS, Somogyi et al., ISCA 2006): lines that the latest generation touched
    which began with the same instruction at the same place of a region.
    """

    region_size_bytes: Annotated[Literal[64, 128, 256, 512, 1024, 2048, 4096, 8192], says("2 to 64 lines")] = 2048
    active_regions: Annotated[Size, says("regions whose footprint is recorded at once (LRU)")] = 16
    entries: Annotated[Size, says("footprints remembered (LRU)")] = 64
    indexed_by: Annotated[Literal["ip", "ip+offset", "offset"], says("of the first access to the region")] = "ip+offset"
    ip_bits: Annotated[int, IP_BITS] = 12


class UpDown(Prefetcher, frozen=True, kw_only=True, tag="up_down"):
    """The next or the previous line on every miss, whichever way the page's latest accesses went."""

    streams: Annotated[Size, says("pages whose direction is remembered (LRU)")] = 32


class StreamBuffer(Prefetcher, frozen=True, kw_only=True, tag="stream_buffer"):
    """Stream buffers (Jouppi, ISCA 1990), filling a cache.

    A miss that no buffer holds takes a buffer and has the lines after it fetched. An access to the first line of a
    buffer moves it on by that line, and so many lines are fetched that it is full again.
    """

    buffers: Annotated[Size, says("buffers (LRU)")] = 4
    depth: Annotated[Lines, says("lines in a buffer")] = 4


class BestOffset(Prefetcher, frozen=True, kw_only=True, tag="best_offset"):
    """Best-offset prefetching (Michaud, HPCA 2016): the line at one learned distance after every access.

    Learning goes on all the time: an offset scores when the line so far before an access was accessed not long ago.
    Until it ends for the first time the next line is fetched. Offsets have no prime factors but 2, 3 and 5.
    """

    max_offset: Annotated[int, between(1, 63, "largest offset in lines")] = 63
    round_max: Annotated[int, between(2, 100, "learning ends when an offset scores 31, or all were tried so often")] = (
        100
    )
    recent_entries: Annotated[Literal[16, 32, 64, 128, 256, 512, 1024], says("addresses remembered")] = 256


class ReferencePrediction(Prefetcher, frozen=True, kw_only=True, tag="reference_prediction"):
    """The reference prediction table (Chen and Baer, IEEE Transactions on Computers 44(5), 1995), by instruction.

    An entry is initial, transient, steady, or without prediction. Two equal distances make it steady, from where one
    other distance leads back to initial, keeping the old one; two different ones end at no prediction.
    """

    entries: Annotated[Mapped, says("of a table that is directly mapped")] = 64
    lookahead: Annotated[Lines, says("strides ahead of the access")] = 1
    starts: Annotated[Literal["transient", "steady"], says("the first state that prefetches")] = "transient"


class InstructionClasses(Prefetcher, frozen=True, kw_only=True, tag="ip_classes"):
    """Instruction-pointer classifier prefetching (Pakalapati and Panda, ISCA 2020), without its next-line fallback.

    An instruction that touches dense regions belongs to the global stream, else one with equal distances is of constant
    stride, else one whose distances follow a pattern is complex; its class says what is fetched.
    """

    instructions: Annotated[Mapped, says("in a table that is directly mapped")] = 64
    stream_degree: Annotated[Lines, says("lines per access of the global stream")] = 6
    stride_degree: Annotated[Lines, says("strides per access")] = 3
    complex_degree: Annotated[int, between(0, 16, "predicted distances per access; 0 = no such class")] = 3


class Lead(Prefetcher, frozen=True, kw_only=True, tag="lead"):
    """Lines ahead of a run by its accesses: what curves of presence show of a behaviour that no other kind is.

    An access goes on the run of its page whose latest line is nearest, and not further than `reach`. At the n-th of one
    way all lines come from `nearest` up to the n-th number of a list ahead; its last number holds for all after it.
    """

    leads: Annotated[Leads, says("lines ahead by accesses, where the latest two are on neighbouring lines")] = (0, 1)
    leads_by_twos: Annotated[Leads, says("the same where the latest two are two lines apart")] = (0,)
    leads_beyond: Annotated[Leads, says("the same where they are further apart")] = (0,)
    nearest: Annotated[Lines, says("the first line ahead that comes")] = 1
    reach: Annotated[Size, says("lines from one access of a run to the next at most")] = 64
    runs: Annotated[Size, says("runs remembered (LRU)")] = 32


Known = NextLine | LinePair | Streamer | Stride | Region | UpDown
"""Kinds that scenarios have names for."""

Published = StreamBuffer | BestOffset | ReferencePrediction | InstructionClasses
AnyPrefetcher = Known | Published | Lead
