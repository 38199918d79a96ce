"""Improves a twin: the few fields that a contradicted family of probes rests on get a value that predicts it better.

Findings stay as they were measured. Candidates come from probes of draws of their own; a referee then asks the machine
about further ones, chosen because twin and candidate answer them differently, and the better of both stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.machine import open_machine
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import parse
from setebench.sim.files.origins import Origin, field_name
from setebench.sim.files.toml_lines import Path
from setebench.truth.twin import Twin, said
from setebench.truth.twin.make import fields_of
from setebench.truth.twin.readings import LONGEST_WHY
from setebench.truth.verify import Request, Verified, verify
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.check import answered, held_latencies, opened_twin, surroundings
from setebench.truth.verify.families import drawn
from setebench.truth.verify.rows import Row, answers, least_difference, scaled
from setebench.truth.verify.trials import Trial

FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "runs": {"prefetchers": ("trigger", "degree", "max_distance")},
    "conflicts": {"levels": ("ways", "sets")},
    "evictions": {"levels": ("sets", "ways")},
    "chases": {
        "levels": ("latency_cycles",),
        "tlb": ("entries", "miss_penalty_cycles"),
        "memory": ("latency_cycles",),
    },
    "bursts": {
        "levels": ("mshr_entries", "mshr_demand_limit", "mshr_prefetch_limit"),
        "core": ("issue_width", "load_queue"),
    },
    "streams": {"levels": ("ports", "latency_cycles"), "memory": ("interval_cycles",), "core": ("issue_width",)},
}
"""By family of probes, the tables and fields of a machine file that decide its answers."""


@dataclass(frozen=True)
class Params:
    """How far fitting goes."""

    steps: int = 8  # fields at most: each takes a check of its own
    candidates: int = 3  # of a step that go to the referee: the likeliest explain most, or none does
    looking: float = 0.15  # of all time: a step's probes of the machine
    trying: float = 0.1  # of all time: a step's changes that are tried on the simulator
    tried: int = 8  # probes on which the twin is wrong, and on which it is right, that a change is tried on
    factors: tuple[float, ...] = (0.5, 2.0, 0.8, 1.25)  # of a number that no interval bounds
    small: int = 32  # whole numbers up to that are changed by one instead of by a quarter
    pool: int = 160  # trials that the referee draws: few fields show in more than one of ten
    asked: int = 24  # of them that the machine is asked, those that separate both best
    significance: float = 0.01  # that a candidate no better than the twin wins so often: a coin's


PARAMS = Params()

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Change:
    """A machine that differs from the twin in one field."""

    path: Path
    value: Any
    instead_of: Any
    machine: spec.Machine


@dataclass(frozen=True)
class Step:
    """One field with another value, and on how many of the probes on which both differ the machine sided with it."""

    change: Change
    won: int
    asked: int

    def text(self) -> str:
        """In words."""
        field, value = field_name(self.change.path), self.change.value
        instead = f" instead of {self.change.instead_of}"
        return f"{field} = {value}{instead}: nearer to the machine on {self.won} of {self.asked} probes"


def fit(twin: Twin, request: Request, progress: Progress = lambda _: None) -> tuple[Twin, list[Step]]:
    """A better twin, and what was changed; the same where nothing is contradicted, or nothing predicts better. Draws
    are disjoint from those of `verify` with any seed. Raises what opening and running machines raises."""
    seconds = 60 * (request.minutes or 0.0)
    end = time.monotonic() + seconds
    steps: list[Step] = []
    for number in range(1, PARAMS.steps + 1):
        if number > 1 and time.monotonic() > end:
            break
        minutes = None if request.trials else PARAMS.looking * seconds / 60
        checked = verify(twin, replace(request, purpose=2 * number - 1, minutes=minutes), progress)
        step = _step(checked, 2 * number, PARAMS.trying * seconds, progress) if checked.contradicted else None
        if step is None:
            break
        steps.append(step)
        twin = changed(twin, step)
        progress(step.text())
    return twin, steps


def _step(checked: Verified, purpose: int, seconds: float, progress: Progress) -> Step | None:
    """The first of the likeliest changes that the machine sides with."""
    for change in likeliest(checked, seconds, progress)[: PARAMS.candidates]:
        progress(f"the machine decides about {field_name(change.path)} = {change.value}")
        won, asked = referee(checked, change.machine, purpose)
        if by_coin(won, asked) < PARAMS.significance:
            return Step(change, won, asked)
    return None


def by_coin(won: int, asked: int) -> float:
    """How likely a fair coin wins so often or more."""
    return float(sum(math.comb(asked, k) for k in range(won, asked + 1)) / 2**asked)


# -- candidates -------------------------------------------------------------------------------------------------------


def changes(twin: Twin, families: Iterable[str]) -> Iterator[Change]:
    """Machines that differ from the twin in one field that these families of probes rest on, in their order."""
    wanted = [(table, name) for each in families for table, names in FIELDS[each].items() for name in names]
    numbers = [(path, value) for path, value in fields_of(twin.machine) if type(value) in (int, float)]
    for path, value in sorted(
        ((path, value) for path, value in numbers if (path[0], path[-1]) in wanted),
        key=lambda each: wanted.index((str(each[0][0]), str(each[0][-1]))),
    ):
        for other in _others(path, value, twin.origins.get(path)):
            try:
                machine = parse(dump(_replaced(twin.machine, path, other)), "the changed twin")
            except UsageError:  # no machine has this value
                continue
            yield Change(path, other, value, machine)


def _others(path: Path, value: float, origin: Origin | None) -> list[float]:
    """Other values of a field: the ends of the interval of a measured one, else by factors, or by one; sets, whose
    number is mostly a power of two, half and double."""
    ends = (origin.low, origin.high) if origin is not None and origin.origin == "measured" else ()
    found = [end for end in ends if end is not None and end != value]
    if not found:
        half_or_double, by_a_quarter = (PARAMS.factors[:2], PARAMS.factors[2:])
        found = [value * factor for factor in half_or_double]
        if isinstance(value, int) and value <= PARAMS.small:
            found += [value - 1, value + 1]
        elif path[-1] != "sets":
            found += [value * factor for factor in by_a_quarter]
    whole = [round(each) for each in found] if isinstance(value, int) else found
    return [each for each in dict.fromkeys(whole) if each != value]


def _replaced(node: Any, path: Path, value: Any) -> Any:
    """The node with another value at a path below it."""
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(node, msgspec.Struct):
        return msgspec.structs.replace(node, **{str(head): _replaced(getattr(node, str(head)), rest, value)})
    if isinstance(node, dict):
        return {**node, head: _replaced(node[head], rest, value)}
    return tuple(_replaced(each, rest, value) if index == head else each for index, each in enumerate(node))


def likeliest(checked: Verified, seconds: float, progress: Progress = lambda _: None) -> list[Change]:
    """The changes that explain more of the probes on which the twin stays wrong than they spoil of others, those that
    explain most first, of those that there was time for."""
    bad = checked.staying[: PARAMS.tried]
    good = [row for row in checked.rows if not row.badness][: PARAMS.tried]
    end, found = time.monotonic() + seconds, list[tuple[int, Change]]()
    for change in changes(checked.twin, dict.fromkeys(row.trial.family for row in bad)):
        if time.monotonic() > end:
            break
        progress(f"trying {field_name(change.path)} = {change.value}")
        given = _given(change, checked, bad)
        gain = sum(_gap(row, given, checked) < _gap(row, {row.number: row.twin}, checked) / 2 for row in bad)
        if gain:
            given = _given(change, checked, good)
            gain -= sum(_gap(row, given, checked) > least_difference(row.trial, row.first) for row in good)
        found.append((gain, change))
    return [change for gain, change in sorted(found, key=lambda each: -each[0]) if gain > 0]


def _given(change: Change, checked: Verified, rows: list[Row]) -> dict[int, Answer]:
    trials = {row.number: row.trial for row in rows}
    return answered(change.machine, checked, trials, checked.twin.machine)


def _gap(row: Row, given: dict[int, Answer], checked: Verified) -> float:
    """How far an answer is from the machine's on the target on which the twin is worst; far without one."""
    if row.number not in given:
        return math.inf
    own, other = (scaled(row.trial, each, checked.twin.machine)[row.worst] for each in (row.first, given[row.number]))
    return abs(own - other)


