"""Findings of a question that was asked more than once.

An answer once given stays, for of two answers the more welcome one would be a choice and not a measurement. What was
open is taken from the asking that answers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from setebench.compare import Agreement, agreement
from setebench.results import Finding, Outcome

INFORMATION = {outcome: 0 for outcome in Outcome} | {Outcome.AT_LEAST: 1, Outcome.ABSENT: 2, Outcome.MEASURED: 2}
"""Which outcome says more than which."""


@dataclass(frozen=True, kw_only=True)
class Combined:
    """Findings of all askings so far, the parameters that the latest has `answered`, and those of which it says
    something that excludes what was known (`contradicted`)."""

    findings: list[Finding]
    answered: list[str]
    contradicted: list[str]


def combined(known: Iterable[Finding], again: Iterable[Finding]) -> Combined:
    """What is known, with what another asking says more.

    Where the two contradict each other in what something is, and not in a number with an interval, they may speak of
    different things: then nothing is taken over that belongs to it (the parameters with the same beginning)."""
    before, later = ({finding.parameter: finding for finding in findings} for findings in (known, again))
    contradicted = [name for name, each in later.items() if agreement(before.get(name), each) is Agreement.DIFFERS]
    doubtful = {_subject(name) for name in contradicted if before[name].low is None or before[name].high is None}
    answers = {
        name: finding
        for name, finding in later.items()
        if name not in contradicted and _subject(name) not in doubtful and _says_more(finding, before.get(name))
    }
    return Combined(findings=list((before | answers).values()), answered=list(answers), contradicted=contradicted)


def _subject(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _says_more(finding: Finding, known: Finding | None) -> bool:
    """Whether it has more of a value. A bound stays as it is: the largest of several is one that noise has raised."""
    return INFORMATION[finding.outcome] > (0 if known is None else INFORMATION[known.outcome])
