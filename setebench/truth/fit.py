"""Improves a twin: fields that the machine contradicts get a value with which the twin predicts it better.

Findings stay as they were measured. Candidates come from probes of draws of their own; a referee then asks the machine
about further ones, chosen because twin and candidate answer them differently, and the better of both stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from setebench.machine import open_machine
from setebench.sim import spec
from setebench.sim.files.origins import Origin
from setebench.sim.files.toml_lines import Path
from setebench.truth.twin import Twin, said
from setebench.truth.twin.make import fields_of
from setebench.truth.twin.readings import LONGEST_WHY
from setebench.truth.verify import Request, Verified, verify
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.check import opened_twin, surroundings
from setebench.truth.verify.explain import Explanation, answered, explanations
from setebench.truth.verify.families import drawn
from setebench.truth.verify.rows import answers, least_difference, scaled
from setebench.truth.verify.trials import Trial


@dataclass(frozen=True)
class Params:
    """How far fitting goes."""

    steps: int = 8  # fields at most: each takes a check of its own
    candidates: int = 3  # of a step that go to the referee: the likeliest explain most, or none does
    looking: float = 0.15  # of all time: a step's probes of the machine
    trying: float = 0.1  # of all time: a step's changes that are tried on the simulator
    pool: int = 160  # trials that the referee draws: few fields show in more than one of ten
    asked: int = 24  # of them that the machine is asked, those that separate both best
    significance: float = 0.01  # that a candidate no better than the twin wins so often: a coin's


PARAMS = Params()

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """One field with another value, and on how many of the probes on which both differ the machine sided with it."""

    field: str
    value: object
    instead_of: object
    won: int
    asked: int

    def text(self) -> str:
        """In words."""
        instead = "" if self.instead_of is None else f" instead of {self.instead_of}"
        return f"{self.field} = {self.value}{instead}: nearer to the machine on {self.won} of {self.asked} probes"


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
        explained = explanations(checked, PARAMS.trying * seconds, progress) if checked.contradicted else []
        better = _better(checked, explained, 2 * number, progress)
        if better is None:
            break
        step, change = better
        steps.append(step)
        twin = _changed(twin, change, step)
        progress(step.text())
    return twin, steps


def _better(
    checked: Verified, explained: list[Explanation], purpose: int, progress: Progress
) -> tuple[Step, Explanation] | None:
    """The first of the likeliest changes that the machine sides with."""
    for each in explained[: PARAMS.candidates]:
        if each.machine is None:
            continue
        progress(f"the machine decides about {each.field} = {each.value}")
        won, asked = _referee(checked, each.machine, purpose)
        if _by_coin(won, asked) < PARAMS.significance:
            return Step(each.field, each.value, each.instead_of, won, asked), each
    return None


def _by_coin(won: int, asked: int) -> float:
    """How likely a fair coin wins so often or more."""
    return float(sum(math.comb(asked, k) for k in range(won, asked + 1)) / 2**asked)


def _referee(checked: Verified, candidate: spec.Machine, purpose: int) -> tuple[int, int]:
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
        held = (twin.levels[0].latency_cycles, twin.memory.latency_cycles)
        asker = Asker(real, around, held, request.seed, checked.repetitions)
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


def _changed(twin: Twin, change: Explanation, step: Step) -> Twin:
    """The twin with the change, and with origins that say so; other fields keep theirs, also where prefetchers move."""
    machine = change.machine
    assert machine is not None
    before = twin.origins.get(change.path)
    why = f"{step.text()}; before: {said(before)}" if before is not None else step.text()
    fitted = Origin(origin="fitted", why=why[:LONGEST_WHY])
    origins: dict[Path, Origin] = {}
    for path, _ in fields_of(machine):
        known = twin.origins.get(_earlier(path, twin.machine, machine))
        origins[path] = fitted if known is None or path == change.path else known
    if len(machine.prefetchers) != len(twin.machine.prefetchers):
        origins["prefetchers",] = fitted
    elif ("prefetchers",) in twin.origins:
        origins["prefetchers",] = twin.origins["prefetchers",]
    return Twin(machine, origins, twin.set_aside)


def _earlier(path: Path, old: spec.Machine, new: spec.Machine) -> Path:
    """Where a field of the new machine was in the old one: prefetchers may have moved."""
    if path[0] != "prefetchers" or len(path) < 2 or len(old.prefetchers) == len(new.prefetchers):
        return path
    each = msgspec.to_builtins(new.prefetchers[int(path[1])])
    places = [index for index, known in enumerate(old.prefetchers) if msgspec.to_builtins(known) == each]
    return ("prefetchers", places[0] if places else len(old.prefetchers), *path[2:])
