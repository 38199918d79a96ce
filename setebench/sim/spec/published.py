"""The schema of hardware prefetchers after publications, as far as no scenario has a name for them.

Each class names its source. What a source leaves to timing (when a prefetch arrives, when a block leaves a cache)
is put in numbers of accesses here, as prefetchers of this simulator see accesses and no times.
"""

from __future__ import annotations

from typing import Literal

from setebench.sim.spec.prefetchers import Prefetcher


class StreamBuffer(Prefetcher, frozen=True, kw_only=True, tag="stream_buffer"):
    """Stream buffers (Jouppi, ISCA 1990; the filter after Palacharla and Kessler, ISCA 1994), filling a cache.

    A miss that no buffer holds takes a buffer and has the lines after it fetched. An access to the first line of a
    buffer moves it on by that line, and so many lines are fetched that it is full again.
    """

    buffers: int = 4  # buffers (LRU), 1 to 32
    depth: int = 4  # lines in a buffer, 1 to 16
    head_only: bool = True  # False: an access to any of its lines moves a buffer on, past the lines before
    filter: bool = False  # True: a buffer is taken at the second of two misses to neighbouring lines, not at any


class BestOffset(Prefetcher, frozen=True, kw_only=True, tag="best_offset"):
    """Best-offset prefetching (Michaud, HPCA 2016): the line at one learned distance after every access.

    Learning goes on all the time: an offset scores when the line so far before an access was accessed not long ago.
    Until it ends for the first time the next line is fetched. Offsets have no prime factors but 2, 3 and 5.
    """

    max_offset: int = 63  # largest offset in lines, 1 to 63
    score_max: int = 31  # learning ends when an offset has this score, 2 to 63
    round_max: int = 100  # or when every offset was tried so often, 2 to 100
    bad_score: int = 1  # the best offset is used if it scored more, 0 to 31
    recent_entries: int = 256  # addresses remembered, a power of two, 16 to 1024
    arrives_after: int = 0  # accesses until what was fetched is there, before which it counts for nothing; 0 to 31


class SpatialPattern(Prefetcher, frozen=True, kw_only=True, tag="spatial"):
    """Spatial patterns (SMS, Somogyi et al., ISCA 2006), by two events (Bingo, Bakhshalipour et al., HPCA 2019).

    The first access to a region searches earlier visits that began with the same instruction at the same address, else
    with the same instruction at the same place of a region; lines come that enough of these visits touched.
    """

    region_size_bytes: int = 2048  # power of two, 2 to 64 lines
    active_regions: int = 16  # regions whose visit is recorded at once (LRU), 1 to 128
    entries: int = 64  # visits remembered (LRU), 1 to 1024
    vote_percent: int = 20  # a line comes if so many of the visits found touched it, 1 to 100
    ip_bits: int = 12  # low bits of the instruction address that distinguish instructions, 1 to 26


class ReferencePrediction(Prefetcher, frozen=True, kw_only=True, tag="reference_prediction"):
    """The reference prediction table (Chen and Baer, IEEE Transactions on Computers 44(5), 1995), by instruction.

    An entry is initial, transient, steady, or without prediction. Two equal distances make it steady, from where one
    other distance leads back to initial, keeping the old one; two different ones end at no prediction.
    """

    entries: int = 64  # a power of two, directly mapped by instruction address, 1 to 1024
    lookahead: int = 1  # strides ahead of the access, 1 to 16
    starts: Literal["transient", "steady"] = "transient"  # the first state that prefetches


class AccessMap(Prefetcher, frozen=True, kw_only=True, tag="access_map"):
    """Access map pattern matching (Ishii et al., ICS 2009): strides seen in a map of a page's accesses.

    An access at line t has t + k fetched if t - k and t - 2k were accessed, in any order and by any instruction, and
    t - k if t + k and t + 2k were, for the smallest strides k first.
    """

    maps: int = 52  # pages with a map (LRU), 1 to 128
    degree: int = 2  # lines per access at most, 1 to 16
    max_stride: int = 16  # largest k in lines, 1 to 31


