"""Rules for cache levels: shape, latency, replacement, inclusion, misses in flight."""

from __future__ import annotations

import typing

from setebench.sim import spec
from setebench.sim.files.toml_lines import Path
from setebench.sim.spec.fields import literals, table_fields
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Reading, Readings
from setebench.truth.twin.shapes import (
    MOST_ODD,
    MOST_SLICES,
    USUAL_WAYS,
    Shape,
    at_least,
    of_size,
    of_size_and_ways,
)

ASSUMED_BYTES = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20, 4: 128 << 20}
ASSUMED_LATENCIES = {1: 4.0, 2: 14.0, 3: 50.0, 4: 120.0}
"""Where nothing was found of a level that the result shows: what many cores of the 2020s have."""

GROWTH = 2
"""A level whose size is open is assumed to hold at least so many times the lines of the one before."""

BEHIND = 2
"""A miss queue that never was full is assumed to have so many times the entries of the one before it."""

LEAST_LEVELS = 2
SLICED = 3
"""The only level that may be in slices."""

QLRU = {2: "H00_M1_R0_U1"}
USUAL_QLRU = "H11_M1_R0_U0"
"""The variant that stands for an unnamed one of the family: of Ice Lake's second level, and of last levels from Haswell
to Coffee Lake (Abel and Reineke, ISPASS 2020, and nanoBench's tables on uops.info)."""


def levels(readings: Readings) -> int:
    """How many levels of cache the result shows; a machine file has two at least."""
    shown = [
        level for level in ASSUMED_BYTES if readings.names(f"cache.l{level}.") or readings.names(f"latency.l{level}")
    ]
    return max([*shown, LEAST_LEVELS])


def caches(readings: Readings, draft: Draft) -> None:
    """All levels."""
    before: Shape | None = None
    count = levels(readings)
    for level in range(1, count + 1):
        before = _shape(readings, draft, level, before)
        _latency(readings, draft, level)
        _replacement(readings, draft, level)
        _index(readings, draft, level)
        if level > 1:
            _inclusion(readings, draft, level)
        if level < LEAST_LEVELS + 1:
            _misses(readings, draft, level)
        else:
            draft.assume((*_at(level), "mshr_entries"), 0, "no scenario asks: no limit")


def _at(level: int) -> Path:
    return ("levels", level - 1)


# -- size and ways -------------------------------------------------------------------------------------------------


