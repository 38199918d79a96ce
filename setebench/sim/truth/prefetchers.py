"""The truth about hardware prefetchers, in the parameter names of findings."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.results import Finding, Value
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
after level 1 lost it, so that one access is all there is; and no CPU is known to tell it the instruction's address."""

Facts = Iterator[tuple[str, Value, str]]


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
        without = (*MEANT.get(identity, ()), *(found.open if found else ()))
        names |= {f"prefetcher.{identity}.{name}" for name in without}
    return frozenset(names)


def prefetches_train(machine: spec.Machine) -> bool | None:
    """Whether software prefetches alone have a hardware prefetcher fetch lines; None where that depends on what it
    learned before."""
    trained = [each for each in machine.prefetchers if "prefetch" in each.trained_by]
    sure = [each for each in trained if not isinstance(each, spec.SHORT_RUNS_UNSURE)]
    return None if trained and not sure else bool(sure)


def _present(name: str, facts: Facts) -> Iterator[Finding]:
    yield exact(f"{name}.present", True, "bool")
    for parameter, value, unit in facts:
        yield exact(f"{name}.{parameter}", value, unit)


def _described(machine: spec.Machine, others: tuple[spec.AnyPrefetcher, ...]) -> Facts:
    """What a level's prefetchers without a name do together."""
    found = described(others, machine.line_size_bytes, entries=_entries(machine))
    trains = [access for access in ("load", "store", "prefetch") if any(access in each.trained_by for each in others)]
    yield "patterns", list(found.patterns), "list"
    yield "trained_by", trains, "list"
    if len({each.fills for each in others}) == 1:
        yield "fills", others[0].fills, "string"
    if found.trigger is not None:
        yield "trigger", found.trigger, "accesses"
    yield "lead", list(found.lead), "list"
    if found.max_distance:
        yield "max_distance", found.max_distance, "lines"
    if found.directions is not None:
        yield "directions", found.directions, "string"
    yield "crosses_4k", found.crosses_4k, "bool"
    if HUGE in machine.memory.page_sizes:
        yield "crosses_4k_in_2m", _crosses_in_huge(machine, others), "bool"


def _crosses_in_huge(machine: spec.Machine, others: tuple[spec.AnyPrefetcher, ...]) -> bool:
    """Whether lines come past a boundary inside a 2 MiB page; those that may go no further there are not run again."""
    further = any(each.crosses_4k_in_2m and not each.crosses_4k for each in others)
    return described(others, machine.line_size_bytes, further, _entries(machine)).crosses_4k


def _entries(machine: spec.Machine) -> tuple[int, ...]:
    """Miss entries that hardware prefetches may have, by level."""
    return tuple(each.mshr_hardware_limit or each.mshr_entries for each in machine.levels)


def _facts_of(machine: spec.Machine, prefetcher: spec.AnyPrefetcher) -> Facts:
    """Of a prefetcher of a family, all but what the family's rules leave open about it."""
    found = member(prefetcher)
    if found is not None:
        yield from (fact for fact in _facts_of_known(machine, found.known) if fact[0] not in found.open)


def _facts_of_known(machine: spec.Machine, prefetcher: spec.Known) -> Facts:
    yield "trained_by", [access for access in ("load", "store", "prefetch") if access in prefetcher.trained_by], "list"
    if prefetcher.level == 2 and not isinstance(prefetcher, spec.Stride) and _first_level_asks(machine):
        yield "trained_by_l1_prefetcher", "l1_prefetcher" in prefetcher.trained_by, "bool"
    yield "fills", prefetcher.fills, "string"
    if machine.core.threads_per_core > 1 and _remembers(prefetcher):
        yield "shared_by_smt", prefetcher.shared_by_smt, "bool"
    if machine.core.cores > 1 and prefetcher.level == 2 and isinstance(prefetcher, spec.Streamer | spec.Stride):
        yield "shared_by_cores", prefetcher.shared_by_cores, "bool"
    if not isinstance(prefetcher, spec.LinePair | spec.Region):  # those stay in an aligned block of lines
        yield "crosses_4k", prefetcher.crosses_4k, "bool"
        if HUGE in machine.memory.page_sizes:
            yield "crosses_4k_in_2m", prefetcher.crosses_4k_in_2m, "bool"
    yield from _own_facts(machine, prefetcher)


def _first_level_asks(machine: spec.Machine) -> bool:
    """Whether level 1 has a prefetcher with a name."""
    return any(each.level == 1 and member(each) for each in machine.prefetchers)


def _remembers(prefetcher: spec.Known) -> bool:
    """Whether there is anything that threads could share: what follows from a single access keeps nothing."""
    one_access = isinstance(prefetcher, spec.NextLine) and prefetcher.trigger == 1
    return not one_access and not isinstance(prefetcher, spec.LinePair)


