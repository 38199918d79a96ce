"""Which single field of the twin, changed within what is plausible, would explain the worst trials best."""

from __future__ import annotations

import copy
import functools
import math
import time
import tomllib
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.origins import Origin, field_name
from setebench.sim.files.toml_lines import Path
from setebench.sim.spec.check_fields import field_problems
from setebench.sim.spec.check_sense import sense_problems
from setebench.sim.spec.fields import PREFETCHERS, Field, kind_of, literals, table_fields
from setebench.truth.twin import Twin
from setebench.truth.twin.make import fields_of
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.check import Verified, opened_twin, surroundings
from setebench.truth.verify.rows import Row, answers, badness, labels, least_difference
from setebench.truth.verify.trials import Levels, Trial

WORST = 20
NOT_ASKED = frozenset({"name", "description", "line_size_bytes", "clock", "noise", "pmu", "remote_memory"})
"""Tables and fields that no trial asks about."""

NOT_CHANGED = frozenset(
    {("core", "cores"), ("core", "threads_per_core"), ("core", "access_sizes"), ("memory", "bytes")}
)
FACTORS = (0.5, 2.0, 4.0)
NEAR = (0.9, 1.1)
STEPS = (-2, -1, 1, 2)
MOST_BY_STEPS = 32
"""Whole numbers up to that are also changed by one and by two."""

ODD = 0.02
"""How likely a line's label is another one than what the machine would say quietly: interference, mixtures."""

SCREENED = 5
"""Worst trials that a change is tried on first; most explain none of them and are done with."""

EXPLAINED = 0.5
"""A time is explained by a change that halves its error at least."""


@dataclass(frozen=True)
class Explanation:
    """A field with another value: how many of the worst trials it explains, how many others it would spoil, and its
    posterior among all changes that were tried and none."""

    field: str
    value: Any
    instead_of: Any
    explains: int
    spoils: int
    of: int
    path: Path = ()
    posterior: float = 0.0
    machine: spec.Machine | None = None


def worst(checked: Verified, number: int = WORST) -> list[Row]:
    """The trials on which the twin is most wrong: those first on which it stays wrong when both are asked again; none
    on which it is right."""
    ranked = sorted(checked.rows, key=lambda row: (row.number not in checked.staying, -badness(row), row.number))
    return [row for row in ranked[:number] if badness(row) > 0]


Make = Callable[[], spec.Machine | None]
"""Makes a changed machine, or None where the change makes none: checking takes time, so it waits until it is wanted."""


def variants(twin: Twin) -> Iterator[tuple[Path, Any, Make]]:
    """Machines that differ from the twin in one field, within what is plausible: a measured number within its
    interval, or by one; others by factors; every other word and flag; one more or less of what trains a
    prefetcher; a prefetcher more or less."""
    data = tomllib.loads(dump(twin.machine))
    for path, value in fields_of(twin.machine):
        if path[0] in NOT_ASKED or path in NOT_CHANGED:
            continue
        field = _field(twin.machine, path)
        for other in _others(field, value, twin.origins.get(path)) if field is not None else ():
            yield path, other, functools.partial(changed_at, data, path, other)
    yield from _prefetchers(twin.machine)


def _prefetchers(machine: spec.Machine) -> Iterator[tuple[Path, Any, Make]]:
    """One prefetcher less, or one more with its kind's defaults."""
    for index in range(len(machine.prefetchers)):
        less = tuple(each for number, each in enumerate(machine.prefetchers) if number != index)
        kind = kind_of(type(machine.prefetchers[index]))
        yield (
            ("prefetchers", index),
            f"no l{machine.prefetchers[index].level}.{kind}",
            functools.partial(_with, machine, less),
        )
    there = {(each.level, type(each)) for each in machine.prefetchers}
    for level in (1, 2):
        for table in PREFETCHERS:
            if (level, table) not in there:
                more: Any = table(level=level, fills=f"l{level}")
                make = functools.partial(_with, machine, (*machine.prefetchers, more))
                yield ("prefetchers",), f"l{level}.{kind_of(table)}", make


def _with(machine: spec.Machine, prefetchers: tuple[Any, ...]) -> spec.Machine | None:
    changed = msgspec.structs.replace(machine, prefetchers=prefetchers)
    return None if sense_problems(changed) else changed


