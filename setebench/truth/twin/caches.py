"""Rules for cache levels: sets and ways, latency, replacement, inclusion, misses in flight."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.files.origins import Kind, Path
from setebench.sim.spec.fields import literals, table_fields
from setebench.truth.twin.readings import Draft, Reading, Readings, computed

USUAL = {1: (32 << 10, 4.0), 2: (1 << 20, 14.0), 3: (16 << 20, 50.0)}
"""Bytes and cycles of a level of which nothing was found: what many cores of the 2020s have."""

USUAL_WAYS = (8, 16, 12, 4, 2, 20, 24, 10, 6, 32)
"""Ways to assume, the most usual first."""

GROWTH = 2
"""A level holds at least so many times the lines of the one before, and so many misses where its queue never filled;
memory whose latency is open is so many times as far as the last."""

SLICED = 3
"""The level of which CPUs with another number of sets than a power of two have slices, chosen by a hash."""

QLRU = "H00_M1_R0_U1"
"""The variant that stands for an unnamed one of the family: of Ice Lake's second level (Abel and Reineke, ISPASS 2020,
and nanoBench's tables on uops.info)."""

CAUSES = {"demand": "load", "prefetch": "prefetch"}
"""What has misses in flight, and by which accesses."""
Shape = tuple[int, int]
"""Sets and ways."""


def caches(readings: Readings, draft: Draft) -> None:
    """All levels."""
    held, before = 0, 0.0
    for level in range(1, readings.levels + 1):
        path = at(level)
        held = _shape(readings, draft, level, max(GROWTH * held, 1))
        latency = readings.get(f"latency.l{level}")
        usual = max(USUAL[level][1], before + 1.0)
        draft.fill((*path, "latency_cycles"), latency and latency.of(float(latency.value)), usual, "open: a usual one")
        before = float(draft.fields[(*path, "latency_cycles")])
        _replacement(readings, draft, level)
        if level > 1:
            _inclusion(readings, draft, level)
        hashed = computed(lambda index: index == "hashed", readings.get(f"cache.l{level}.index"))
        draft.put((*path, "hashed_index"), hashed)
        if level in (1, 2):
            _misses(readings, draft, level)
        else:
            draft.assume((*path, "mshr_entries"), 0, "no scenario measures it: no limit")
    # queues of the core that nobody measured must hold the misses that were seen in flight
    found = draft.fields.get((*at(1), "mshr_demand_limit")) or draft.fields.get((*at(1), "mshr_entries")) or 0
    for name in ("load_queue", "reorder_window"):
        more = max(getattr(spec.Core(), name), int(found))
        draft.assume(("core", name), more, "the default, and at least the misses of loads that were seen in flight")


def at(level: int) -> Path:
    """Where a level stands in a machine file."""
    return ("levels", level - 1)


# -- size and ways -------------------------------------------------------------------------------------------------


def exact(lines: int, ways: int, any_sets: bool) -> Shape | None:
    """The shape of so many lines and ways: sets are a power of two, or any number. None where there is none."""
    sets, rest = divmod(lines, ways)
    return None if rest or not sets or (sets & (sets - 1) and not any_sets) else (sets, ways)


