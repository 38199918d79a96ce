"""Which family a simulated prefetcher belongs to: by what it does, not by how it is built.

Some mechanisms after publications do to all accesses that a family's rules speak of what these rules say. Nobody who
times loads could call them anything else, so they are that family, and what its rules leave open about them has no
truth.
"""

from __future__ import annotations

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

TABLES, PAGES = ("streams",), ("streams_per_page", "trigger_at_page_edge")
STRIDES, LEARNED = ("min_stride", "max_stride", "ip_bits"), ("degree", "max_distance", "leads_by", "lead")
"""Parameters that rules may leave open."""

Member = tuple[spec.Known, tuple[str, ...]]
"""A prefetcher as its family describes it, and the parameters of that which have no truth."""


def member(prefetcher: spec.AnyPrefetcher) -> Member | None:
    """A prefetcher as a member of a family; None where no family's rules say what it does.

    A stream buffer that any miss takes brings the next lines, with a filter it follows runs; how many there are does
    not show, as their lines stay in the cache. A reference prediction table is one stride ahead, which takes an access
    more where its instruction made unequal distances before; instruction classes without one for other distances are
    strides; a streamer with feedback is a stream whose degree and distance go by what was of use."""
    if isinstance(prefetcher, spec.Streamer) and prefetcher.feedback_interval:
        return prefetcher, (*LEARNED, *TABLES, *PAGES)
    if isinstance(prefetcher, spec.Known):
        return prefetcher, ()
    each: Any = prefetcher
    common: dict[str, Any] = {name: getattr(prefetcher, name) for name in spec.Prefetcher.__struct_fields__}
    if isinstance(prefetcher, spec.StreamBuffer) and not prefetcher.filter:
        return spec.NextLine(**common, degree=each.depth), ()
    if isinstance(prefetcher, spec.StreamBuffer):
        runs = {"degree": each.depth, "max_distance": each.depth, "leads_by": "access", "directions": "up"}
        return spec.Streamer(**common, trigger=2, **runs), ("leads_by", *TABLES, *PAGES)
    if isinstance(prefetcher, spec.InstructionClasses) and not prefetcher.complex_degree:
        strides = spec.Stride(**common, degree=each.stride_degree, max_distance=each.stride_degree)
        return strides, ("trigger", *LEARNED, *TABLES, *STRIDES)
    if isinstance(prefetcher, spec.ReferencePrediction) and prefetcher.level == 1:
        led, trigger = ("lead",) if each.lookahead > 1 else (), 3 if each.starts == "transient" else 4
        strides = spec.Stride(**common, trigger=trigger, max_distance=each.lookahead)
        return strides, (*led, *TABLES, *STRIDES)
    return None


def identity_of(prefetcher: spec.AnyPrefetcher) -> str:
    """The name that findings have for a prefetcher: `l1.other` and `l2.other` for what no family's rules explain."""
    found = member(prefetcher)
    identity = f"l{prefetcher.level}.{kind_of(type(found[0]))}" if found else ""
    return identity if identity in (*PREFETCHER_IDS, *WHERE_PRESENT) else f"l{prefetcher.level}.other"