def _field(machine: spec.Machine, path: Path) -> Field | None:
    """The field of the schema that a path leads to; None for keys of a dictionary."""
    node = _at(machine, path[:-1])
    return table_fields(type(node)).get(str(path[-1])) if isinstance(node, msgspec.Struct) else None


def _at(machine: spec.Machine, path: Path) -> Any:
    node: Any = machine
    for part in path:
        node = getattr(node, str(part)) if isinstance(node, msgspec.Struct) else node[part]
    return node


def _others(field: Field, value: Any, origin: Origin | None) -> list[Any]:
    words = literals(field.type)
    if isinstance(value, bool):
        return [not value]
    if words:
        return [word for word in words if word != value]
    if isinstance(value, (int, float)):
        return _numbers(field, value, origin)
    return _with_and_without(field, value) if isinstance(value, tuple) else []


def _with_and_without(field: Field, value: tuple[Any, ...]) -> list[Any]:
    """A list of words with one of the others, or without one of its own: what trains a prefetcher."""
    inside = next((kind for kind in typing.get_args(field.type) if literals(kind)), None)
    words = literals(inside) if all(isinstance(each, str) for each in value) else ()
    fewer = [[each for each in value if each != word] for word in value if len(value) > 1]
    return [*([*value, word] for word in words if word not in value), *(fewer if words else [])]


def _numbers(field: Field, value: float, origin: Origin | None) -> list[Any]:
    whole = isinstance(value, int)
    if origin is not None and origin.origin == "measured":
        ends = [end for end in (origin.low, origin.high) if end is not None and end != value]
        near = [value + step for step in STEPS] if whole else [value * factor for factor in NEAR]
        found: list[float] = ends or near
    else:
        found = [value * factor for factor in FACTORS]
        found += [value + step for step in STEPS] if whole and value <= MOST_BY_STEPS else []
    if field.limit.power_of_two:
        found = [value / 2, value * 2]
    numbers = {round(each) if whole else float(each) for each in found}
    return sorted(number for number in numbers if number != value)


def changed_at(data: dict[str, Any], path: Path, value: Any) -> spec.Machine | None:
    """The machine of a parsed machine file, with another value in one field; None where that makes no machine."""
    data = copy.deepcopy(data)
    node: Any = data
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    if field_problems(data):
        return None
    changed = msgspec.convert(data, spec.Machine)
    return None if sense_problems(changed) else changed


# -- trying them --------------------------------------------------------------------------------------------------


