"""The truth about hardware prefetchers, in the parameter names of findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.truth.described import described, lead_of
from setebench.sim.truth.families import PREFETCHER_IDS, WHERE_PRESENT, identity_of, member
from setebench.sim.truth.finding import absent, exact

HUGE = 2097152

MEANT = {
    "l1.next_line": ("directions",),
    "l1.stream": ("shared_by_cores",),
    "l1.stride": ("shared_by_cores",),
    "l2.pair": ("trigger", "degree", "max_distance"),
    "l2.next_line": ("trigger", "directions"),
    "l2.stride": ("indexed_by",),
    "l2.up_down": ("trigger", "degree", "max_distance", "directions"),
}
"""What the name says already, so that nobody could get it wrong: a pair is one line more, by one access; what goes up
and down goes both ways; the next line lies above; tables of level 1 are a core's own; level 2 sees a line again only
after level 1 lost it, so that one access is all there is; and no CPU is known to pass it the instruction's address."""

UNITS = {
    **dict.fromkeys(("trigger", "trigger_by_l1_prefetcher"), "accesses"),
    **dict.fromkeys(("degree", "max_distance"), "lines"),
    **dict.fromkeys(("streams", "streams_per_page"), "streams"),
    **dict.fromkeys(("min_stride", "max_stride", "region_size"), "bytes"),
}
"""Units of counts, by parameter; others follow from the value's type."""

COPIES: dict[type[spec.Prefetcher], dict[str, str]] = {
    spec.Streamer: {name: name for name in ("trigger", "counts", "degree", "max_distance", "directions", "streams")},
    spec.Stride: {
        **{name: name for name in ("trigger", "degree", "max_distance", "directions")},
        "streams": "entries",
        "max_stride": "max_stride_bytes",
    },
    # a region's trigger counts generations, not accesses, so it is no `trigger`
    spec.Region: {"region_size": "region_size_bytes", "streams": "active_regions"},
    spec.NextLine: {"degree": "degree", "max_distance": "degree"},
}
"""Parameters that are a kind's own fields as they are. Distances of strides are in strides, which are lines at a stride
of one line."""

Facts = dict[str, Any]


def prefetchers(machine: spec.Machine) -> Iterator[Finding]:
    """Every parameter of the machine's prefetchers, and the absence of the usual ones that it lacks. Those of no
    family are described, all of a level together, as `LEVEL.other`."""
    present: dict[str, list[spec.AnyPrefetcher]] = {}
    for each in machine.prefetchers:
        present.setdefault(identity_of(each), []).append(each)
    for identity in (*PREFETCHER_IDS, *WHERE_PRESENT, "l1.other", "l2.other"):
        name = f"prefetcher.{identity}"
        if identity in present:
            yield exact(f"{name}.present", True, "bool")
            for parameter, value in _facts(machine, present[identity]).items():
                unit = {bool: "bool", str: "string", list: "list"}.get(type(value)) or UNITS[parameter]
                yield exact(f"{name}.{parameter}", value, unit)
        elif identity not in WHERE_PRESENT:
            yield absent(f"{name}.present")


def unjudged(machine: spec.Machine) -> frozenset[str]:
    """Parameters of the machine's prefetchers that have no truth: what their names say, or their rules leave open."""
    names = set()
    for each in machine.prefetchers:
        identity, found = identity_of(each), member(each)
        without = (*MEANT.get(identity, ()), *(found[1] if found else ()))
        names |= {f"prefetcher.{identity}.{name}" for name in without}
    return frozenset(names)


def _facts(machine: spec.Machine, alike: list[spec.AnyPrefetcher]) -> Facts:
    """Of a prefetcher of a family, all but what the family's rules leave open about it; of those of a level without a
    name, what they do together in a run."""
    found = member(alike[0])
    if found is not None and not identity_of(alike[0]).endswith("other"):
        return {name: value for name, value in _rules(machine, found[0]).items() if name not in found[1]}
    lead, furthest = described(tuple(alike), machine.line_size_bytes, machine.levels)
    first = next(number for number, lines in enumerate((*lead, 1), 1) if lines)
    return {"lead": list(lead)} | ({"trigger": first, "max_distance": furthest} if furthest else {})


def _rules(machine: spec.Machine, each: spec.Known) -> Facts:
    """What all kinds have in common, and what is a kind's own."""
    second, core = each.level == 2, machine.core
    facts = Facts(trained_by=[kind for kind in ("load", "store", "prefetch") if kind in each.trained_by])
    facts |= {"fills": each.fills, **{name: getattr(each, field) for name, field in COPIES.get(type(each), {}).items()}}
    # what follows from a single access keeps nothing that threads could share
    one_access = isinstance(each, spec.LinePair) or (isinstance(each, spec.NextLine) and each.trigger == 1)
    if core.threads_per_core > 1 and not one_access:
        facts["shared_by_smt"] = each.shared_by_smt
    if core.cores > 1 and second and isinstance(each, spec.Streamer | spec.Stride):
        facts["shared_by_cores"] = each.shared_by_cores
    if not isinstance(each, spec.LinePair | spec.Region):  # those stay in an aligned block of lines
        facts["crosses_4k"] = each.crosses_4k
        if HUGE in machine.memory.page_sizes:
            facts["crosses_4k_in_2m"] = each.crosses_4k_in_2m
    wakes = any(other.level == 1 and member(other) for other in machine.prefetchers)
    if second and not isinstance(each, spec.Stride) and wakes:
        facts["trained_by_l1_prefetcher"] = "l1_prefetcher" in each.trained_by
    return facts | _own(machine, each)


def _own(machine: spec.Machine, each: spec.Known) -> Facts:
    """What only some prefetchers of a kind have, beside `COPIES`."""
    facts, second, line = Facts(), each.level == 2, machine.line_size_bytes
    runs = isinstance(each, spec.NextLine | spec.Streamer)
    if isinstance(each, spec.NextLine):
        facts |= {"trigger": each.trigger} if not second else {}
        facts |= {"streams": each.streams} if each.trigger > 1 else {}
    if isinstance(each, spec.Streamer):
        # how many requests of level 1's next-line prefetcher are enough (one in Table VI)
        wakes = any(isinstance(other, spec.NextLine) and other.level == 1 for other in machine.prefetchers)
        if wakes and second and "l1_prefetcher" in each.trained_by:
            facts["trigger_by_l1_prefetcher"] = each.trigger_by_l1_prefetcher or each.trigger
        if each.counts == "run":  # what follows lines in any order has neither edges, batches nor ways of its own
            facts |= {"leads_by": each.leads_by, "streams_per_page": each.streams_per_page}
            facts["trigger_at_page_edge"] = list(each.trigger_at_page_edge or (each.trigger,) * 4)
    if isinstance(each, spec.Stride):
        # level 2 sees which line is accessed, not where in it: all smallest strides up to a line are the same
        facts["min_stride"] = max(each.min_stride_bytes, line if second else 0)
        runs = each.min_stride_bytes <= line <= each.max_stride_bytes
    if isinstance(each, spec.Region) or (isinstance(each, spec.Stride) and not (second and each.indexed_by == "page")):
        facts["indexed_by"] = each.indexed_by
        facts |= {"ip_bits": list(range(each.ip_bits))} if "ip" in each.indexed_by else {}
    if runs:
        facts["lead"] = list(lead_of(each, line, -1 if getattr(each, "directions", "up") == "down" else 1))
    return facts
