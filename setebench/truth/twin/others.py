"""A rule for prefetchers that fit no family that has a name: the known kind that does most nearly what was seen.

What was seen is a description: which sequences of accesses bring lines, how far ahead, what stops it. Every kind of the
schema that goes by no name of its own is described in the same words, and the nearest one stands for it.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.spec.check_fields import field_problems
from setebench.sim.spec.check_sense import sense_problems
from setebench.sim.spec.fields import PREFETCHERS, Field, kind_of, literals, table_fields
from setebench.sim.spec.limits import Table
from setebench.sim.truth.described import Description, described
from setebench.sim.truth.families import identity_of
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Reading, Readings

CROSSES_LARGE = "crosses_4k_in_2m"


@dataclass(frozen=True)
class Params:
    """What a difference costs, and how far the nearest is looked for."""

    pattern: float = 1.0  # a sequence that brings lines here and not there: which kind it is shows there first
    lead: float = 0.5  # a run's lead (the mean of it), or how far it gets, twice as far or half as far
    stop: float = 0.5  # something that stops it here and not there, or another access that begins it
    crossing: float = 0.5  # going over a page's end
    kinds: int = 6  # nearest kinds of which fields are changed: defaults may be farther than a kind is
    tries: int = 24  # changes of a kind's fields, half a second each
    alike: float = 0.5  # what differs by less differs in no word, so no other kind is tried


PARAMS = Params()

FACTORS = (0.5, 2.0)
SEEN = ("patterns", "lead", "lead_after_runs", "stopped_by", "trigger", "max_distance", "crosses_4k", CROSSES_LARGE)
COMMON = frozenset(table_fields(spec.LinePair))
"""Fields of every kind. What they say was found, or does not show in a description."""


def others(readings: Readings, draft: Draft) -> None:
    """One prefetcher for each level at which lines came that no family explains, if it was seen which."""
    for level in (1, 2):
        start = f"prefetcher.l{level}.other"
        seen = {name: reading for name in SEEN if (reading := readings.get(f"{start}.{name}")) is not None}
        present = readings.get(f"{start}.present")
        if present is None or not present.value or not isinstance(_value(seen, "patterns"), list):
            continue
        values = {name: reading.value for name, reading in seen.items() if reading.kind == "measured"}
        nearest = _nearest(level, readings.line, values)
        names = tuple(f"{start}.{name}" for name in values)
        why = "fits no family; of the kinds that there are, this one brings the most alike lines"
        found = Reading(None, "bounded", parameters=names, why=why)
        index = len(draft.data.get("prefetchers", []))
        draft.put(("prefetchers", index, "kind"), found, kind_of(type(nearest)))
        draft.put(("prefetchers", index, "level"), present, level)
        table: Table = type(nearest)
        for name, field in table_fields(table).items():
            value = getattr(nearest, name)
            if name != "level" and value != field.default:
                draft.put(("prefetchers", index, name), seen.get(name, found), value)
        trains = readings.get(f"{start}.trained_by")
        if trains is not None and trains.value:
            draft.put(("prefetchers", index, "trained_by"), trains, list(trains.value))
        if not draft.put(("prefetchers", index, "fills"), readings.get(f"{start}.fills")):
            draft.assume(("prefetchers", index, "fills"), f"l{level}", "open: its own level")


def _value(seen: dict[str, Reading], name: str) -> Any:
    return seen[name].value if name in seen else None


def _nearest(level: int, line: int, seen: dict[str, Any]) -> Any:
    """The kind whose description is nearest, of those that were nearest before their fields were changed."""
    small = seen.get("crosses_4k") is True
    crosses = {"crosses_4k": small, CROSSES_LARGE: small or seen.get(CROSSES_LARGE) is True}
    kinds: list[Any] = [table(level=level, fills=f"l{level}") for table in PREFETCHERS]
    unnamed = [each for each in kinds if identity_of(each) == f"l{level}.other"]
    goers = (msgspec.structs.replace(each, **crosses) for each in unnamed)
    starts = [goer if _possible(goer) else each for goer, each in zip(goers, unnamed, strict=True)]
    starts.sort(key=lambda each: (_distance(_described(each, line), seen), isinstance(each, spec.Known)))
    best: Any = None
    for each in starts[: PARAMS.kinds]:
        if best is None or _distance(_described(best, line), seen) >= PARAMS.alike:
            refined = _refined(each, line, seen)
            best = min(filter(None, (best, refined)), key=lambda one: _distance(_described(one, line), seen))
    return best


def _refined(start: Any, line: int, seen: dict[str, Any]) -> Any:
    """The same kind with fields changed as long as that brings it nearer."""
    best, least = start, _distance(_described(start, line), seen)
    tried = {start}
    changes = _changes(best)
    while least > 0 and len(tried) <= PARAMS.tries:
        each = next((each for each in changes if each not in tried), None)
        if each is None:
            break
        tried.add(each)
        distance = _distance(_described(each, line), seen)
        if distance < least:
            best, least, changes = each, distance, _changes(each)
    return best


def _changes(prefetcher: Any) -> Iterator[Any]:
    """The same kind with another flag, another word, or a whole number half or twice as large."""
    table: Table = type(prefetcher)
    for field in table_fields(table).values():
        for value in () if field.name in COMMON else _other_values(field, getattr(prefetcher, field.name)):
            changed = msgspec.structs.replace(prefetcher, **{field.name: value})
            if changed != prefetcher and _possible(changed):
                yield changed


def _other_values(field: Field, value: Any) -> list[Any]:
    """Other values of a field."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [max(1, round(value * factor)) for factor in FACTORS]
    return [word for word in literals(field.type) if word != value]


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
        if seen.get(name):
            distance += PARAMS.lead * _apart(getattr(found, name), seen[name])
    if seen.get("max_distance"):
        distance += PARAMS.lead * _apart((found.max_distance,), (seen["max_distance"],))
    if "trigger" in seen:
        distance += PARAMS.stop * (found.trigger != seen["trigger"])
    if "stopped_by" in seen:
        distance += PARAMS.stop * len(set(found.stopped_by or ()) ^ set(seen["stopped_by"]))
    if "crosses_4k" in seen:
        distance += PARAMS.crossing * (found.crosses_4k != seen["crosses_4k"])
    return distance


def _apart(found: Sequence[int], seen: Sequence[int]) -> float:
    """How many times numbers of lines must be doubled to be the others, in the mean."""
    pairs = list(zip(found, seen, strict=False))
    return sum(abs(math.log2((1 + one) / (1 + other))) for one, other in pairs) / len(pairs)