def explanations(
    checked: Verified, seconds: float, progress: Callable[[str], None] = lambda _: None
) -> list[Explanation]:
    """The likeliest changes first, of those that there was time for and that explain more than they spoil; none where
    nothing is wrong for good."""
    bad = _quick([row for row in worst(checked) if row.number in checked.staying])
    if not bad:
        return []
    good = _quick([row for row in checked.rows if not badness(row)])
    good = good[:: max(1, len(good) // WORST)][:WORST]
    end = time.monotonic() + seconds
    found = []
    for path, value, make in sorted(variants(checked.twin), key=lambda change: _likely(checked.twin, change[0])):
        if time.monotonic() > end:
            break
        machine = make()
        if machine is not None:
            progress(f"trying {field_name(path)} = {value}")
            found.append(_tried(checked, (path, value, machine), bad, good))
    return _useful(found, sum(_fit(row, row.twin, checked.twin.machine) for row in [*bad, *good]))


def _useful(found: list[tuple[Explanation, float]], unchanged: float) -> list[Explanation]:
    """Changes that explain more than they spoil, with their posterior: all tried fields as likely before, a field's
    values too, and no change as likely as one field."""
    tries = Counter(each.path for each, _ in found)
    logs = np.array([unchanged, *(fit - math.log(tries[each.path]) for each, fit in found)])
    weights = np.exp(logs - logs.max())
    known = zip(found, weights[1:] / weights.sum(), strict=True)
    useful = [replace(each, posterior=float(weight)) for (each, _), weight in known if each.explains > each.spoils]
    return sorted(useful, key=lambda each: (-each.posterior, each.spoils - each.explains, each.field))


QUICK = 4096
"""Lines that a trial touches for every change to be tried on it; larger ones are used where there are no others."""


def _quick(rows: list[Row]) -> list[Row]:
    return [row for row in rows if _touched(row) <= QUICK] or rows


def _touched(row: Row) -> int:
    trial = row.trial
    return trial.evicting if isinstance(trial, Levels) else max(trial.ring, trial.units)


LIKELY = ("fitted", "bounded", "assumed", "measured")


def _likely(twin: Twin, path: Path) -> tuple[bool, bool, int]:
    """What is less sure is tried first, and fields of prefetchers before the rest: most of what is known of them is a
    rule. One more prefetcher comes last."""
    origin = twin.origins.get(path)
    more = path == ("prefetchers",)
    return more, path[0] != "prefetchers", LIKELY.index(origin.origin if origin is not None else "bounded")


def _tried(
    checked: Verified, change: tuple[Path, Any, spec.Machine], bad: list[Row], good: list[Row]
) -> tuple[Explanation, float]:
    """What a change explains and spoils, and how well it fits all that was asked."""
    path, value, machine = change
    twin = checked.twin.machine
    said = reply(machine, checked, bad[:SCREENED])
    if any(_better(row, said.get(row.number), twin) for row in bad[:SCREENED]):
        said |= reply(machine, checked, [*bad[SCREENED:], *good])
    else:  # it is no better than the twin on the rest either
        said |= {row.number: row.twin for row in [*bad[SCREENED:], *good]}
    explains = sum(_better(row, said.get(row.number), twin) for row in bad)
    spoils = sum(not _as_good(row, said.get(row.number), twin) for row in good)
    fit = sum(_fit(row, said.get(row.number), twin) for row in [*bad, *good])
    found = Explanation(field_name(path), value, _value(twin, path), explains, spoils, len(bad), path, machine=machine)
    return found, fit


def _fit(row: Row, answer: Answer | None, twin: spec.Machine) -> float:
    """Log-likelihood of the machine's two answers if it behaves like this one, that is gives the same label but for
    some odd lines; or if its times lie around this one's like Laplace's distribution, cut where anything is odd."""
    if answer is None:
        return len(row.compared.first) * 2 * math.log(ODD)
    if isinstance(row.trial, Levels):
        said = labels(answer, twin)
        pairs = [*zip(row.compared.first, said, strict=True), *zip(row.compared.again, said, strict=True)]
        return sum(math.log(1 - ODD if one == other else ODD) for one, other in pairs)
    scale = least_difference(row.trial, row.first)
    gaps = [abs(math.log(answer.cycles[0] / each.cycles[0])) / scale for each in (row.first, row.again)]
    return sum(max(-gap, math.log(ODD)) for gap in gaps)


def _value(machine: spec.Machine, path: Path) -> Any:
    found = _at(machine, path)
    return list(found) if isinstance(found, tuple) else found if isinstance(found, (int, float, str, bool)) else None


def reply(machine: spec.Machine, checked: Verified, rows: list[Row]) -> dict[int, Answer]:
    """What a changed machine says of trials that the twin was asked, by their numbers."""
    return answered(machine, checked, {row.number: row.trial for row in rows}, checked.twin.machine)


def answered(
    machine: spec.Machine, checked: Verified, trials: dict[int, Trial], twin: spec.Machine | None = None
) -> dict[int, Answer]:
    """What a machine says of trials, asked as the twin was. Latencies and working sets are those of `twin`, by default
    its own."""
    twin = twin or machine
    held, seed = (twin.levels[0].latency_cycles, twin.memory.latency_cycles), checked.request.seed
    with opened_twin(machine, seed) as model:
        asker = Asker(model, surroundings(twin, model, model), held, seed + 1, checked.repetitions)
        asker.calibrate()
        return dict(answers(asker, trials))


def _wrong(row: Row, answer: Answer, twin: spec.Machine) -> float:
    """Lines on which an answer differs from what the machine said twice, or the relative error of its time."""
    if isinstance(row.trial, Levels):
        said = labels(answer, twin)
        triples = zip(row.compared.first, row.compared.again, said, strict=True)
        return float(sum(one == two and one != other for one, two, other in triples))
    first = row.compared.first[0]
    return abs(answer.cycles[0] - first) / first


def _better(row: Row, answer: Answer | None, twin: spec.Machine) -> bool:
    if answer is None:
        return False
    before, after = _wrong(row, row.twin, twin), _wrong(row, answer, twin)
    return after == 0 if isinstance(row.trial, Levels) else after <= EXPLAINED * before


def _as_good(row: Row, answer: Answer | None, twin: spec.Machine) -> bool:
    if answer is None:
        return False
    before, after = _wrong(row, row.twin, twin), _wrong(row, answer, twin)
    return after <= before if isinstance(row.trial, Levels) else after <= before + 0.1
