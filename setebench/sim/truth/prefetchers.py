"""The truth about hardware prefetchers, in the parameter names of findings."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.errors import UnsupportedError
from setebench.results import Finding, Value
from setebench.sim import spec
from setebench.sim.truth.described import described, lead_of
from setebench.sim.truth.families import PREFETCHER_IDS, WHERE_PRESENT, identity_of, member
from setebench.sim.truth.finding import absent, exact, unknown

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

Facts = Iterator[tuple[str, Value | UnsupportedError]]


def prefetchers(machine: spec.Machine) -> Iterator[Finding]:
    """Every parameter of the machine's prefetchers, and the absence of the usual ones that it lacks. Those of no
    family are described, all of a level together, as `LEVEL.other`."""
    present = {identity_of(each): each for each in machine.prefetchers}
    for identity in (*PREFETCHER_IDS, *WHERE_PRESENT):
        name = f"prefetcher.{identity}"
        if identity in present:
            yield from _present(name, _facts_of(machine, present[identity]))
        elif identity in PREFETCHER_IDS:
            yield absent(f"{name}.present")
    for level in (1, 2):
        name = f"prefetcher.l{level}.other"
        others = tuple(each for each in machine.prefetchers if identity_of(each) == f"l{level}.other")
        if others:
            yield from _present(name, _described(machine, others))
        else:
            yield absent(f"{name}.present")


def unjudged(machine: spec.Machine) -> frozenset[str]:
    """Parameters of the machine's prefetchers that have no truth: what their names say, or their rules leave open."""
    names = set()
    for each in machine.prefetchers:
        identity, found = identity_of(each), member(each)
        without = (*MEANT.get(identity, ()), *(found[1] if found else ()))
        names |= {f"prefetcher.{identity}.{name}" for name in without}
    return frozenset(names)


def _present(name: str, facts: Facts) -> Iterator[Finding]:
    yield exact(f"{name}.present", True, "bool")
    for parameter, value in facts:
        if isinstance(value, UnsupportedError):
            yield unknown(f"{name}.{parameter}", "list", value)
            continue
        unit = {bool: "bool", str: "string", list: "list"}.get(type(value)) or UNITS[parameter]
        yield exact(f"{name}.{parameter}", value, unit)


def _described(machine: spec.Machine, others: tuple[spec.AnyPrefetcher, ...]) -> Facts:
    """What a level's prefetchers without a name do together in a run."""
    try:
        lead, furthest = described(others, machine.line_size_bytes, machine.levels)
    except UnsupportedError as error:
        yield "lead", error
        return
    yield "lead", list(lead)
    if furthest:
        yield "trigger", next(number for number, lines in enumerate((*lead, 1), 1) if lines)
        yield "max_distance", furthest


def _facts_of(machine: spec.Machine, prefetcher: spec.AnyPrefetcher) -> Facts:
    """Of a prefetcher of a family, all but what the family's rules leave open about it."""
    found = member(prefetcher)
    if found is not None:
        facts = (*_common(machine, found[0]), *_own(machine, found[0]))
        yield from (fact for fact in facts if fact[0] not in found[1])


def _common(machine: spec.Machine, prefetcher: spec.Known) -> Facts:
    second, follows = prefetcher.level == 2, isinstance(prefetcher, spec.Streamer | spec.Stride)
    yield "trained_by", [each for each in ("load", "store", "prefetch") if each in prefetcher.trained_by]
    wakes = any(each.level == 1 and member(each) for each in machine.prefetchers)
    if second and not isinstance(prefetcher, spec.Stride) and wakes:
        yield "trained_by_l1_prefetcher", "l1_prefetcher" in prefetcher.trained_by
    yield "fills", prefetcher.fills
    # what follows from a single access keeps nothing that threads could share
    one_access = isinstance(prefetcher, spec.LinePair) or (
        isinstance(prefetcher, spec.NextLine) and prefetcher.trigger == 1
    )
    if machine.core.threads_per_core > 1 and not one_access:
        yield "shared_by_smt", prefetcher.shared_by_smt
    if machine.core.cores > 1 and second and follows:
        yield "shared_by_cores", prefetcher.shared_by_cores
    if not isinstance(prefetcher, spec.LinePair | spec.Region):  # those stay in an aligned block of lines
        yield "crosses_4k", prefetcher.crosses_4k
        if HUGE in machine.memory.page_sizes:
            yield "crosses_4k_in_2m", prefetcher.crosses_4k_in_2m