def _shape(readings: Readings, draft: Draft, level: int, before: Shape | None) -> Shape:
    size, ways, index = (readings.get(f"cache.l{level}.{each}") for each in ("size", "ways", "index"))
    slices = MOST_SLICES if level == SLICED else 1
    odd = MOST_ODD if level > 1 and (index is None or index.value != "hashed") else 1
    if size is not None and ways is not None and size.kind == ways.kind == "measured":
        exact = of_size_and_ways(int(size.value) // readings.line, int(ways.value), slices, odd)
        if exact is not None:
            return _both(draft, level, exact, (size, ways))
    return _one(readings, draft, level, before)


def _both(draft: Draft, level: int, shape: Shape, found: tuple[Reading, Reading]) -> Shape:
    size, ways = found
    path = _at(level)
    draft.put((*path, "ways"), ways, shape.ways)
    names = (*size.parameters, *ways.parameters)
    sure = Reading(shape.sets, "measured", parameters=names, why=f"size over ways; {size.why}")
    draft.put((*path, "sets"), sure)
    if shape.slices > 1:
        draft.put((*path, "slices"), sure, shape.slices)
    return shape


def _ways(found: Reading | None) -> int | None:
    """The ways that were found; a bound below what is usual anyway says nothing."""
    if found is None or (found.kind != "measured" and int(found.value) <= USUAL_WAYS[0]):
        return None
    return int(found.value)


def _one(readings: Readings, draft: Draft, level: int, before: Shape | None) -> Shape:
    """Of size and ways one is open, or only bounded, or they don't go together."""
    path = _at(level)
    size, ways = readings.get(f"cache.l{level}.size"), readings.get(f"cache.l{level}.ways")
    known_ways = _ways(ways)
    least = GROWTH * before.lines if before is not None else 1
    if size is None:
        lines = max(ASSUMED_BYTES[level] // readings.line, least)
        shape = at_least(lines, known_ways)
        draft.assume((*path, "sets"), shape.sets, "the size is open: a usual one")
    else:
        lines = max(int(size.value) // readings.line, least)
        exact = of_size(lines) if size.kind == "measured" and known_ways is None else None
        shape = exact or at_least(lines, known_ways)
        held = Reading(shape.sets, "bounded", None, None, size.parameters, "from the size, with the ways beside it")
        draft.put((*path, "sets"), held.bounded(size.why) if size.why else held)
    if ways is None:
        draft.assume((*path, "ways"), shape.ways, "ways are open: as many as make the size of a power of two of sets")
    else:
        draft.put((*path, "ways"), ways, shape.ways)
    return shape


# -- the rest ------------------------------------------------------------------------------------------------------


def _latency(readings: Readings, draft: Draft, level: int) -> None:
    path = (*_at(level), "latency_cycles")
    found = readings.latency(f"l{level}")
    if found is not None:
        draft.put(path, found, float(found.value))
        return
    below = draft.get((*_at(level - 1), "latency_cycles")) if level > 1 else 0.0
    draft.assume(path, max(ASSUMED_LATENCIES[level], float(below) + 1.0), "the latency is open: a usual one")


def _replacement(readings: Readings, draft: Draft, level: int) -> None:
    path = (*_at(level), "replacement")
    found = readings.get(f"cache.l{level}.replacement")
    if found is None:
        return
    words = literals(table_fields(spec.Level)["replacement"].type)
    if found.value in words:
        draft.put(path, found)
    else:
        other = next((word for word in ("fifo", "random") if word in words), words[0])
        draft.put(path, found.bounded(f"{found.value}, which {other} stands for"), other)
    if found.value == "qlru" and "qlru" in table_fields(spec.Level):
        variant = QLRU.get(level, USUAL_QLRU)
        draft.assume((*_at(level), "qlru"), variant, "which variant is not reported: a usual one at this level")


def _inclusion(readings: Readings, draft: Draft, level: int) -> None:
    path = (*_at(level), "inclusion")
    found = readings.get(f"cache.l{level - 1}.inclusive_in_l{level}")
    exclusive = readings.get(f"cache.l{level}.exclusive_of_l{level - 1}")
    if found is not None and found.value:
        draft.put(path, found, "inclusive")
    elif exclusive is not None and exclusive.value:
        draft.put(path, exclusive, "exclusive")
    elif found is not None and exclusive is not None:
        draft.put(path, found, "neither")
    elif found is not None:
        draft.put(path, found.bounded("not inclusive; exclusive is not excluded"), "neither")


def _index(readings: Readings, draft: Draft, level: int) -> None:
    """Slices are chosen by a hash already."""
    index = readings.get(f"cache.l{level}.index")
    if index is not None and not draft.get((*_at(level), "slices")):
        draft.put((*_at(level), "hashed_index"), index, index.value == "hashed")


def _misses(readings: Readings, draft: Draft, level: int) -> None:
    """One queue for all causes, as large as the larger of what loads and prefetches can have in flight, and a limit
    for the other. A cause that nothing limits (absent) leaves the queue without a limit."""
    path = _at(level)
    demand, prefetch = (_in_flight(readings, level, cause) for cause in ("demand", "prefetch"))
    known = [each for each in (demand, prefetch) if each is not None]
    shared = readings.get(f"mshr.l{level}.shared_by_smt")
    runs_out = shared is not None and shared.value is True  # threads together filled it, so one alone nearly did
    if known:
        entries = 0 if any(not each.value for each in known) else max(int(each.value) for each in known)
        largest = next(each for each in known if not entries or int(each.value) == entries)
        if level > 1 and entries and not runs_out and _let_through(readings, known):
            largest, entries = largest.bounded("the level before lets no more through; twice as many"), BEHIND * entries
            if prefetch is not None:
                takes = prefetch.bounded("as many as the level before has: a hint for the level behind takes its entry")
                draft.put(("software_prefetch", "lower_hint_takes_l1_entry"), takes, True)
        if largest.value or largest.kind == "measured":
            draft.put((*path, "mshr_entries"), largest, entries)
        for name, each in (("mshr_demand_limit", demand), ("mshr_prefetch_limit", prefetch)):
            if each is not None and each.value and int(each.value) != entries and largest in known:
                draft.put((*path, name), each, int(each.value))
    draft.put((*path, "mshr_shared_by_smt"), shared)


def _in_flight(readings: Readings, level: int, cause: str) -> Reading | None:
    """How many misses of a cause the level holds; None where the core waits for each, which says nothing of the level:
    its entries are there for hardware prefetches all the same."""
    blocking = readings.get(f"blocking.{'load' if cause == 'demand' else cause}")
    waits = blocking is not None and blocking.value == "blocking"
    return None if waits else readings.get(f"mshr.l{level}.{cause}")


def _let_through(readings: Readings, known: list[Reading]) -> bool:
    """Whether each cause has as many misses in flight as the level before has: that one is the limit then."""
    before = (readings.get(each.parameters[0].replace(".l2.", ".l1.")) for each in known)
    return all(first is not None and first.value == each.value for first, each in zip(before, known, strict=True))


def floors(draft: Draft) -> None:
    """Queues of the core that nobody measured must hold the misses that were seen in flight."""
    found = draft.get((*_at(1), "mshr_demand_limit")) or draft.get((*_at(1), "mshr_entries")) or 0
    for name in ("load_queue", "reorder_window"):
        default = table_fields(spec.Core)[name].default
        if typing.cast(int, default) < found:
            draft.assume(("core", name), int(found), "at least the misses of loads that were seen in flight")
