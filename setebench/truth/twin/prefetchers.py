"""Rules for hardware prefetchers: which there are, and the fields of each kind."""

from __future__ import annotations

import itertools
from typing import Any

from setebench.errors import UsageError
from setebench.sim import spec
from setebench.sim.spec.fields import PREFETCHERS, finding_names, kind_of, table_fields
from setebench.sim.spec.fields import TableType as Table
from setebench.truth.twin.readings import Draft, Reading, Readings
from setebench.truth.twin.replay import BY_STRIDES, leads, outgrown, replayed

START = "prefetcher."
PRESENT = ".present"
BY_FIRST = "trigger_by_l1_prefetcher"
BY_RULE = frozenset({"ip_bits", "trained_by", "trigger_at_page_edge"})
"""Fields that are no plain copy of the finding of their name."""

LISTS = {"lead": int, "ip_bits": int, "trigger_at_page_edge": int, "trained_by": str}
"""Parameters that are lists, and what they hold."""

MOST_IP_BITS = int(table_fields(spec.Stride)["ip_bits"].limits[1] or 0)

MOST_RAMP = 4
"""First batches of a stream that a machine file takes."""


def prefetchers(readings: Readings, draft: Draft) -> None:
    """Every prefetcher that is reported present and that the schema has a kind for. One whose presence is open, or
    that fits no kind, is left out, which the origin of the list itself says."""
    kinds = {kind_of(table): table for table in PREFETCHERS}
    replays = replayed(readings, draft, 0)
    unsettled, index = [], itertools.count(replays)
    for name in readings.names(START, PRESENT):
        present = readings.get(name)
        level, _, kind = name.removeprefix(START).removesuffix(PRESENT).partition(".")
        if present is None or (present.value and kind not in kinds and not replays):
            unsettled.append(name)
        elif present.value and kind in kinds and level in ("l1", "l2"):
            one = _Prefetcher(readings, draft, kinds[kind], f"{START}{level}.{kind}", next(index))
            one.fill(present)
            if kinds[kind] is spec.Stride and level == "l1" and one.get("fills") == "l1":
                index = itertools.count(int(one.path[-1]) + 1 + one.part())
    if unsettled:
        absent = Reading(None, "bounded", parameters=tuple(unsettled), why="open, or of no known kind; left out")
        draft.origins["prefetchers",] = absent.origin


