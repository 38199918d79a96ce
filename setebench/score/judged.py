"""Answers, judged: only here, after a scenario has answered, do findings and truth meet."""

from __future__ import annotations

import msgspec

from setebench.judge import Answered, Judgement, judge
from setebench.results import Finding
from setebench.score.workers.tasks import Answer

NEVER_JUDGED = frozenset({"stream"})
"""Scenarios of whose answers no simulated machine has a truth, so that a score learns nothing of them: kernels of the
STREAM table mix loads and stores, whose queues limit each other. They take a third to a half of all scenarios' time
there, and are asked where they are named alone."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Prefixes of the parameters that are judged (None: of all), and of those that nobody was asked for."""

    prefixes: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()

    def holds(self, parameter: str) -> bool:
        """Whether the parameter is judged."""
        wanted = self.prefixes is None or parameter.startswith(self.prefixes)
        return wanted and not parameter.startswith(self.left_out)


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


def answered(answers: list[Answer], asked: Asked) -> list[Answered]:
    """The answers with those parameters alone that are asked for."""

    def held(findings: list[Finding]) -> list[Finding]:
        return [finding for finding in findings if asked.holds(finding.parameter)]

    return [
        Answered(
            machine=answer.machine,
            findings=held(answer.findings),
            truths=held(answer.truths),
            left_open=answer.left_open,
        )
        for answer in answers
    ]