def holding(lines: int, ways: int | None = None) -> Shape:
    """The smallest shape that holds so many lines: of these ways, or of 8 to 15 (and 8 for a power of two of lines)."""
    sets = 1 << max(-(-lines // (ways or 15)) - 1, 0).bit_length()
    return sets, ways or max(-(-lines // sets), 1)


def _shape(readings: Readings, draft: Draft, level: int, least: int) -> int:
    """Fill sets and ways; how many lines they hold."""
    size, ways = (readings.get(f"cache.l{level}.{each}") for each in ("size", "ways"))
    sized, counted = (each is not None and each.kind == "measured" for each in (size, ways))
    if size and not sized and isinstance(size.value, (int, float)) and size.high and size.high > size.value:
        size = size.of(size.high).bounded("the most that was seen, as others take a part at times")
    # a bound below what is usual anyway says nothing
    number = int(ways.value) if ways and (counted or ways.value > USUAL_WAYS[0]) else None
    lines = int(size.value if size else USUAL[level][0]) // readings.line
    if not (sized and counted):
        lines = max(lines, least)
    tried = (number,) if number else USUAL_WAYS if sized else ()
    exactly = next(filter(None, (exact(lines, each, sized and counted and level > 1) for each in tried)), None)
    sets, own_ways = exactly or holding(max(lines, least), number)
    found = None
    if size is not None:
        kind: Kind = "measured" if sized and counted and exactly else "bounded"
        names = (*size.parameters, *(ways.parameters if ways and counted else ()))
        found = Reading(sets, kind, parameters=names, why=f"size over ways; {size.why}")
    path = at(level)
    draft.fill((*path, "sets"), found, sets, "the size is open: a usual one")
    if level == SLICED and sets & (sets - 1):
        draft.assume((*path, "hashed_index"), True, "sets are no power of two, as of slices that a hash chooses")
    why = "ways are open: as many as make the size of a power of two of sets"
    draft.fill((*path, "ways"), ways and ways.of(own_ways), own_ways, why)
    return sets * own_ways


# -- the rest ------------------------------------------------------------------------------------------------------


def _replacement(readings: Readings, draft: Draft, level: int) -> None:
    found, path = readings.get(f"cache.l{level}.replacement"), at(level)
    if found is None:
        return
    if found.value not in literals(table_fields(spec.Level)["replacement"].type):
        found = found.bounded(f"{found.value}, which fifo stands for").of("fifo")
    draft.put((*path, "replacement"), found)
    if found.value == "qlru":
        draft.assume((*path, "qlru"), QLRU, "which variant is not reported: a usual one")


def _inclusion(readings: Readings, draft: Draft, level: int) -> None:
    inclusive = readings.get(f"cache.l{level - 1}.inclusive_in_l{level}")
    exclusive = readings.get(f"cache.l{level}.exclusive_of_l{level - 1}")
    found = inclusive and inclusive.of("inclusive" if inclusive.value else "neither")
    if exclusive is not None and exclusive.value:
        found = exclusive.of("exclusive")
    elif exclusive is None and found is not None and found.value == "neither":
        found = found.bounded("not inclusive; exclusive is not excluded")
    draft.put((*at(level), "inclusion"), found)


def _misses(readings: Readings, draft: Draft, level: int) -> None:
    """One queue for all causes, as large as the larger of what loads and prefetches can have in flight, and a limit
    for the other. A cause that nothing limits (absent) leaves the queue without a limit. Where the core waits for each
    miss of a cause, this says nothing of the level: its entries are there for hardware prefetches all the same."""
    path, causes = at(level), dict[str, Reading]()
    for cause, access in CAUSES.items():
        found, waits = readings.get(f"mshr.l{level}.{cause}"), readings.get(f"blocking.{access}")
        if found is not None and not (waits and waits.value == "blocking"):
            causes[cause] = found
    shared = readings.get(f"mshr.l{level}.shared_by_smt")
    draft.put((*path, "mshr_shared_by_smt"), shared)
    unlimited = [each for each in causes.values() if not each.value]
    largest = max(unlimited or causes.values(), key=lambda each: int(each.value), default=None)
    if largest is None:
        return
    entries = int(largest.value)
    before = {cause: readings.get(f"mshr.l1.{cause}") for cause in causes}
    limited = all((first := before[cause]) and first.value == found.value for cause, found in causes.items())
    # where threads together filled it, one alone nearly did
    if level > 1 and entries and limited and not (shared and shared.value is True):
        largest = largest.bounded("the level before lets no more through; twice as many")
        entries *= GROWTH
        if "prefetch" in causes:
            why = "as many as the level before has: a hint for the level behind takes its entry"
            draft.put(("software_prefetch", "lower_hint_takes_l1_entry"), causes["prefetch"].bounded(why).of(True))
    elif entries or largest.kind == "measured":
        for cause, found in causes.items():
            if found.value and int(found.value) != entries:
                draft.put((*path, f"mshr_{cause}_limit"), found.of(int(found.value)))
    if entries or largest.kind == "measured":
        draft.put((*path, "mshr_entries"), largest.of(entries))
