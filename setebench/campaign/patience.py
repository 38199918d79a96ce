"""What is still open is asked again while there is patience, what costs least first.

A co-runner comes and goes within seconds to minutes: what one asking left open, another one at another time may answer.
Nothing says beforehand which question that helps, so each is asked until askings stop helping. An answer once given
stays: of two answers the more welcome one would be a choice, not a measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setebench.campaign.documents import Again, merged
from setebench.compare import Agreement, agreement
from setebench.results import Finding, Outcome

if TYPE_CHECKING:
    from setebench.campaign.run import State


@dataclass(frozen=True, kw_only=True)
class Params:
    """When to ask again, and when to stop."""

    seconds: float = 60.0  # of the machine's own clock, for all askings but the first: a run then ends in five minutes
    fruitless: int = 2  # askings in a row that may help nothing: one may fall into the same episode of a co-runner


PARAMS = Params()


def default_patience(fast: bool) -> float:
    """Seconds of patience where nobody says how many; --fast is for those who have none."""
    return 0.0 if fast else PARAMS.seconds


def patience_left(state: State) -> float:
    """Seconds."""
    return state.plan.patience - sum(each.seconds for each in state.again if each.session == state.session)


def next_question(state: State) -> str | None:
    """The scenario to ask next: of those with something open that there is patience for, the one that was asked again
    least often, and of these the cheapest. None where there is none."""
    open_parameters = {each.parameter for each in merged(state.findings.values()) if each.outcome is Outcome.UNRESOLVED}
    costs: dict[str, tuple[int, float]] = {}
    left = patience_left(state)
    for name, step in state.steps.items():
        again = [each for each in state.again if each.scenario == name and each.session == state.session]
        own = {each.parameter for each in state.findings.get(name, []) if each.outcome is Outcome.UNRESOLVED}
        cost = step.elapsed_seconds / step.asked
        affordable = cost <= left and left > 0
        if step.state == "done" and own & open_parameters and affordable and not _hopeless(again):
            costs[name] = (len(again), cost)
    return min(costs, key=lambda name: costs[name], default=None)


def _hopeless(again: list[Again]) -> bool:
    latest = again[-PARAMS.fruitless :]
    failed = any(each.reason for each in again)
    return failed or (len(latest) == PARAMS.fruitless and not any(each.answered for each in latest))


# -- what an asking adds ----------------------------------------------------------------------------------------------

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
    """True for more of a value. A bound stays as it is: the largest of several is one that noise has raised."""
    return INFORMATION[finding.outcome] > (0 if known is None else INFORMATION[known.outcome])
