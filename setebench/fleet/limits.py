"""What one run of a healthy node may say, from a comparison of a fleet: prediction intervals and usual answers.

The interval of a mean would fail healthy nodes: what counts is where the next run of another node may lie. And many
parameters of many nodes are looked at, so the limits are as wide as keeps any false alarm rare.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from setebench import store
from setebench.fleet.comparison import Parameter
from setebench.fleet.examine import answer_text
from setebench.results import Document, Finding, Outcome
from setebench.stats.nodes import robust

FALSE_ALARM = 0.05  # probability that any parameter of any node of the fleet is outside, where all are healthy


class _Compared(msgspec.Struct, frozen=True):
    """Of the document of `fleet compare --format json`."""

    tests: int
    parameters: list[Parameter]


def read(path: str | Path, false_alarm: float = FALSE_ALARM) -> dict[str, Parameter]:
    """What is usual of all parameters, from the JSON of `setebench fleet compare`: of a number the interval that a run
    of any healthy node of that fleet leaves with this probability. Raises `UsageError` for anything else."""
    compared = store.load_as(path, _Compared)
    chance = false_alarm / max(compared.tests, 1)
    return {each.parameter: _widened(each, chance) for each in compared.parameters}


def _widened(parameter: Parameter, chance: float) -> Parameter:
    """The comparison's interval is that of one run in twenty; by the same distribution, that of `chance`."""
    centre, low, high = parameter.centre, parameter.low, parameter.high
    if isinstance(centre, str) or low is None or high is None:
        return parameter
    degrees = parameter.nodes // 2
    reach = (high - low) / 2 * robust.limit(chance, degrees) / robust.limit(0.05, degrees)
    return msgspec.structs.replace(parameter, low=centre - reach, high=centre + reach)


def _refused(usual: Parameter, finding: Finding) -> str | None:
    """How the finding differs from what a healthy node says; None where it doesn't, or leaves the question open."""
    if finding.value is None or finding.outcome is Outcome.AT_LEAST:
        return None
    number, low, high = finding.number if finding.outcome is Outcome.MEASURED else None, usual.low, usual.high
    if isinstance(usual.centre, str):
        answer = answer_text(finding) if number is None else f"{number:.9g}"
        return None if answer == usual.centre else f"{finding.parameter} is {answer} instead of {usual.centre}"
    if number is None or low is None or high is None or (finding.unit == usual.unit and low <= number <= high):
        return None
    between = f"between {low:.5g} and {high:.5g} {usual.unit}"
    return f"{finding.parameter} is {number:.5g} {finding.unit}, not {between}"


def outside(document: Document, usual: dict[str, Parameter]) -> list[str]:
    """A line for each finding that a healthy node doesn't give. What is open, or unknown of others, is not judged."""
    judged = [each for each in document.findings if each.parameter in usual]
    return [line for each in judged if (line := _refused(usual[each.parameter], each))]