def _own(machine: spec.Machine, prefetcher: spec.Known) -> Facts:
    line = machine.line_size_bytes
    if isinstance(prefetcher, spec.Streamer):
        yield from _streamer(machine, prefetcher)
    elif isinstance(prefetcher, spec.Stride):
        yield from _stride(machine, prefetcher)
    elif isinstance(prefetcher, spec.Region):  # its trigger counts generations, not accesses, so it is no `trigger`
        yield "region_size", prefetcher.region_size_bytes
        yield "streams", prefetcher.active_regions
        yield from _indexed_by(prefetcher)
    elif isinstance(prefetcher, spec.NextLine):
        if prefetcher.level == 1:
            yield "trigger", prefetcher.trigger
        yield "degree", prefetcher.degree
        yield "max_distance", prefetcher.degree
        if prefetcher.trigger > 1:
            yield "streams", prefetcher.streams
        yield "lead", _lead(prefetcher, line)


def _lead(prefetcher: spec.Known, line_size: int, step: int = 1) -> list[int] | UnsupportedError:
    """The lead of a run, or why no machine could be run to show it."""
    try:
        return list(lead_of(prefetcher, line_size, step))
    except UnsupportedError as error:
        return error


def _way(prefetcher: spec.Streamer | spec.Stride) -> int:
    return -1 if prefetcher.directions == "down" else 1


def _streamer(machine: spec.Machine, prefetcher: spec.Streamer) -> Facts:
    edges = prefetcher.trigger_at_page_edge or (prefetcher.trigger,) * 4
    for name in ("trigger", "counts", "degree", "max_distance", "directions", "streams"):
        yield name, getattr(prefetcher, name)
    if prefetcher.counts == "run":  # what follows lines in any order has neither edges, batches nor ways of its own
        yield "trigger_at_page_edge", list(edges)
        yield "leads_by", prefetcher.leads_by
        yield "streams_per_page", prefetcher.streams_per_page
    yield "lead", _lead(prefetcher, machine.line_size_bytes, _way(prefetcher))
    # how many requests of level 1's next-line prefetcher are enough (one in Table VI)
    wakes = any(isinstance(each, spec.NextLine) and each.level == 1 for each in machine.prefetchers)
    if wakes and prefetcher.level == 2 and "l1_prefetcher" in prefetcher.trained_by:
        yield "trigger_by_l1_prefetcher", prefetcher.trigger_by_l1_prefetcher or prefetcher.trigger


def _stride(machine: spec.Machine, prefetcher: spec.Stride) -> Facts:
    """Distances are in strides, which are lines at a stride of one line."""
    least, line = prefetcher.min_stride_bytes, machine.line_size_bytes
    for name in ("trigger", "degree", "max_distance", "directions"):
        yield name, getattr(prefetcher, name)
    yield "streams", prefetcher.entries
    # level 2 sees which line is accessed, not where in it: all smallest strides up to a line are the same
    yield "min_stride", max(least, line) if prefetcher.level == 2 else least
    yield "max_stride", prefetcher.max_stride_bytes
    if prefetcher.level == 1 or prefetcher.indexed_by != "page":
        yield from _indexed_by(prefetcher)
    if least <= line <= prefetcher.max_stride_bytes:
        yield "lead", _lead(prefetcher, line, _way(prefetcher))


def _indexed_by(prefetcher: spec.Stride | spec.Region) -> Facts:
    yield "indexed_by", prefetcher.indexed_by
    if "ip" in prefetcher.indexed_by:
        yield "ip_bits", list(range(prefetcher.ip_bits))
