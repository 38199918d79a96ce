"""A whole score: every machine of a plan asked, of one version of the inference or of two, and the document of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setebench import registry
from setebench.judge import Judgement, Machine, accuracy, difference, failure_classes, summary
from setebench.judge.document import totals
from setebench.score.advice import regrets
from setebench.score.described import described
from setebench.score.judged import Asked, answered, judge_all
from setebench.score.seeds import simulator_hash
from setebench.score.stream import NEW, OLD, Done, Plan
from setebench.score.versions import other_version
from setebench.score.workers.local import perform_all
from setebench.score.workers.tasks import Answer, Task

Heard = Callable[[str, Answer], None]
Answers = dict[str, list[Answer]]
"""By version (`NEW`, `OLD`), in the order of the plan's machines."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where tasks are carried out: in so many processes of this computer, or on the Dask cluster at an address."""

    workers: int = 1
    address: str | None = None


class _Runner:
    """Asks what is not done yet."""

    def __init__(self, plan: Plan, place: Place, done: Done, heard: Heard) -> None:
        self._tasks, self._place, self._done, self._heard = plan.tasks(), place, done, heard

    def answers(self, version: str, sources: Path | None = None) -> list[Answer]:
        """Of one version, those from before among them."""
        missing = [task for task in self._tasks if (version, task.machine) not in self._done]
        new = self._performed(missing, lambda answer: self._heard(version, answer), sources)
        every = {name: each for (which, name), each in self._done.items() if which == version}
        every |= {answer.machine: answer for answer in new}
        return [every[task.machine] for task in self._tasks]

    def _performed(self, tasks: list[Task], heard: Callable[[Answer], None], sources: Path | None) -> Sequence[Answer]:
        if not tasks:
            return []
        if self._place.address is None or sources is not None:
            return perform_all(tasks, min(self._place.workers, len(tasks)), heard, sources)
        from setebench.score.workers.cluster import perform_on  # needs an extra that need not be installed

        return perform_on(self._place.address, tasks, heard)


def carry_out(plan: Plan, place: Place, done: Done, heard: Heard) -> Answers:
    """All answers; those that are `done` are not asked for again. `heard` is given each new one with its version.

    The version to judge against runs on this computer always: a cluster has the present one."""
    runner = _Runner(plan, place, done, heard)
    if plan.against is None:
        return {NEW: runner.answers(NEW)}
    with other_version(plan.against) as sources:  # first, because a commit that can't be run should say so at once
        old = runner.answers(OLD, sources)
    return {NEW: runner.answers(NEW), OLD: old}


def asked_of(plan: Plan) -> Asked:
    """The parameters that the plan's scenarios are asked for; with scenarios that the user named, those alone."""
    if plan.by_name:
        return Asked(prefixes=_prefixes(plan.scenarios))
    asked = _prefixes(plan.scenarios)
    others = _prefixes(name for name in registry.catalogue() if name not in plan.scenarios)
    return Asked(left_out=tuple(prefix for prefix in others if not prefix.startswith(asked)))


def _prefixes(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(prefix for name in names for prefix in registry.scenario(name).parameters)


def document(plan: Plan, answers: Answers, asked: Asked) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1."""
    new = answers[NEW]
    judgements = _judged(new, asked)
    made = summary(plan.seed, plan.machines, judgements, answered(new, asked))
    made |= {
        "failures": _failures(plan, new),
        "lost": _lost(plan, new),
        "inference": plan.inference,
        "simulator": plan.simulator,
        "settings": {
            "scenarios": list(plan.scenarios),
            "noise": plan.noise,
            "fast": plan.fast,
            "from_findings": plan.from_findings,
        },
        "cpu_seconds": [answer.cpu_seconds for answer in new],
        "begun": plan.begun,
        **_published(plan, judgements),
    }
    if advised := regrets(finding for answer in new for finding in answer.findings):
        made["regret"] = advised
    if plan.against is not None:
        old = answers[OLD]
        before = _judged(old, asked)
        made["against"] = {
            "commit": plan.against,
            "totals": totals(before),
            "difference": difference(before, judgements),
            "failures": _failures(plan, old),
            "lost": _lost(plan, old),
        }
    return made


def _published(plan: Plan, judgements: list[Judgement]) -> dict[str, Any]:
    """What the accuracy page shows. Machines can be described only by the simulator that made them."""
    known: dict[str, Machine] = {}
    if plan.simulator == simulator_hash():
        known = {name: described(name, plan.noise) for name in plan.machines}
    prefixes = [(prefix, name) for name in plan.scenarios for prefix in registry.scenario(name).parameters]

    def scenario_of(parameter: str) -> str:
        return max(((len(prefix), name) for prefix, name in prefixes if parameter.startswith(prefix)), default=(0, ""))[
            1
        ]

    return {
        "accuracy": accuracy(judgements, known, scenario_of),
        "failure_classes": failure_classes(judgements, known, plan.machines),
    }


def _judged(answers: list[Answer], asked: Asked) -> list[Any]:
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
