"""Rules for the data TLBs."""

from __future__ import annotations

from dataclasses import dataclass

from setebench.sim import spec
from setebench.sim.spec.checks import MOST_TLB_WAYS
from setebench.sim.spec.fields import table_fields
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Reading, Readings

USUAL_WAYS = (8, 12, 16, 4, 6, 24, 5, 3, 10)
LEAST_SETS = 16
"""A table that could have so many sets of usual ways is assumed to be set-associative; a smaller one, fully."""


def tlbs(readings: Readings, draft: Draft) -> None:
    """Entries and penalties of both levels for both page sizes; ways are assumed."""
    for pages in ("4k", "2m"):
        least = _Least()
        for level in (1, 2):
            if readings.names(f"tlb.l{level}.", f".{pages}") or least.entries:
                least = _table(readings, draft, (level, pages), least)
    _splintered(readings, draft)


def _splintered(readings: Readings, draft: Draft) -> None:
    """Large pages whose tables are those of small pages, up to what a page walk takes, are held in 4 KiB parts: a walk
    to a whole one has a level less to read."""
    pairs = []
    for name in ("l1.entries", "l2.entries", "l1.miss_penalty", "l2.miss_penalty"):
        small, large = (readings.get(f"tlb.{name}.{pages}") for pages in ("4k", "2m"))
        if small is None or large is None or not small.value or not _alike(small, large):
            return
        pairs += [small, large]
    names = tuple(each.parameters[0] for each in pairs)
    same = Reading(True, "bounded", parameters=names, why="large pages have the tables of small ones, walks included")
    draft.put(("memory", "huge_pages_splintered"), same)


def _alike(one: Reading, other: Reading) -> bool:
    """Whether two numbers may be the same: counts that are, and intervals that meet."""
    lows = (each.value if each.low is None else each.low for each in (one, other))
    highs = (each.value if each.high is None else each.high for each in (one, other))
    return bool(max(lows) <= min(highs))


@dataclass(frozen=True)
class _Least:
    """What the second table has at least, because the first has: entries and penalty."""

    entries: int = 0
    penalty: float = 0.0


def _table(readings: Readings, draft: Draft, which: tuple[int, str], least: _Least) -> _Least:
    level, pages = which
    name = f"l{level}_{pages}"
    path = ("tlb", name)
    usual: spec.TlbTable = table_fields(spec.Tlb)[name].default
    entries = readings.get(f"tlb.l{level}.entries.{pages}")
    if entries is None:
        count, ways = _shape(level, max(usual.entries, least.entries))
        draft.assume((*path, "entries"), count, "open: the usual, and no fewer than the first table's")
    else:
        count, ways = _shape(level, max(int(entries.value), least.entries) if entries.value else 0)
        draft.put((*path, "entries"), _as_bound(entries, count), count)
    draft.assume((*path, "ways"), ways, "no finding says how many sets there are")
    penalty = readings.get(f"tlb.l{level}.miss_penalty.{pages}")
    if not draft.put((*path, "miss_penalty_cycles"), penalty):
        cycles = max(usual.miss_penalty_cycles, least.penalty)
        draft.assume((*path, "miss_penalty_cycles"), cycles, "open: the usual, and no less than the first table's")
    return _Least(count, float(draft.get((*path, "miss_penalty_cycles")))) if count else least


def _shape(level: int, entries: int) -> tuple[int, int]:
    """(entries, ways) of a table that has so many entries at least. A first one is fully associative, as most are; and
    one whose sets are chosen by a hash conflicts no more often."""
    ways = 0 if level == 1 and entries <= MOST_TLB_WAYS else _ways(entries)
    return (entries, ways) if ways >= 0 else _rounded_up(entries)


def _as_bound(entries: Reading, count: int) -> Reading:
    if count == entries.value:
        return entries
    return entries.bounded(f"{entries.value} was found; {count} make a power of two of sets")


def _ways(entries: int) -> int:
    """0 for fully associative, usual ways where they make a power of two of sets, -1 where nothing can."""
    for ways in USUAL_WAYS if entries else ():
        sets, rest = divmod(entries, ways)
        if not rest and sets >= LEAST_SETS and sets & (sets - 1) == 0:
            return ways
    return 0 if entries <= MOST_TLB_WAYS else -1


def _rounded_up(entries: int) -> tuple[int, int]:
    """The smallest set-associative table of usual ways that has so many entries: (entries, ways)."""
    shapes = ((ways << (-(-entries // ways) - 1).bit_length(), ways) for ways in USUAL_WAYS)
    return min(shapes)
