"""Improves a twin: the few fields that a contradicted family of probes rests on get a value that predicts it better.

Findings stay as they were measured. Candidates come from probes of draws of their own; a referee then runs further ones
on the machine, chosen because twin and candidate answer them differently, and the better of both stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
from scipy import stats

from setebench.machine import open_machine
from setebench.sim import spec
from setebench.sim.files.origins import Origin, Path, field_name
from setebench.sim.spec.checks import Problem, checked
from setebench.truth.twin import Twin, fields_of, said
from setebench.truth.twin.readings import LONGEST_WHY
from setebench.truth.verify.check import Progress, Request, Verified, answered, least_difference, scaled, verify
from setebench.truth.verify.families import Surroundings, Trial, drawn
from setebench.truth.verify.runner import Cycles, Runner

FIELDS: dict[str, tuple[str, ...]] = {
    "runs": ("prefetchers.trigger", "prefetchers.degree", "prefetchers.max_distance"),
    "conflicts": ("levels.ways", "levels.sets"),
    "evictions": ("levels.sets", "levels.ways"),
    "chases": ("levels.latency_cycles", "tlb.entries", "tlb.miss_penalty_cycles", "memory.latency_cycles"),
    "bursts": ("levels.mshr_entries", "levels.mshr_demand_limit", "levels.mshr_prefetch_limit", "core.load_queue"),
    "streams": ("levels.ports", "levels.latency_cycles", "levels.fill_interval_cycles", "memory.interval_cycles"),
}
"""By family of probes, the fields of a machine file (table and name) that decide its answers."""


@dataclass(frozen=True)
class Params:
    """How far fitting goes."""

    steps: int = 8  # fields at most: each takes a check of its own
    candidates: int = 3  # of a step that go to the referee
    part: float = 0.12  # of all time: a step's probes of the machine, and again its changes that the simulator tries
    tried: int = 8  # probes on which the twin is wrong that a change is tried on
    factors: tuple[float, ...] = (0.5, 2.0, 0.8, 1.25)  # of a number that no interval bounds
    pool: int = 160  # trials that the referee draws: few fields show in more than one of ten
    significance: float = 0.01  # that a candidate no better than the twin wins so often: a coin's


PARAMS = Params()


class Change(NamedTuple):
    """A machine that differs from the twin in one field, and in words how."""

    path: Path
    text: str
    machine: spec.Machine


def fit(twin: Twin, request: Request, progress: Progress = lambda _: None) -> Twin:
    """A better twin, whose origins say what was changed; the same where nothing is contradicted, or nothing predicts
    better. Draws are disjoint from those of `verify` with any seed. Raises what opening and running machines raises."""
    seconds = 60 * (request.minutes or 0.0)
    end, minutes = time.monotonic() + seconds, None if request.trials else PARAMS.part * seconds / 60
    for number in range(1, PARAMS.steps + 1):
        found = verify(twin, replace(request, purpose=2 * number - 1, minutes=minutes), progress)
        likely = likeliest(found, PARAMS.part * seconds, progress) if found.contradicted else []
        for change in likely[: PARAMS.candidates]:
            progress(f"the machine decides about {change.text}")
            won, trials = referee(found, change.machine, 2 * number)
            if trials and stats.binomtest(won, trials, alternative="greater").pvalue < PARAMS.significance:
                break
        else:
            break
        why = f"{change.text}: nearer to the machine on {won} of {trials} probes"
        fitted = Origin(origin="fitted", why=f"{why}; before: {said(twin.origins[change.path])}"[:LONGEST_WHY])
        twin = Twin(change.machine, {**twin.origins, change.path: fitted}, twin.set_aside)
        progress(why)
        if time.monotonic() > end:
            break
    return twin


# -- candidates -------------------------------------------------------------------------------------------------------


def changes(twin: Twin, families: Iterable[str]) -> Iterator[Change]:
    """Machines that differ from the twin in one field that these families of probes rest on, in their order: with the
    ends of the interval of a measured number, else with multiples of it and the next whole numbers. What no machine may
    have is left out."""
    wanted = list(dict.fromkeys(name for each in families for name in FIELDS[each]))
    numbers = ((path, value) for path, value in fields_of(twin.machine) if type(value) in (int, float))
    own = [(path, value) for path, value in numbers if f"{path[0]}.{path[-1]}" in wanted]
    for path, value in sorted(own, key=lambda each: wanted.index(f"{each[0][0]}.{each[0][-1]}")):
        origin = twin.origins[path]
        interval = (origin.low, origin.high) if origin.origin == "measured" else ()
        others = [each for each in interval if each is not None and each != value]
        others = others or [value * factor for factor in PARAMS.factors]
        if isinstance(value, int):
            others = [*map(round, others), value - 1, value + 1]
        for other in dict.fromkeys(each for each in others if each != value):
            machine = changed(twin.machine, path, other)
            if isinstance(machine, spec.Machine):
                yield Change(path, f"{field_name(path)} = {other} instead of {value}", machine)


def changed(machine: spec.Machine, path: Path, value: float) -> spec.Machine | Problem:
    """The machine with another value of a field, or why no machine has it."""
    data = node = msgspec.json.decode(msgspec.json.encode(machine))
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return checked(data)


def likeliest(checked: Verified, seconds: float, progress: Progress) -> list[Change]:
    """The changes that bring the simulator nearer to the machine on probes on which the twin stays wrong, those that
    explain most first, of those that there was time for."""
    trials = {row.number: row.trial for row in checked.staying[: PARAMS.tried]}
    own, twin = ({row.number: row.answers[place] for row in checked.staying} for place in (0, -1))
    end, found = time.monotonic() + seconds, list[tuple[int, Change]]()
    for change in changes(checked.twin, dict.fromkeys(trial.family for trial in trials.values())):
        if time.monotonic() > end:
            break
        progress(f"trying {change.text}")
        explained, _ = nearer(trials, (own, twin, answered(change.machine, checked, trials)), checked.around)
        found.append((explained, change))
    return [change for explained, change in sorted(found, key=lambda each: -each[0]) if explained]


def nearer(trials: dict[int, Trial], given: Sequence[dict[int, Cycles]], around: Surroundings) -> tuple[int, int]:
    """Of trials on whose answers a twin and a changed one differ by more than counts: on how many the machine is nearer
    to the changed one, on the target on which both differ most, and how many they are. `given` are the answers of
    machine, twin and changed twin."""
    sides = []
    for number in trials.keys() & given[0].keys() & given[1].keys() & given[2].keys():
        targets = zip(*(scaled(trials[number], each[number], around) for each in given), strict=True)
        own, old, new = max(targets, key=lambda each: abs(each[1] - each[2]))
        if abs(old - new) > least_difference(trials[number], given[1][number]):
            sides.append(abs(own - new) < abs(own - old))
    return sum(sides), len(sides)


def referee(checked: Verified, candidate: spec.Machine, purpose: int) -> tuple[int, int]:
    """What `nearer` says of new probes."""
    request, around = checked.request, checked.around
    trials = drawn(request.seed, range(PARAMS.pool), around, purpose)
    twins = [answered(each, checked, trials) for each in (checked.twin.machine, candidate)]
    with closing(open_machine(request.machine, cpu=request.cpu, seed=request.seed)) as real:
        return nearer(trials, (Runner(real, around, request.seed).answers(trials), *twins), around)
