"""Rules for hardware prefetchers: which there are, and the fields of each kind."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from setebench.sim import spec
from setebench.sim.spec.fields import PREFETCHERS, kind_of, table_fields
from setebench.sim.spec.fields import TableType as Table
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Reading, Readings

START = "prefetcher."
PRESENT = ".present"
RENAMED: dict[Table, dict[str, str]] = {
    spec.Stride: {"streams": "entries", "min_stride": "min_stride_bytes", "max_stride": "max_stride_bytes"},
    spec.Region: {"streams": "active_regions", "region_size": "region_size_bytes"},
}
"""Fields that findings call something else; all others have the finding's name."""

BY_FIRST = "trained_by_l1_prefetcher"
BY_RULE = frozenset(
    {"present", "ip_bits", "trained_by", "trigger_at_page_edge", "trigger_by_l1_prefetcher", "lead", BY_FIRST}
)
NOT_ASKED = "whether requests of level 1's prefetchers train it is open"
MOST_RAMP = 4
"""First batches of a stream that a machine file takes."""


@dataclass(frozen=True)
class _Known:
    """A prefetcher that was found: its name in findings, its table in the schema, its place in the machine file."""

    identity: str
    table: Table
    index: int

    def path(self, field: str) -> tuple[str, int, str]:
        return ("prefetchers", self.index, field)


def prefetchers(readings: Readings, draft: Draft) -> None:
    """Every prefetcher that is reported present and that the schema has a kind for. One whose presence is open, or
    that fits no kind, is left out, which the origin of the list itself says."""
    kinds = {kind_of(table): table for table in PREFETCHERS}
    found, unsettled = [], []
    for name in readings.names(START, PRESENT):
        identity = name.removeprefix(START).removesuffix(PRESENT)
        present = readings.get(name)
        level, _, kind = identity.partition(".")
        if present is None or (present.value and kind not in kinds):
            unsettled.append(identity)
        elif present.value and level in ("l1", "l2"):
            found.append((identity, kinds[kind]))
    for index, (identity, table) in enumerate(found):
        _prefetcher(readings, draft, _Known(identity, table, index))
    if unsettled:
        names = tuple(f"{START}{each}{PRESENT}" for each in unsettled)
        absent = Reading(None, "bounded", parameters=names, why="open, or of no known kind; left out")
        draft.origins["prefetchers",] = absent.origin


def _prefetcher(readings: Readings, draft: Draft, known: _Known) -> None:
    level, kind = int(known.identity[1]), kind_of(known.table)
    present = readings.get(f"{START}{known.identity}{PRESENT}")
    draft.put(known.path("level"), present, level)
    draft.put(known.path("kind"), present, kind)
    fields = table_fields(known.table)
    renamed = RENAMED.get(known.table, {})
    start = f"{START}{known.identity}."
    for name in readings.names(start):
        parameter = name.removeprefix(start)
        field = renamed.get(parameter, parameter)
        if parameter not in BY_RULE and field in fields:
            draft.put(known.path(field), readings.get(name))
    if draft.get(known.path("fills")) is None:
        draft.assume(known.path("fills"), f"l{level}", "open: its own level")
    if level > 1 and "indexed_by" in fields and draft.get(known.path("indexed_by")) is None:
        draft.assume(known.path("indexed_by"), "page", "open: addresses of instructions end at level 1")
    _trained_by(readings, draft, known)
    _bits_and_edges(readings, draft, known)
    _from_lead(readings, draft, known)
    _consistent(draft, known)


def _in_first_level(readings: Readings) -> bool:
    """Whether level 1 may have a prefetcher, whose requests level 2 sees."""
    present = (readings.get(name) for name in readings.names(f"{START}l1.", PRESENT))
    return any(each is None or each.value for each in present)


def _trained_by(readings: Readings, draft: Draft, known: _Known) -> None:
    found = readings.get(f"{START}{known.identity}.trained_by")
    by_first = readings.get(f"{START}{known.identity}.trigger_by_l1_prefetcher")
    who = list(found.value) if found is not None and found.value else ["load"]
    asked = readings.get(f"{START}{known.identity}.{BY_FIRST}")
    if by_first is not None or (asked is not None and asked.value):
        who.append("l1_prefetcher")
    draft.put(known.path("trigger_by_l1_prefetcher"), by_first)
    if found is not None and found.value:
        known_all = known.identity.startswith("l1.") or "l1_prefetcher" in who or asked or not _in_first_level(readings)
        draft.put(known.path("trained_by"), found if known_all else found.bounded(NOT_ASKED), who)
    else:
        draft.assume(known.path("trained_by"), who, "open: loads")


def _bits_and_edges(readings: Readings, draft: Draft, known: _Known) -> None:
    bits = readings.get(f"{START}{known.identity}.ip_bits")
    if bits is not None and bits.value and "ip_bits" in table_fields(known.table):
        draft.put(known.path("ip_bits"), bits, max(int(bit) for bit in bits.value) + 1)
    edges = readings.get(f"{START}{known.identity}.trigger_at_page_edge")
    if edges is not None and "trigger_at_page_edge" in table_fields(known.table):
        trigger = draft.get(known.path("trigger"))
        same = all(edge == trigger for edge in edges.value)
        draft.put(known.path("trigger_at_page_edge"), edges, [] if same else list(edges.value))


def _from_lead(readings: Readings, draft: Draft, known: _Known) -> None:
    """What the lead of a run shows: first batches of a stream that are smaller than the later ones (an access takes
    a line from the lead, and its batch adds to it), and next lines that come after misses only."""
    led = readings.get(f"{START}{known.identity}.lead")
    degree = draft.get(known.path("degree"))
    if led is None or not degree:
        return
    if known.table is spec.NextLine and led.value[0] > 0:
        draft.put(known.path("only_misses"), led, led.value[1] < led.value[0])
    if "ramp" not in table_fields(known.table):
        return
    batches = [lines - max(before - 1, 0) for before, lines in itertools.pairwise([0, *led.value]) if lines or before]
    if degree in batches[: MOST_RAMP + 1] and batches[0] < degree:
        draft.put(known.path("ramp"), led, batches[: batches.index(degree)])


def _consistent(draft: Draft, known: _Known) -> None:
    """Fields that were left open must go with those that were found."""

    def value(name: str) -> Any:
        found = draft.get(known.path(name))
        return table_fields(known.table)[name].default if found is None else found

    fields = table_fields(known.table)
    if {"degree", "max_distance"} <= set(fields) and value("degree") > value("max_distance"):
        open_one = "max_distance" if draft.get(known.path("max_distance")) is None else "degree"
        other = "degree" if open_one == "max_distance" else "max_distance"
        if draft.get(known.path(open_one)) is None:
            draft.assume(known.path(open_one), value(other), f"open; goes with {other}")
    if value("crosses_4k") and not value("crosses_4k_in_2m"):
        draft.assume(known.path("crosses_4k_in_2m"), True, "what crosses in small pages crosses in large ones")
    if "streams_per_page" in fields and value("streams_per_page") == 2 and draft.get(known.path("directions")) is None:
        draft.assume(known.path("directions"), "both", "open; two streams in a page go both ways")
