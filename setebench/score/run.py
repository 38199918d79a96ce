"""A whole score: every machine of a plan asked, and the document of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setebench import registry
from setebench.judge import Judgement, accuracy, difference, summary, totals
from setebench.score.advice import regrets
from setebench.score.described import described
from setebench.score.judged import Asked, answered, judge_all
from setebench.score.seeds import simulator_hash
from setebench.score.stream import Done, Plan, read
from setebench.score.versions import other_version
from setebench.score.workers.local import perform_all
from setebench.score.workers.tasks import Answer, Task

Heard = Callable[[Answer], None]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where tasks are carried out: in so many processes of this computer, or on the Dask cluster at an address."""

    workers: int = 1
    address: str | None = None


def carry_out(plan: Plan, place: Place, done: Done, heard: Heard) -> list[Answer]:
    """All answers, in the order of the plan's machines; those that are `done` are not asked for again. `heard` is given
    each new one.

    Another version runs on this computer always: a cluster has the present one."""
    tasks = plan.tasks()
    missing = [task for task in tasks if task.machine not in done]
    every = dict(done)
    if missing:
        every |= {answer.machine: answer for answer in _performed(plan, place, missing, heard)}
    return [every[task.machine] for task in tasks]


def _performed(plan: Plan, place: Place, tasks: list[Task], heard: Heard) -> Sequence[Answer]:
    workers = min(place.workers, len(tasks))
    if plan.commit is not None:
        with other_version(plan.commit) as sources:
            return perform_all(tasks, workers, heard, sources)
    if place.address is None:
        return perform_all(tasks, workers, heard)
    from setebench.score.workers.cluster import perform_on  # needs an extra that need not be installed

    return perform_on(place.address, tasks, heard)


def asked_of(plan: Plan) -> Asked:
    """The parameters that the plan's scenarios are asked for; with scenarios that the user named, those alone."""
    if plan.by_name:
        return Asked(prefixes=_prefixes(plan.scenarios))
    asked = _prefixes(plan.scenarios)
    others = _prefixes(name for name in registry.catalogue() if name not in plan.scenarios)
    return Asked(left_out=tuple(prefix for prefix in others if not prefix.startswith(asked)))


def _prefixes(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(prefix for name in names for prefix in registry.scenario(name).parameters)


def document(plan: Plan, answers: list[Answer], asked: Asked) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1."""
    judgements = _judged(answers, asked)
    made = summary(plan.seed, plan.machines, judgements, answered(answers, asked))
    constants = {each["parameter"] for each in made["constant"]}
    made |= {
        "failures": _failures(plan, answers),
        "lost": _lost(plan, answers),
        "inference": plan.inference,
        "simulator": plan.simulator,
        "settings": {
            "scenarios": list(plan.scenarios),
            "noise": plan.noise,
            "fast": plan.fast,
            "from_findings": plan.from_findings,
        },
        "cpu_seconds": [answer.cpu_seconds for answer in answers],
        "begun": plan.begun,
        "accuracy": _accuracy(plan, judgements, constants),
    }
    if advised := regrets(finding for answer in answers for finding in answer.findings):
        made["regret"] = advised
    if plan.against is not None:
        made["against"] = _against(plan, judgements, asked, constants)
    return made


def _against(plan: Plan, judgements: list[Judgement], asked: Asked, constants: Collection[str]) -> dict[str, Any]:
    """Of the file of answers that these are held against. Its machines without an answer are left out."""
    other, done = read(Path(str(plan.against)))
    answers = [done[name] for name in other.machines if name in done]
    before = _judged(answers, asked)
    return {
        "file": plan.against,
        "inference": other.inference,
        "nonce": other.nonce,
        "same_simulator": other.simulator == plan.simulator,
        **totals(before, constants),
        "difference": difference(before, judgements, constants),
        "failures": _failures(other, answers),
    }


def _accuracy(plan: Plan, judgements: list[Judgement], constants: Collection[str]) -> dict[str, Any]:
    """What the accuracy page shows. Machines can be described only by the simulator that made them."""
    known: dict[str, str] = {}
    if plan.simulator == simulator_hash():
        known = {name: described(name, plan.noise) for name in plan.machines}
    prefixes = [(prefix, name) for name in plan.scenarios for prefix in registry.scenario(name).parameters]

    def scenario_of(parameter: str) -> str:
        fitting = ((len(prefix), name) for prefix, name in prefixes if parameter.startswith(prefix))
        return max(fitting, default=(0, ""))[1]

    return accuracy(judgements, known, scenario_of, constants)


def _judged(answers: list[Answer], asked: Asked) -> list[Judgement]:
    return judge_all(answers, asked.prefixes, asked.left_out)


def _failures(plan: Plan, answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        {
            "machine": answer.machine,
            "seed": plan.machines[answer.machine],
            "scenario": failure.scenario,
            "reason": failure.reason,
            "crashed": failure.crashed,
        }
        for answer in answers
        for failure in answer.failures
    ]


def _lost(plan: Plan, answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        {"machine": answer.machine, "seed": plan.machines[answer.machine], "reason": answer.lost}
        for answer in answers
        if answer.lost is not None
    ]
