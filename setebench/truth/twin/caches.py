"""Rules for cache levels: sets and ways, latency, replacement, inclusion, misses in flight."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.files.origins import Path
from setebench.sim.spec.fields import literals, table_fields
from setebench.truth.twin.readings import Draft, Reading, Readings

USUAL = {1: (32 << 10, 4.0), 2: (1 << 20, 14.0), 3: (16 << 20, 50.0)}
"""Bytes and cycles of a level of which nothing was found: what many cores of the 2020s have."""

USUAL_WAYS = (8, 16, 12, 4, 2, 20, 24, 10, 6, 32)
"""Ways to assume, the most usual first."""

GROWTH = 2
"""A level holds at least so many times the lines of the one before, and so many misses where its queue never filled."""

SLICED = 3
"""The only level that may be in slices."""

MOST_SLICES = 64
QLRU = {2: "H00_M1_R0_U1", 3: "H11_M1_R0_U0"}
"""The variant that stands for an unnamed one of the family: of Ice Lake's second level, and of last levels from Haswell
to Coffee Lake (Abel and Reineke, ISPASS 2020, and nanoBench's tables on uops.info)."""

CAUSES = ("demand", "prefetch")
Shape = tuple[int, int, int]
"""Sets of each slice, ways, and slices."""


def caches(readings: Readings, draft: Draft) -> None:
    """All levels."""
    held = 0
    for level in range(1, readings.levels + 1):
        sets, ways, slices = _shape(readings, draft, level, max(GROWTH * held, 1))
        held = sets * ways * slices
        _latency(readings, draft, level)
        _replacement(readings, draft, level)
        if level > 1:
            _inclusion(readings, draft, level)
        index = readings.get(f"cache.l{level}.index")
        if index is not None and slices == 1:  # slices are chosen by a hash already
            draft.put((*at(level), "hashed_index"), index, index.value == "hashed")
        if level in (1, 2):
            _misses(readings, draft, level)
        else:
            draft.assume((*at(level), "mshr_entries"), 0, "no scenario measures it: no limit")
    _queues(draft)


def at(level: int) -> Path:
    """Where a level stands in a machine file."""
    return ("levels", level - 1)


# -- size and ways -------------------------------------------------------------------------------------------------


def exact(lines: int, ways: int, most_slices: int = 1, any_sets: bool = False) -> Shape | None:
    """The shape of so many lines and ways: sets are a power of two, in slices if need be, or any number where lines go
    by the remainder. None where there is none."""
    total, rest = divmod(lines, ways)
    if rest or not total:
        return None
    power = total & -total
    if total // power <= most_slices:
        return power, ways, total // power
    return (total, ways, 1) if any_sets else None


def holding(lines: int, ways: int | None = None) -> Shape:
    """The smallest shape that holds so many lines: of these ways, or of 8 to 15 (and 8 for a power of two of lines)."""
    sets = 1 << max(-(-lines // (ways or 15)) - 1, 0).bit_length()
    return sets, ways or max(-(-lines // sets), 1), 1


def _shape(readings: Readings, draft: Draft, level: int, least: int) -> Shape:
    """Fill sets, ways and slices."""
    size, ways, index = (readings.get(f"cache.l{level}.{each}") for each in ("size", "ways", "index"))
    lines = int(size.value if size else USUAL[level][0]) // readings.line
    remainder = level > 1 and (index is None or index.value != "hashed")
    sure = size is not None and size.kind == "measured"
    # a bound below what is usual anyway says nothing
    number = int(ways.value) if ways and (ways.kind == "measured" or ways.value > USUAL_WAYS[0]) else None
    found = None
    if sure and ways is not None and ways.kind == "measured":
        found = exact(lines, int(ways.value), MOST_SLICES if level == SLICED else 1, remainder)
    if found is not None and size is not None and ways is not None:
        names, how = (*size.parameters, *ways.parameters), f"size over ways; {size.why}"
        sets: Reading | None = Reading(found[0], "measured", parameters=names, why=how)
        if found[2] > 1:
            draft.put((*at(level), "slices"), sets, found[2])
    else:
        lines = max(lines, least)
        usual = (exact(lines, each) for each in USUAL_WAYS) if sure and number is None else ()
        found = next(filter(None, usual), None) or holding(lines, number)
        why = "from the size, with the ways beside it"
        sets = Reading(found[0], "bounded", parameters=size.parameters, why=why) if size else None
    if not draft.put((*at(level), "sets"), sets):
        draft.assume((*at(level), "sets"), found[0], "the size is open: a usual one")
    if not draft.put((*at(level), "ways"), ways, found[1]):
        draft.assume(
            (*at(level), "ways"), found[1], "ways are open: as many as make the size of a power of two of sets"
        )
    return found


# -- the rest ------------------------------------------------------------------------------------------------------


def _latency(readings: Readings, draft: Draft, level: int) -> None:
    path = (*at(level), "latency_cycles")
    found = readings.latency(f"l{level}")
    if not draft.put(path, found, float(found.value) if found else None):
        before = float(draft.fields.get((*at(level - 1), "latency_cycles"), 0.0))
        draft.assume(path, max(USUAL[level][1], before + 1.0), "the latency is open: a usual one")


def _replacement(readings: Readings, draft: Draft, level: int) -> None:
    found = readings.get(f"cache.l{level}.replacement")
    if found is None:
        return
    known = found.value in literals(table_fields(spec.Level)["replacement"].type)
    stands = found if known else found.bounded(f"{found.value}, which fifo stands for")
    draft.put((*at(level), "replacement"), stands, found.value if known else "fifo")
    if found.value == "qlru":
        variant = QLRU.get(level, QLRU[3])
        draft.assume((*at(level), "qlru"), variant, "which variant is not reported: a usual one at this level")


def _inclusion(readings: Readings, draft: Draft, level: int) -> None:
    path = (*at(level), "inclusion")
    found = readings.get(f"cache.l{level - 1}.inclusive_in_l{level}")
    exclusive = readings.get(f"cache.l{level}.exclusive_of_l{level - 1}")
    if exclusive is not None and exclusive.value:
        draft.put(path, exclusive, "exclusive")
    elif found is not None and found.value:
        draft.put(path, found, "inclusive")
    elif found is not None:
        open_one = found if exclusive else found.bounded("not inclusive; exclusive is not excluded")
        draft.put(path, open_one, "neither")


def _misses(readings: Readings, draft: Draft, level: int) -> None:
    """One queue for all causes, as large as the larger of what loads and prefetches can have in flight, and a limit
    for the other. A cause that nothing limits (absent) leaves the queue without a limit."""
    causes = {cause: found for cause in CAUSES if (found := _in_flight(readings, level, cause)) is not None}
    shared = readings.get(f"mshr.l{level}.shared_by_smt")
    draft.put((*at(level), "mshr_shared_by_smt"), shared)
    unlimited = next((each for each in causes.values() if not each.value), None)
    largest = unlimited or max(causes.values(), key=lambda each: int(each.value), default=None)
    if largest is None:
        return
    entries = int(largest.value)
    # where threads together filled it, one alone nearly did
    filled = level == 1 or not entries or (shared is not None and shared.value is True)
    if not filled and all(_let_through(readings, cause, found) for cause, found in causes.items()):
        largest, entries = largest.bounded("the level before lets no more through; twice as many"), GROWTH * entries
        if "prefetch" in causes:
            why = "as many as the level before has: a hint for the level behind takes its entry"
            draft.put(("software_prefetch", "lower_hint_takes_l1_entry"), causes["prefetch"].bounded(why), True)
    elif entries or largest.kind == "measured":
        for cause, found in causes.items():
            if found.value and int(found.value) != entries:
                draft.put((*at(level), f"mshr_{cause}_limit"), found, int(found.value))
    if entries or largest.kind == "measured":
        draft.put((*at(level), "mshr_entries"), largest, entries)


def _in_flight(readings: Readings, level: int, cause: str) -> Reading | None:
    """How many misses of a cause the level holds; None where the core waits for each, which says nothing of the level:
    its entries are there for hardware prefetches all the same."""
    blocking = readings.get(f"blocking.{'load' if cause == 'demand' else cause}")
    waits = blocking is not None and blocking.value == "blocking"
    return None if waits else readings.get(f"mshr.l{level}.{cause}")


def _let_through(readings: Readings, cause: str, found: Reading) -> bool:
    """Whether a cause has as many misses in flight as the first level has: that one is the limit then."""
    before = readings.get(f"mshr.l1.{cause}")
    return before is not None and before.value == found.value


def _queues(draft: Draft) -> None:
    """Queues of the core that nobody measured must hold the misses that were seen in flight."""
    names = ("mshr_demand_limit", "mshr_entries")
    found = next((draft.fields[(*at(1), name)] for name in names if draft.fields.get((*at(1), name))), 0)
    usual = spec.Core()
    for name, most in (("load_queue", usual.load_queue), ("reorder_window", usual.reorder_window)):
        if most < found:
            draft.assume(("core", name), int(found), "at least the misses of loads that were seen in flight")