def _own_facts(machine: spec.Machine, prefetcher: spec.Known) -> Facts:
    if isinstance(prefetcher, spec.Streamer):
        yield from _streamer(prefetcher)
        yield "lead", _lead(machine, prefetcher, -1 if prefetcher.directions == "down" else 1), "list"
        yield from _woken_by_level_one(machine, prefetcher)
    elif isinstance(prefetcher, spec.Stride):
        yield from _stride(machine, prefetcher)
        if prefetcher.min_stride_bytes <= machine.line_size_bytes <= prefetcher.max_stride_bytes:
            yield "lead", _lead(machine, prefetcher, -1 if prefetcher.directions == "down" else 1), "list"
    elif isinstance(prefetcher, spec.Region):
        yield from _region(prefetcher)
    else:
        yield from _neighbours(prefetcher)
        if isinstance(prefetcher, spec.NextLine):
            yield "lead", _lead(machine, prefetcher, 1), "list"


def _lead(machine: spec.Machine, prefetcher: spec.AnyPrefetcher, step: int) -> list[int]:
    return list(lead_of(prefetcher, machine.line_size_bytes, step))


def _neighbours(prefetcher: spec.NextLine | spec.LinePair | spec.UpDown) -> Facts:
    """Prefetchers that fetch neighbouring lines, whatever was accessed before: what `MEANT` leaves of them."""
    if not isinstance(prefetcher, spec.NextLine):
        return
    if prefetcher.level == 1:
        yield "trigger", prefetcher.trigger, "accesses"
    yield "degree", prefetcher.degree, "lines"
    yield "max_distance", prefetcher.degree, "lines"
    if prefetcher.trigger > 1:
        yield "streams", prefetcher.streams, "streams"


def _streamer(prefetcher: spec.Streamer) -> Facts:
    edges = prefetcher.trigger_at_page_edge or (prefetcher.trigger,) * 4
    yield "trigger", prefetcher.trigger, "accesses"
    yield "counts", prefetcher.counts, "string"
    yield "degree", prefetcher.degree, "lines"
    yield "max_distance", prefetcher.max_distance, "lines"
    yield "directions", prefetcher.directions, "string"
    yield "streams", prefetcher.streams, "streams"
    yield from _replacement(prefetcher.streams, prefetcher.replacement)
    if prefetcher.counts == "run":  # what follows lines in any order has neither edges, batches nor ways of its own
        yield "trigger_at_page_edge", list(edges), "list"
        yield "leads_by", prefetcher.leads_by, "string"
        yield "streams_per_page", prefetcher.streams_per_page, "streams"


def _woken_by_level_one(machine: spec.Machine, prefetcher: spec.Streamer) -> Facts:
    """How many requests of level 1's next-line prefetcher are enough (one in Table VI); nothing where there is none."""
    asked = any(isinstance(each, spec.NextLine) and each.level == 1 for each in machine.prefetchers)
    needed = prefetcher.trigger_by_l1_prefetcher or prefetcher.trigger
    if asked and prefetcher.level == 2 and "l1_prefetcher" in prefetcher.trained_by:
        yield "trigger_by_l1_prefetcher", needed, "accesses"


def _stride(machine: spec.Machine, prefetcher: spec.Stride) -> Facts:
    """Distances are in strides, which are lines at a stride of one line."""
    yield "trigger", prefetcher.trigger, "accesses"
    yield "degree", prefetcher.degree, "lines"
    yield "max_distance", prefetcher.max_distance, "lines"
    yield "directions", prefetcher.directions, "string"
    yield "streams", prefetcher.entries, "streams"
    yield from _replacement(prefetcher.entries, prefetcher.replacement)
    least = prefetcher.min_stride_bytes
    # level 2 sees which line is accessed, not where in it: all smallest strides up to a line are the same
    yield "min_stride", max(least, machine.line_size_bytes) if prefetcher.level == 2 else least, "bytes"
    yield "max_stride", prefetcher.max_stride_bytes, "bytes"
    if prefetcher.level == 1 or prefetcher.indexed_by != "page":
        yield "indexed_by", prefetcher.indexed_by, "string"
    if "ip" in prefetcher.indexed_by:
        yield "ip_bits", list(range(prefetcher.ip_bits)), "list"


def _replacement(entries: int, replacement: str) -> Facts:
    """One entry alone is replaced by whatever comes."""
    if entries > 1:
        yield "replacement", replacement, "string"


def _region(prefetcher: spec.Region) -> Facts:
    """Its trigger counts visits, not accesses, so it is no `trigger`."""
    yield "region_size", prefetcher.region_size_bytes, "bytes"
    yield "streams", prefetcher.active_regions, "streams"
    yield "indexed_by", prefetcher.indexed_by, "string"
    if "ip" in prefetcher.indexed_by:
        yield "ip_bits", list(range(prefetcher.ip_bits)), "list"
