"""A whole score: every machine of a plan asked, and the document of it. Only here, after a scenario has answered, do
findings and truth meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from setebench import files, registry
from setebench.errors import UsageError
from setebench.judge import Answered, Judgement, accuracy, difference, judge, summary, totals
from setebench.results import Finding
from setebench.score import stream
from setebench.score.advice import regrets
from setebench.score.seeds import sealed_seeds
from setebench.score.stream import Done, Plan
from setebench.score.versions import other_version
from setebench.score.workers.local import perform_all
from setebench.score.workers.tasks import Answer, Task

Heard = Callable[[Answer], None]

NEVER_JUDGED = frozenset({"stream"})
"""Scenarios of whose answers no simulated machine has a truth, so that a score learns nothing of them: kernels of the
STREAM table mix loads and stores, whose queues limit each other. They take a third to a half of all scenarios' time
there, and are asked where they are named alone."""

NEEDED = ("accuracy", "by_machine", "settings", "cpu_seconds", "sealed")
"""Keys without which a score document can't be published; older versions wrote some of them not."""


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


# -- judging ----------------------------------------------------------------------------------------------------------


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Prefixes of the parameters that are judged (None: of all), and of those that nobody was asked for."""

    prefixes: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()

    def holds(self, parameter: str) -> bool:
        """Whether the parameter is judged."""
        wanted = self.prefixes is None or parameter.startswith(self.prefixes)
        return wanted and not parameter.startswith(self.left_out)


def asked_of(plan: Plan) -> Asked:
    """The parameters that the plan's scenarios are asked for; with scenarios that the user named, those alone."""
    asked = _prefixes(plan.scenarios)
    if plan.by_name:
        return Asked(prefixes=asked)
    others = _prefixes(name for name in registry.catalogue() if name not in plan.scenarios)
    return Asked(left_out=tuple(prefix for prefix in others if not prefix.startswith(asked)))


