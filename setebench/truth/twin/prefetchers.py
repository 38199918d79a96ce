"""Rules for hardware prefetchers: which there are, and the fields of each kind."""

from __future__ import annotations

import itertools
from typing import Any

from setebench.errors import UsageError
from setebench.sim import spec
from setebench.sim.spec.fields import PREFETCHERS, Field, finding_names, kind_of, table_fields
from setebench.sim.spec.fields import TableType as Table
from setebench.truth.twin.readings import Draft, Reading, Readings, assumed
from setebench.truth.twin.replay import BY_STRIDES, leads, outgrown, replayed

START = "prefetcher."
PRESENT = ".present"
BY_FIRST = "trigger_by_l1_prefetcher"
LISTS = {"lead": int, "ip_bits": int, "trigger_at_page_edge": int, "trained_by": str}
"""Parameters that are lists, and what they hold. No field is a plain copy of one."""

MOST_IP_BITS = int(table_fields(spec.Stride)["ip_bits"].limits[1] or 0)

MOST_RAMP = 4
"""First batches of a stream that a machine file takes."""

Fields = dict[str, Reading]
"""Of one prefetcher, by name."""


def prefetchers(readings: Readings, draft: Draft) -> None:
    """Every prefetcher that is reported present and that the schema has a kind for. One whose presence is open, or
    that fits no kind, is left out, which the origin of the list itself says."""
    kinds = {kind_of(table): table for table in PREFETCHERS}
    replays = replayed(readings, draft, 0)
    unsettled, found = list[str](), list[Fields]()
    for name in readings.names(START, PRESENT):
        present = readings.get(name)
        level, _, kind = name.removeprefix(START).removesuffix(PRESENT).partition(".")
        if present is None or (present.value and kind not in kinds and not replays):
            unsettled.append(name)
        elif present.value and kind in kinds and level in ("l1", "l2"):
            fields = _fields(readings, kinds[kind], f"{START}{level}.{kind}", present)
            found += _parts(readings, fields) if kinds[kind] is spec.Stride and level == "l1" else [fields]
    for index, fields in enumerate(found, replays):
        for field, reading in fields.items():
            draft.put(("prefetchers", index, field), reading)
    if unsettled:
        absent = Reading(None, "bounded", parameters=tuple(unsettled), why="open, or of no known kind; left out")
        draft.origins["prefetchers",] = absent.origin


def _reading(readings: Readings, name: str) -> Reading | None:
    """The reading of a parameter. Raises `UsageError` where one that is a list is none, or holds something else."""
    reading, kind = readings.get(name), LISTS.get(name.rpartition(".")[2])
    if reading is not None and kind is not None:
        value: Any = reading.value
        if not isinstance(value, list | tuple) or not all(isinstance(each, kind) for each in value):
            raise UsageError(f"{name} is to be a list of {kind.__name__}, and is {value!r:.40}")
    return reading if reading is not None and reading.value != [] else None


def _fields(readings: Readings, table: Table, name: str, present: Reading) -> Fields:
    """The fields of a prefetcher that findings say something of, and those that go with them."""
    level, renamed, known = int(name.removeprefix(START)[1]), finding_names(table), table_fields(table)
    fields: Fields = {"level": present.of(level), "kind": present.of(kind_of(table))}
    lists = {parameter: _reading(readings, f"{name}.{parameter}") for parameter in LISTS}
    for parameter in (each.removeprefix(f"{name}.") for each in readings.names(f"{name}.")):
        own = readings.get(f"{name}.{parameter}")
        if parameter not in LISTS and renamed.get(parameter, parameter) in known and own is not None:
            fields[renamed.get(parameter, parameter)] = own
    first = readings.get(f"{name}.trained_by_l1_prefetcher")
    by_first = ["l1_prefetcher"] if BY_FIRST in fields or (first and first.value) else []
    if trained := lists["trained_by"]:
        fields["trained_by"] = trained.of([*trained.value, *by_first])
    if "ip_bits" in known and (bits := lists["ip_bits"]):
        fields["ip_bits"] = bits.of(max(bits.value) + 1)
    if "trigger_at_page_edge" in known and (edges := lists["trigger_at_page_edge"]):
        same = "trigger" in fields and all(edge == fields["trigger"].value for edge in edges.value)
        fields["trigger_at_page_edge"] = edges.of([] if same else list(edges.value))
    guesses = {
        "fills": assumed(f"l{level}", "open: its own level"),
        "trained_by": assumed(["load", *by_first], "open: loads"),
        "ip_bits": assumed(MOST_IP_BITS, "open: whole addresses, as a part would mistake some for others"),
    }
    if level > 1:
        guesses["indexed_by"] = assumed("page", "open: addresses of instructions end at level 1")
    if table is spec.Stride and outgrown(readings):
        why = "by one instruction runs of neighbouring lines lead no further than by many"
        guesses["min_stride_bytes"] = assumed(readings.line + 1, why)
    fields = {each: guess for each, guess in guesses.items() if each in known} | fields
    if lists["lead"] and "degree" in fields:
        fields |= _led(lists["lead"], table, fields)
    return fields | _consistent(fields, known)


def _parts(readings: Readings, fields: Fields) -> list[Fields]:
    """A stride, and a second one beside it where further strides come to level 2 alone."""
    found = leads(readings, (BY_STRIDES,), 3, 3)
    if fields["fills"].value != "l1" or not found.beyond or not any(found.near):
        return [fields]
    why = f"strides ahead of a run: {BY_STRIDES}"
    near = {"degree": assumed(min(filter(None, found.near)), why), "max_distance": assumed(max(found.near), why)}
    return [fields | near, fields | {"fills": assumed("l2", why)}]


def _led(led: Reading, table: Table, fields: Fields) -> Fields:
    """What the lead of a run shows: first batches of a stream that are smaller than later ones (an access takes a line
    from the lead, and its batch adds to it), new lines that each add to it, and next lines that come after misses
    only."""
    shown, degree = dict[str, Any](), fields["degree"].value
    if table is spec.NextLine and led.value[0] > 0:
        shown["only_misses"] = led.value[1] < led.value[0]
    leads = itertools.pairwise([0, *led.value])
    batches = [lines - max(before - 1, 0) for before, lines in leads if lines or before]
    if degree in batches[: MOST_RAMP + 1] and batches[0] < degree:
        shown["ramp"] = batches[: batches.index(degree)]
    if "leads_by" not in fields and sorted(led.value) == led.value:  # batches would let it fall between them
        shown["leads_by"] = "new_line"
    return {field: led.of(value) for field, value in shown.items() if field in table_fields(table)}


def _consistent(fields: Fields, known: dict[str, Field]) -> Fields:
    """Fields that were left open must go with those that were found."""
    values = {name: fields[name].value if name in fields else field.default for name, field in known.items()}
    more: Fields = {}
    if values.get("degree", 0) > values.get("max_distance", values.get("degree", 0)):
        one, other = ("degree", "max_distance") if "degree" in fields else ("max_distance", "degree")
        if other not in fields:
            more[other] = assumed(values[one], f"open; goes with {one}")
    if values["crosses_4k"] and not values["crosses_4k_in_2m"]:
        more["crosses_4k_in_2m"] = assumed(True, "what crosses in small pages crosses in large ones")
    if values.get("streams_per_page") == 2 and "directions" not in fields:
        more["directions"] = assumed("both", "open; two streams in a page go both ways")
    return more
