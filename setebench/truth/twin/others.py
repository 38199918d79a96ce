"""A rule for prefetchers that fit no family that has a name: the known kind that does most nearly what was seen.

What was seen is a description: which sequences of accesses bring lines, how far ahead, what stops it. Every kind of the
schema that goes by no name of its own is described in the same words, and the nearest one stands for it.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.check_fields import field_problems
from setebench.sim.check_sense import sense_problems
from setebench.sim.described import Description, described
from setebench.sim.dump import dump
from setebench.sim.families import identity_of
from setebench.sim.fields import PREFETCHERS, kind_of, table_fields
from setebench.sim.limits import Table
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Reading, Readings


@dataclass(frozen=True)
class Params:
    """What a difference costs, and how far the nearest is looked for."""

    pattern: float = 1.0  # a sequence that brings lines here and not there: which kind it is shows there first
    lead: float = 0.5  # the mean of a run's lead, twice as far or half as far
    stop: float = 0.5  # something that stops it here and not there
    crossing: float = 0.5  # going over a page's end
    tries: int = 6  # changes of fields of the nearest kind, a tenth of a second each: more brought no better answers


PARAMS = Params()

FACTORS = (0.5, 2.0)
SEEN = ("patterns", "lead", "lead_after_runs", "stopped_by", "crosses_4k")


def others(readings: Readings, draft: Draft) -> None:
    """One prefetcher for each level at which lines came that no family explains, if it was seen which."""
    for level in (1, 2):
        start = f"prefetcher.l{level}.other"
        seen = {name: reading.value for name in SEEN if (reading := readings.get(f"{start}.{name}")) is not None}
        present = readings.get(f"{start}.present")
        if present is None or not present.value or not isinstance(seen.get("patterns"), list):
            continue
        trains = readings.get(f"{start}.trained_by")
        nearest = _nearest(level, readings.line, seen)
        table: Table = type(nearest)
        names = tuple(f"{start}.{name}" for name in seen)
        why = "fits no family; of the kinds that there are, this one brings the most alike lines"
        found = Reading(None, "bounded", parameters=names, why=why)
        index = len(draft.data.get("prefetchers", []))
        draft.put(("prefetchers", index, "kind"), found, kind_of(table))
        draft.put(("prefetchers", index, "level"), present, level)
        for name, field in table_fields(table).items():
            value = getattr(nearest, name)
            if name != "level" and value != field.default:
                draft.put(("prefetchers", index, name), found, value)
        if trains is not None and trains.value:
            draft.put(("prefetchers", index, "trained_by"), trains, list(trains.value))
        draft.put(("prefetchers", index, "fills"), readings.get(f"{start}.fills") or found, nearest.fills)


def _nearest(level: int, line: int, seen: dict[str, Any]) -> Any:
    """The kind whose description is nearest, with whole numbers changed as long as that brings it nearer."""
    kinds: list[Any] = [table(level=level, fills=f"l{level}") for table in PREFETCHERS]
    unnamed = [each for each in kinds if identity_of(each) == f"l{level}.other"]
    best: Any = min(unnamed, key=lambda each: _distance(_described(each, line), seen))
    least, tries = _distance(_described(best, line), seen), 0
    improved = least > 0
    while improved and tries < PARAMS.tries:
        improved = False
        for each in _changes(best):
            tries += 1
            distance = _distance(_described(each, line), seen)
            if distance < least:
                best, least, improved = each, distance, True
                break
            if tries >= PARAMS.tries:
                break
    return best


def _changes(prefetcher: Any) -> Iterator[Any]:
    """The same kind with one whole number half or twice as large."""
    table: Table = type(prefetcher)
    for field in table_fields(table).values():
        value = getattr(prefetcher, field.name)
        if field.name == "level" or isinstance(value, bool) or not isinstance(value, int) or value < 1:
            continue
        for factor in FACTORS:
            changed = msgspec.structs.replace(prefetcher, **{field.name: max(1, round(value * factor))})
            if changed != prefetcher and _possible(changed):
                yield changed


def _possible(prefetcher: Any) -> bool:
    first = spec.Level(sets=64, ways=8, latency_cycles=4.0)
    levels = (first, msgspec.structs.replace(first, sets=1024, latency_cycles=14.0))
    machine = spec.Machine(name="any", levels=levels, prefetchers=(prefetcher,))
    return not field_problems(tomllib.loads(dump(machine))) and not sense_problems(machine)


def _described(prefetcher: Any, line: int) -> Description:
    """Alone in a level, so that it is the same at any."""
    return _at_first_level(msgspec.structs.replace(prefetcher, level=1, fills="l1"), line)


@functools.cache
def _at_first_level(prefetcher: spec.AnyPrefetcher, line: int) -> Description:
    return described((prefetcher,), line)


def _distance(found: Description, seen: dict[str, Any]) -> float:
    """How differently lines come, over all that was seen."""
    distance = PARAMS.pattern * len(set(found.patterns) ^ set(seen["patterns"]))
    for name in ("lead", "lead_after_runs"):
        if isinstance(seen.get(name), list) and seen[name]:
            pairs = list(zip(getattr(found, name), seen[name], strict=False))
            distance += PARAMS.lead * sum(abs(math.log2((1 + one) / (1 + other))) for one, other in pairs) / len(pairs)
    if isinstance(seen.get("stopped_by"), list):
        distance += PARAMS.stop * len(set(found.stopped_by or ()) ^ set(seen["stopped_by"]))
    if isinstance(seen.get("crosses_4k"), bool):
        distance += PARAMS.crossing * (found.crosses_4k != seen["crosses_4k"])
    return distance
