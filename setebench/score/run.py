"""A whole score: every machine of a plan, and the document of it. Only here, after a scenario has answered, do findings
and truth meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from setebench import registry
from setebench.errors import UsageError
from setebench.judge import Judgement, accuracy, difference, judge, summary, totals
from setebench.score import stream
from setebench.score.seeds import drawn, sealed_seeds
from setebench.score.stream import Done, Plan
from setebench.score.tasks import Answer, Received, perform_all, perform_on

NEVER_JUDGED = frozenset({"stream"})
"""Scenarios of whose answers no simulated machine has a truth, so that a score learns nothing of them: kernels of the
STREAM table mix loads and stores, whose queues limit each other. They run where they are named alone."""


def carry_out(plan: Plan, done: Done, received: Received, workers: int, address: str | None) -> list[Answer]:
    """All answers, in the order of the plan's machines, by so many processes of this computer or by the Dask cluster at
    an address; those that are `done` are not run again. `received` is given each new one."""
    missing = [task for task in plan.tasks() if task.machine not in done]
    new = perform_on(address, missing, received) if address else perform_all(missing, workers, received)
    every = {**done, **{answer.machine: answer for answer in new}}
    return [every[name] for name in plan.machines]


# -- judging ----------------------------------------------------------------------------------------------------------


Scope = Callable[[str], bool]
"""Whether a parameter is judged."""


def scope_of(plan: Plan) -> Scope:
    """The parameters that the plan's scenarios report; if the user named none, all but those of other scenarios."""
    own = _prefixes(plan.scenarios)
    others = _prefixes(name for name in registry.catalogue() if name not in plan.scenarios)
    left_out = tuple(prefix for prefix in others if not prefix.startswith(own))
    return lambda name: name.startswith(own) if plan.by_name else not name.startswith(left_out)


def _prefixes(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(prefix for name in names for prefix in registry.scenario(name).parameters)


def judge_all(answers: list[Answer], scope: Scope) -> list[Judgement]:
    """Judge all answers, as far as the scope goes."""
    known = frozenset(finding.parameter for answer in answers for finding in answer.truths)
    every = (judge(each.machine, each.findings, each.truths, known, each.left_open) for each in answers)
    return [each for own in every for each in own if scope(each.parameter)]


# -- the document -----------------------------------------------------------------------------------------------------


def document(plan: Plan, answers: list[Answer]) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1."""
    scope = scope_of(plan)
    judgements = judge_all(answers, scope)
    made = summary(plan.seed, plan.machines, judgements)
    constants = {each["parameter"] for each in made["constant"]}
    settings = {name: getattr(plan, name) for name in ("noise", "fast", "from_findings")}
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
    if plan.against is not None:  # machines of the other file without an answer are left out
        other, done = stream.read(Path(plan.against))
        earlier = [done[name] for name in other.machines if name in done]
        before = judge_all(earlier, scope)
        made["against"] = {
            "file": plan.against,
            "inference": other.inference,
            "nonce": other.nonce,
            "same_simulator": other.simulator == plan.simulator,
            **totals(before, constants),
            "difference": difference(before, judgements, constants),
            "failures": _failures(other, earlier),
        }
    return made


def _scenario_of(plan: Plan) -> Callable[[str], str]:
    prefixes = [(prefix, name) for name in plan.scenarios for prefix in registry.scenario(name).parameters]

    def scenario_of(parameter: str) -> str:
        fitting = ((len(prefix), name) for prefix, name in prefixes if parameter.startswith(prefix))
        return max(fitting, default=(0, ""))[1]

    return scenario_of


def _failures(plan: Plan, answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        {"machine": each.machine, "seed": plan.machines[each.machine], **msgspec.structs.asdict(why)}
        for each in answers
        for why in each.failures
    ]


# -- sealed scores, fit to be published -------------------------------------------------------------------------------


def sealing(plan: Plan) -> dict[str, Any]:
    """What says that nobody chose the seeds: they follow from it."""
    seeds = sealed_seeds(plan.nonce or "", plan.inference, len(plan.machines))
    return {"nonce": plan.nonce, "inference": plan.inference, "seeds": seeds}


def read_sealed(path: Path) -> dict[str, Any]:
    """The score document of a file of answers (`score --answers`), whichever inference gave them. Raises `UsageError`
    where the run isn't sealed, or not all machines that were planned have answered."""
    plan, done = stream.read(path)
    if plan.nonce is None:
        raise UsageError(f"{str(path)!r} holds no answers of a sealed run")
    if plan.machines != drawn(sealed_seeds(plan.nonce, plan.inference, len(plan.machines))):
        raise UsageError(f"{str(path)!r} is not sealed: its seeds don't follow from its nonce and its inference")
    if done.keys() != plan.machines.keys():
        raise UsageError(f"{str(path)!r} has {len(done)} of {len(plan.machines)} machines; go on with score --resume")
    made = document(msgspec.structs.replace(plan, against=None), [done[name] for name in plan.machines])
    return made | {"sealed": sealing(plan)}
