"""What one run of a healthy node may say, from a comparison of a fleet: prediction intervals and usual answers.

The interval of a mean would fail healthy nodes: what counts is where the next run of another node may lie. And many
parameters of many nodes are looked at, so the limits are as wide as keeps any false alarm rare.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from setebench import store
from setebench.fleet.columns import answer_text
from setebench.fleet.comparison import Parameter
from setebench.fleet.examine import PRESENCE
from setebench.results import Document, Finding, Outcome
from setebench.stats.nodes import robust

FALSE_ALARM = 0.05  # probability that any parameter of any node of the fleet is outside, where all are healthy


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is usual of one parameter: a number between `low` and `high` about the `centre`, or the answer `centre`."""

    unit: str
    centre: float | str
    low: float = -math.inf
    high: float = math.inf

    def refuses(self, finding: Finding) -> str | None:
        """How the finding differs from what a healthy node says; None where it doesn't, or leaves the question open."""
        if finding.value is None or finding.outcome is Outcome.AT_LEAST:
            return None
        number = number_of(finding)
        if not isinstance(self.centre, str):
            if number is None or (finding.unit == self.unit and self.low <= number <= self.high):
                return None
            between = f"between {self.low:.5g} and {self.high:.5g} {self.unit}"
            return f"{finding.parameter} is {number:.5g} {finding.unit}, not {between}"
        answer = answer_text(finding.value) if number is None else f"{number:.9g}"
        if finding.outcome is Outcome.ABSENT:
            answer = "absent"
        return None if answer == self.centre else f"{finding.parameter} is {answer} instead of {self.centre}"


class _Compared(msgspec.Struct, frozen=True):
    """Of the document of `fleet compare --format json`."""

    tests: int
    parameters: list[Parameter]


def read(path: str | Path, false_alarm: float = FALSE_ALARM) -> dict[str, Limits]:
    """Limits of all parameters, from the JSON of `setebench fleet compare`. Raises `UsageError` for anything else."""
    compared = store.load_as(path, _Compared)
    chance = false_alarm / max(compared.tests, 1)
    kept = [each for each in compared.parameters if not each.parameter.endswith(PRESENCE)]
    return {each.parameter: _limits(each, chance) for each in kept}


def _limits(parameter: Parameter, chance: float) -> Limits:
    """The comparison's interval is that of one run in twenty; by the same distribution, that of `chance`."""
    centre, low, high = parameter.centre, parameter.low, parameter.high
    if isinstance(centre, str) or low is None or high is None:
        return Limits(unit=parameter.unit, centre=centre)
    degrees = parameter.nodes // 2
    reach = (high - low) / 2 * robust.limit(chance, degrees) / robust.limit(0.05, degrees)
    return Limits(unit=parameter.unit, centre=centre, low=centre - reach, high=centre + reach)


def number_of(finding: Finding) -> float | None:
    """The number that a finding measured, else None."""
    value = finding.value
    if finding.outcome is not Outcome.MEASURED or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def outside(document: Document, limits: dict[str, Limits]) -> list[str]:
    """A line for each finding that a healthy node doesn't give. What is open, or has no limits, is not judged."""
    judged = [each for each in document.findings if each.parameter in limits]
    return [line for each in judged if (line := limits[each.parameter].refuses(each))]