class _Prefetcher:
    """One that was found: its table in the schema, its name in findings, its place in the machine file."""

    def __init__(self, readings: Readings, draft: Draft, table: Table, name: str, index: int) -> None:
        self.readings, self.draft, self.name, self.path = readings, draft, name, ("prefetchers", index)
        self.table, self.fields = table, table_fields(table)

    def found(self, parameter: str) -> Reading | None:
        """The reading of a parameter. Raises `UsageError` where one that is a list is none, or holds something else."""
        reading = self.readings.get(f"{self.name}.{parameter}")
        if reading is not None and (kind := LISTS.get(parameter)) is not None:
            value: Any = reading.value
            if not isinstance(value, list | tuple) or not all(isinstance(each, kind) for each in value):
                raise UsageError(f"{self.name}.{parameter} is to be a list of {kind.__name__}, and is {value!r:.40}")
        return reading if reading is not None and reading.value != [] else None

    def put(self, field: str, reading: Reading | None) -> None:
        if field in self.fields:
            self.draft.put((*self.path, field), reading)

    def assume(self, field: str, value: Any, why: str) -> None:
        """Fill a field of which nothing was found."""
        if field in self.fields and self.get(field) is None:
            self.draft.assume((*self.path, field), value, why)

    def get(self, field: str) -> Any:
        return self.draft.fields.get((*self.path, field))

    def fill(self, present: Reading) -> None:
        """All fields that findings say something of, and those that go with them."""
        level = int(self.name.removeprefix(START)[1])
        self.put("level", present.of(level))
        self.draft.put((*self.path, "kind"), present.of(kind_of(self.table)))
        renamed = finding_names(self.table)
        for name in self.readings.names(f"{self.name}."):
            parameter = name.removeprefix(f"{self.name}.")
            if parameter not in BY_RULE:
                self.put(renamed.get(parameter, parameter), self.readings.get(name))
        self.assume("fills", f"l{level}", "open: its own level")
        if level > 1:
            self.assume("indexed_by", "page", "open: addresses of instructions end at level 1")
        found, first = self.found("trained_by"), self.found("trained_by_l1_prefetcher")
        by_first = ["l1_prefetcher"] if self.get(BY_FIRST) is not None or (first and first.value) else []
        self.put("trained_by", found and found.of([*found.value, *by_first]))
        self.assume("trained_by", ["load", *by_first], "open: loads")
        bits, edges = self.found("ip_bits"), self.found("trigger_at_page_edge")
        self.put("ip_bits", bits and bits.of(max(bits.value) + 1))
        self.assume("ip_bits", MOST_IP_BITS, "open: whole addresses, as a part would mistake some for others")
        same = edges is not None and all(edge == self.get("trigger") for edge in edges.value)
        self.put("trigger_at_page_edge", edges and edges.of([] if same else list(edges.value)))
        if self.table is spec.Stride and outgrown(self.readings):
            why = "by one instruction runs of neighbouring lines lead no further than by many"
            self.assume("min_stride_bytes", self.readings.line + 1, why)
        self._led()
        self._consistent()

    def part(self) -> int:
        """Beside a stride of which further strides come to level 2 alone a second one for these: how many are added."""
        found = leads(self.readings, (BY_STRIDES,), 3, 3)
        if not found.beyond or not any(found.near):
            return 0
        why = f"strides ahead of a run: {BY_STRIDES}"
        number = int(self.path[-1])
        for path, value in [*self.draft.fields.items()]:
            if path[:2] == self.path:
                self.draft.fields["prefetchers", number + 1, path[2]] = value
                self.draft.origins["prefetchers", number + 1, path[2]] = self.draft.origins[path]
        self.draft.assume(("prefetchers", number + 1, "fills"), "l2", why)
        self.draft.assume((*self.path, "degree"), min(filter(None, found.near)), why)
        self.draft.assume((*self.path, "max_distance"), max(found.near), why)
        return 1

    def _led(self) -> None:
        """What the lead of a run shows: first batches of a stream that are smaller than later ones (an access takes a
        line from the lead, and its batch adds to it), new lines that each add to it, and next lines that come after
        misses only."""
        led, degree = self.found("lead"), self.get("degree")
        if led is None or not degree:
            return
        if self.table is spec.NextLine and led.value[0] > 0:
            self.put("only_misses", led.of(led.value[1] < led.value[0]))
        leads = itertools.pairwise([0, *led.value])
        batches = [lines - max(before - 1, 0) for before, lines in leads if lines or before]
        if degree in batches[: MOST_RAMP + 1] and batches[0] < degree:
            self.put("ramp", led.of(batches[: batches.index(degree)]))
        if self.get("leads_by") is None and sorted(led.value) == led.value:  # batches would let it fall between them
            self.put("leads_by", led.of("new_line"))

    def _consistent(self) -> None:
        """Fields that were left open must go with those that were found."""
        given = {name: self.get(name) for name in self.fields}
        values = {name: self.fields[name].default if each is None else each for name, each in given.items()}
        if values.get("degree", 0) > values.get("max_distance", values.get("degree", 0)):
            self.assume("max_distance", values["degree"], "open; goes with degree")
            self.assume("degree", values["max_distance"], "open; goes with max_distance")
        if values["crosses_4k"] and not values["crosses_4k_in_2m"]:
            self.draft.fields.pop((*self.path, "crosses_4k_in_2m"), None)
            self.assume("crosses_4k_in_2m", True, "what crosses in small pages crosses in large ones")
        if values.get("streams_per_page") == 2:
            self.assume("directions", "both", "open; two streams in a page go both ways")