# -- the referee ------------------------------------------------------------------------------------------------------


def referee(checked: Verified, candidate: spec.Machine, purpose: int) -> tuple[int, int]:
    """On how many of the new probes that separate twin and candidate the machine is nearer to the candidate."""
    twin, request = checked.twin.machine, checked.request
    real = open_machine(request.machine, cpu=request.cpu, seed=request.seed)
    try:
        with opened_twin(twin, request.seed) as model:
            around = surroundings(twin, real, model)
        drawings = ((number, drawn(request.seed, number, around, purpose)) for number in range(PARAMS.pool))
        trials = {number: trial for number, trial in drawings if trial is not None}
        old, new = (answered(each, checked, trials, twin) for each in (twin, candidate))
        places = _separating(trials, old, new, twin)
        asker = Asker(real, around, held_latencies(twin), request.seed, checked.repetitions)
        asker.alone()
        asker.calibrate()
        found = dict(answers(asker, {number: trials[number] for number in places}))
        asker.close()
    finally:
        real.close()
    won = 0
    for number, answer in found.items():
        own, one, other = (
            scaled(trials[number], each, twin)[places[number]] for each in (answer, old[number], new[number])
        )
        won += abs(own - other) < abs(own - one)
    return won, len(found)


def _separating(
    trials: dict[int, Trial], old: dict[int, Answer], new: dict[int, Answer], twin: spec.Machine
) -> dict[int, int]:
    """Trials on which both differ most, with the target on which they do."""
    found: list[tuple[float, int, int]] = []
    for number in old.keys() & new.keys():
        trial = trials[number]
        pairs = zip(scaled(trial, old[number], twin), scaled(trial, new[number], twin), strict=True)
        gap, target = max((abs(one - other), index) for index, (one, other) in enumerate(pairs))
        if gap > least_difference(trial, old[number]):
            found.append((-gap, number, target))
    return {number: target for _, number, target in sorted(found)[: PARAMS.asked]}


def changed(twin: Twin, step: Step) -> Twin:
    """The twin with the change, and with an origin that says so."""
    before = twin.origins.get(step.change.path)
    why = f"{step.text()}; before: {said(before)}" if before is not None else step.text()
    fitted = Origin(origin="fitted", why=why[:LONGEST_WHY])
    return Twin(step.change.machine, {**twin.origins, step.change.path: fitted}, twin.set_aside)
