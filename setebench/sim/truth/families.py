"""Which family a simulated prefetcher belongs to: by what it does, not by how it is built.

Some mechanisms after publications do to all accesses that a family's rules speak of what these rules say. Nobody who
times loads could call them anything else, so they are that family, and what its rules leave open about them has no
truth: a stream buffer that any miss takes brings the next lines; with a filter it follows runs of neighbouring lines;
a reference prediction table follows equal distances of one instruction, and so do instruction classes without one for
other distances; a streamer with feedback is a stream whose degree and distance go by what
was of use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from setebench.sim import spec
from setebench.sim.spec.fields import kind_of

PREFETCHER_IDS = (
    "l1.next_line",
    "l1.stream",
    "l1.stride",
    "l1.region",
    "l2.pair",
    "l2.next_line",
    "l2.stream",
    "l2.stride",
)
"""Prefetchers that every machine has or lacks."""

WHERE_PRESENT = ("l2.up_down",)
"""Prefetchers that have a name too, but are only reported where a machine has them."""

OF_TABLES = ("streams", "replacement")
OF_PAGES = ("streams_per_page", "trigger_at_page_edge")
OF_STRIDES = ("min_stride", "max_stride", "ip_bits")
LEARNED = ("degree", "max_distance", "leads_by", "lead")


@dataclass(frozen=True)
class Member:
    """A prefetcher as its family describes it, and the parameters of that which have no truth."""

    known: spec.Known
    open: tuple[str, ...] = ()


def member(prefetcher: spec.AnyPrefetcher) -> Member | None:
    """A prefetcher as a member of a family; None where no family's rules say what it does."""
    if isinstance(prefetcher, spec.Known):
        return Member(prefetcher)
    common: dict[str, Any] = {name: getattr(prefetcher, name) for name in spec.Prefetcher.__struct_fields__}
    if isinstance(prefetcher, spec.StreamBuffer):
        return _stream_buffer(prefetcher, common)
    if isinstance(prefetcher, spec.SpatialPattern) and prefetcher.level == 1:
        return Member(_spatial(prefetcher, common))
    if isinstance(prefetcher, spec.ReferencePrediction) and prefetcher.level == 1:
        return _reference_prediction(prefetcher, common)
    if isinstance(prefetcher, spec.InstructionClasses) and not prefetcher.complex_degree:
        strides = spec.Stride(**common, degree=prefetcher.stride_degree, max_distance=prefetcher.stride_degree)
        return Member(strides, ("trigger", *LEARNED, *OF_TABLES, *OF_STRIDES))
    if isinstance(prefetcher, spec.FeedbackStream):
        known = spec.Streamer(**common, trigger=prefetcher.trigger, streams=prefetcher.streams)
        return Member(known, (*LEARNED, *OF_TABLES, *OF_PAGES))
    return None


def _stream_buffer(prefetcher: spec.StreamBuffer, common: dict[str, Any]) -> Member:
    """How many buffers there are does not show, as the lines of one that is given away stay in the cache."""
    depth = prefetcher.depth
    if not prefetcher.filter:
        return Member(spec.NextLine(**common, degree=depth))
    runs = spec.Streamer(**common, trigger=2, degree=depth, max_distance=depth, leads_by="access", directions="up")
    return Member(runs, ("leads_by", *OF_TABLES, *OF_PAGES))


def _spatial(prefetcher: spec.SpatialPattern, common: dict[str, Any]) -> spec.Region:
    return spec.Region(
        **common,
        region_size_bytes=prefetcher.region_size_bytes,
        active_regions=prefetcher.active_regions,
        entries=prefetcher.entries,
        indexed_by="ip+offset",
        ip_bits=prefetcher.ip_bits,
    )


def _reference_prediction(prefetcher: spec.ReferencePrediction, common: dict[str, Any]) -> Member:
    """One stride so many ahead of each access, and there is no stride that it does not follow. An instruction that made
    unequal distances before is in the state without prediction, from where it takes an access more than a new one."""
    trigger = 3 if prefetcher.starts == "transient" else 4
    known = spec.Stride(**common, trigger=trigger, max_distance=prefetcher.lookahead)
    return Member(known, (*(("lead",) if prefetcher.lookahead > 1 else ()), *OF_TABLES, *OF_STRIDES))


def identity_of(prefetcher: spec.AnyPrefetcher) -> str:
    """The name that findings have for a prefetcher: `l1.other` and `l2.other` for what no family's rules explain."""
    found = member(prefetcher)
    identity = f"l{prefetcher.level}.{kind_of(type(found.known))}" if found else ""
    return identity if identity in (*PREFETCHER_IDS, *WHERE_PRESENT) else f"l{prefetcher.level}.other"
