"""The truth about hardware prefetchers, in the parameter names of findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.spec.fields import finding_names, kind_of
from setebench.sim.truth.described import described, lead_of
from setebench.sim.truth.finding import absent, exact

HUGE = 2097152

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

UNITS = {
    **dict.fromkeys(("trigger", "trigger_by_l1_prefetcher"), "accesses"),
    **dict.fromkeys(("degree", "max_distance"), "lines"),
    **dict.fromkeys(("streams", "streams_per_page"), "streams"),
    **dict.fromkeys(("min_stride", "max_stride", "region_size"), "bytes"),
}
"""Units of counts, by parameter."""

UNSEEN = (
    "level",
    "when_full",
    "ramp",
    "silenced_by_software",
    "only_misses",
    "entries",
    "feedback_interval",
)
"""Fields of which no finding says anything."""

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
            yield exact(f"{name}.present", True)
            for parameter, value in _facts(machine, present[identity]).items():
                yield exact(f"{name}.{parameter}", value, UNITS.get(parameter, ""))
        elif identity not in WHERE_PRESENT:
            yield absent(f"{name}.present")


def unjudged(machine: spec.Machine) -> frozenset[str]:
    """Parameters of the machine's prefetchers that have no truth, as their rules leave them open."""
    found = ((identity_of(each), member(each)) for each in machine.prefetchers)
    return frozenset(f"prefetcher.{identity}.{name}" for identity, own in found if own for name in own[1])


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
    """The fields of the prefetcher's kind by their findings' names, but for what can't be seen of them on the machine;
    and what is not a field."""
    line, core, kind, second = machine.line_size_bytes, machine.core, type(each), each.level == 2
    first = [one for one in machine.prefetchers if one.level == 1]
    facts: Facts = {said: getattr(each, name) for said, name in finding_names(kind).items() if said not in UNSEEN}
    facts["trained_by"] = [source for source in ("load", "store", "prefetch") if source in each.trained_by]
    facts["trained_by_l1_prefetcher"] = by_first = "l1_prefetcher" in each.trained_by
    runs, one_access = kind in (spec.NextLine, spec.Streamer), kind is spec.LinePair
    if isinstance(each, spec.NextLine):
        one_access, facts["max_distance"] = each.trigger == 1, each.degree
    elif isinstance(each, spec.Streamer):
        facts["trigger_by_l1_prefetcher"] = each.trigger_by_l1_prefetcher or each.trigger
        facts["trigger_at_page_edge"] = list(each.trigger_at_page_edge or (each.trigger,) * 4)
    elif isinstance(each, spec.Stride):
        # level 2 sees which line is accessed, not where in it: all smallest strides up to a line are the same
        facts["min_stride"] = max(each.min_stride_bytes, line if second else 0)
        runs = each.min_stride_bytes <= line <= each.max_stride_bytes
    if isinstance(each, spec.Stride | spec.Region):
        facts["ip_bits"] = list(range(each.ip_bits))
    if runs:
        facts["lead"] = list(lead_of(each, line, -1 if facts.get("directions") == "down" else 1))
    woken = second and by_first and any(isinstance(one, spec.NextLine) for one in first)
    by_page = second and facts.get("indexed_by") == "page"
    hidden = {
        "trigger": second and kind is spec.NextLine,  # of these level 2 sees an access at most
        "streams": kind is spec.UpDown or (one_access and kind is spec.NextLine),
        # what follows from a single access keeps nothing that threads could share
        "shared_by_smt": core.threads_per_core == 1 or one_access,
        # a pair and a region stay in an aligned block of lines
        "crosses_4k": kind in (spec.LinePair, spec.Region),
        "crosses_4k_in_2m": kind in (spec.LinePair, spec.Region) or HUGE not in machine.memory.page_sizes,
        "trained_by_l1_prefetcher": not second or kind is spec.Stride or not any(map(member, first)),
        "trigger_by_l1_prefetcher": not woken,  # one request of level 1's next lines is enough in Table VI
        # what follows lines in any order has neither edges, batches nor ways of its own
        **dict.fromkeys(("leads_by", "streams_per_page", *PAGES), facts.get("counts") == "distinct"),
        "indexed_by": by_page,
        "ip_bits": by_page or "ip" not in facts.get("indexed_by", ""),
    }
    return {parameter: value for parameter, value in facts.items() if not hidden.get(parameter)}


# -- families: by what a prefetcher does, not by how it is built. Some mechanisms after publications do to all accesses
# that a family's rules speak of what these rules say. Nobody who times loads could call them anything else, so they are
# that family, and what its rules leave open about them has no truth.


def member(prefetcher: spec.AnyPrefetcher) -> Member | None:
    """A prefetcher as a member of a family; None where no family's rules say what it does.

    A stream buffer brings the next lines; how many buffers there are does not show, as their lines stay in the cache. A
    reference prediction table is one stride ahead, which takes an access more where its instruction made unequal
    distances before; instruction classes without one for other distances are strides; a streamer with feedback is a
    stream whose degree and distance go by what was of use."""
    if isinstance(prefetcher, spec.Streamer) and prefetcher.feedback_interval:
        return prefetcher, (*LEARNED, *TABLES, *PAGES)
    if isinstance(prefetcher, spec.Known):
        return prefetcher, ()
    each: Any = prefetcher
    common: dict[str, Any] = {name: getattr(prefetcher, name) for name in spec.Prefetcher.__struct_fields__}
    if isinstance(prefetcher, spec.StreamBuffer):
        return spec.NextLine(**common, degree=each.depth), ()
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