class LocalDeltas(Prefetcher, frozen=True, kw_only=True, tag="local_deltas"):
    """Deltas of one instruction's accesses, however far apart in time: after Berti (Navarro-Torres et al., MICRO 2022).

    Distances from earlier accesses of the instruction to the present one are counted; after `learns_over` accesses
    those that held in enough of them are fetched at every access, until the next such count.
    """

    instructions: int = 16  # instructions followed (LRU), 1 to 64
    history: int = 8  # accesses of an instruction remembered, 1 to 16
    not_before: int = 1  # accesses that must lie between for a prefetch to be in time, 1 to 8
    learns_over: int = 16  # accesses, 4 to 64
    coverage_percent: int = 65  # of which a delta must hold in so many, 1 to 100
    degree: int = 4  # deltas in use at most, 1 to 8


class FeedbackStream(Prefetcher, frozen=True, kw_only=True, tag="feedback_stream"):
    """Feedback-directed prefetching (Srinath et al., HPCA 2007): a streamer whose use decides how far it goes.

    Five levels of distance and degree, in lines: 4 and 1, 8 and 1, 16 and 2, 32 and 4, 64 and 4. After `interval`
    lines fetched the fraction of them that was accessed in time raises the level by one or lowers it.
    """

    streams: int = 32  # streams followed at once (LRU), 1 to 64
    trigger: int = 3  # misses in one direction, at most 16 lines apart, before the first prefetch; 2 to 8
    start_level: int = 3  # at first, 1 to 5
    interval: int = 128  # lines fetched between two decisions, 16 to 8192
    low_percent: int = 40  # fewer accessed: one level down, 0 to 100
    high_percent: int = 75  # more accessed: one level up, 0 to 100


class SignaturePath(Prefetcher, frozen=True, kw_only=True, tag="signature_path"):
    """Signature path prefetching (Kim et al., MICRO 2016), without its register across pages.

    A page's latest distances make a signature, which predicts the next distance; predictions are followed as far as
    the product of their confidences goes.
    """

    pages: int = 64  # pages with a signature (LRU), 1 to 256
    patterns: int = 512  # signatures with predictions, a power of two, 64 to 4096
    threshold_percent: int = 25  # confidence that a prefetch needs, 1 to 100
    trust_percent: int = 90  # factor of confidence for each step ahead, 1 to 100
    max_depth: int = 8  # steps ahead at most, 1 to 16


class InstructionClasses(Prefetcher, frozen=True, kw_only=True, tag="ip_classes"):
    """Instruction-pointer classifier prefetching (Pakalapati and Panda, ISCA 2020), without its next-line fallback.

    An instruction that touches dense regions belongs to the global stream, else one with equal distances is of constant
    stride, else one whose distances follow a pattern is complex; its class says what is fetched.
    """

    instructions: int = 64  # a power of two, directly mapped, 1 to 1024
    regions: int = 8  # regions watched for being dense (LRU), 1 to 64
    dense_percent: int = 75  # lines of a region of 2 KiB that make it dense, 10 to 100
    stream_degree: int = 6  # lines per access of the global stream, 1 to 16
    stride_degree: int = 3  # strides per access, 1 to 16
    complex_degree: int = 3  # predicted distances per access, 0 (no such class) to 16


class NextPage(Prefetcher, frozen=True, kw_only=True, tag="next_page"):
    """The first lines of the next page while a run comes near a page's end, upwards or downwards.

    After the next-page prefetcher of Ivy Bridge (Intel optimization reference manual, 248966), which sees sequential
    accesses approach the boundary. It goes over the boundary whatever `crosses_4k` says.
    """

    trigger: int = 3  # accesses in one direction, at most two lines apart, that a run has by then; 2 to 16
    reach: int = 4  # lines from the end of the page, 1 to 32
    degree: int = 1  # lines of the next page, 1 to 8
    pages: int = 8  # pages watched at once (LRU), 1 to 64


Published = (
    StreamBuffer
    | BestOffset
    | SpatialPattern
    | ReferencePrediction
    | AccessMap
    | LocalDeltas
    | FeedbackStream
    | SignaturePath
    | InstructionClasses
    | NextPage
)

SHORT_RUNS_UNSURE = (SpatialPattern, BestOffset, NextPage)
"""Kinds of which a short run shows nothing, or what was learned elsewhere."""