def _prefixes(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(prefix for name in names for prefix in registry.scenario(name).parameters)


def judge_all(
    answers: list[Answer], prefixes: tuple[str, ...] | None, left_out: tuple[str, ...] = ()
) -> list[Judgement]:
    """Judge all answers; with `prefixes` only parameters that begin with one of them, and none of those `left_out`."""
    asked = Asked(prefixes=prefixes, left_out=left_out)
    known = frozenset(finding.parameter for answer in answers for finding in answer.truths)
    judgements = [
        judgement
        for answer in answers
        for judgement in judge(answer.machine, answer.findings, answer.truths, known, answer.left_open)
    ]
    return [judgement for judgement in judgements if asked.holds(judgement.parameter)]


def _answered(answer: Answer, asked: Asked) -> Answered:
    """The answer with those parameters alone that are asked for."""

    def held(findings: list[Finding]) -> list[Finding]:
        return [finding for finding in findings if asked.holds(finding.parameter)]

    findings, truths = held(answer.findings), held(answer.truths)
    return Answered(machine=answer.machine, findings=findings, truths=truths, left_open=answer.left_open)


# -- the document -----------------------------------------------------------------------------------------------------


def document(plan: Plan, answers: list[Answer], asked: Asked) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1."""
    judgements = judge_all(answers, asked.prefixes, asked.left_out)
    made = summary(plan.seed, plan.machines, judgements, [_answered(each, asked) for each in answers])
    constants = {each["parameter"] for each in made["constant"]}
    settings = {name: getattr(plan, name) for name in ("scenarios", "noise", "fast", "from_findings")}
    lost = [answer for answer in answers if answer.lost is not None]
    made |= {
        "failures": _failures(plan, answers),
        "lost": [{"machine": each.machine, "seed": plan.machines[each.machine], "reason": each.lost} for each in lost],
        "inference": plan.inference,
        "simulator": plan.simulator,
        "settings": settings | {"scenarios": list(plan.scenarios)},
        "cpu_seconds": [answer.cpu_seconds for answer in answers],
        "begun": plan.begun,
        "accuracy": accuracy(judgements, _scenario_of(plan), constants),
    }
    if advised := regrets(finding for answer in answers for finding in answer.findings):
        made["regret"] = advised
    if plan.against is not None:
        made["against"] = _against(plan, judgements, asked, constants)
    return made


def _scenario_of(plan: Plan) -> Callable[[str], str]:
    prefixes = [(prefix, name) for name in plan.scenarios for prefix in registry.scenario(name).parameters]

    def scenario_of(parameter: str) -> str:
        fitting = ((len(prefix), name) for prefix, name in prefixes if parameter.startswith(prefix))
        return max(fitting, default=(0, ""))[1]

    return scenario_of


def _against(plan: Plan, judgements: list[Judgement], asked: Asked, constants: Collection[str]) -> dict[str, Any]:
    """Of the file of answers that these are held against. Its machines without an answer are left out."""
    other, done = stream.read(Path(str(plan.against)))
    answers = [done[name] for name in other.machines if name in done]
    before = judge_all(answers, asked.prefixes, asked.left_out)
    return {
        "file": plan.against,
        "inference": other.inference,
        "nonce": other.nonce,
        "same_simulator": other.simulator == plan.simulator,
        **totals(before, constants),
        "difference": difference(before, judgements, constants),
        "failures": _failures(other, answers),
    }


def _failures(plan: Plan, answers: list[Answer]) -> list[dict[str, Any]]:
    shown = ("scenario", "reason", "crashed")
    return [
        {"machine": each.machine, "seed": plan.machines[each.machine], **{name: getattr(why, name) for name in shown}}
        for each in answers
        for why in each.failures
    ]


# -- sealed scores, fit to be published -------------------------------------------------------------------------------


def sealing(plan: Plan) -> dict[str, Any]:
    """What says that nobody chose the seeds: they follow from it."""
    return {"nonce": plan.nonce, "inference": plan.inference, "seeds": list(plan.machines.values())}


def read_document(path: Path) -> dict[str, Any]:
    """The score document in `path`, or that of the answers so far in a file of answers (`score --answers`), whichever
    inference gave them, with `planned`, how many machines the run was to have.

    Raises `UsageError` where it is neither, was made by an older version, or isn't sealed."""
    made = _document_in(path) or _of_answers(path)
    missing = [key for key in NEEDED if key not in made]
    if missing:
        raise UsageError(f"{str(path)!r} has no {missing[0]!r}: a score that is not sealed, or of an older setebench")
    sealed, planned = made["sealed"], made.setdefault("planned", len(made["machines"]))
    if not set(sealed["seeds"]) <= set(sealed_seeds(sealed["nonce"], sealed["inference"], planned)):
        raise UsageError(f"{str(path)!r} is not sealed: its seeds don't follow from its nonce and its inference")
    return made


def _document_in(path: Path) -> dict[str, Any] | None:
    """None where the file isn't a single JSON object, or none of a score."""
    try:
        made = msgspec.json.decode(files.read_bytes(path))
    except OSError as error:
        raise UsageError(f"can't read {str(path)!r}: {error.strerror or error}") from error
    except msgspec.DecodeError:
        return None
    return made if isinstance(made, dict) and "machines" in made else None


def _of_answers(path: Path) -> dict[str, Any]:
    plan, done = stream.read(path)
    answers = [done[name] for name in plan.machines if name in done]
    if not answers:
        raise UsageError(f"{str(path)!r} holds no answers yet")
    machines = {answer.machine: plan.machines[answer.machine] for answer in answers}
    answered = msgspec.structs.replace(plan, machines=machines, against=None)
    made = document(answered, answers, asked_of(answered)) | {"planned": len(plan.machines)}
    return made if plan.nonce is None else made | {"sealed": sealing(answered)}
