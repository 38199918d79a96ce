"""A fleet held against itself: everything that the forms of output show; and what one run of a healthy node may say,
from a comparison: prediction intervals and usual answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy import stats

from setebench import store
from setebench.errors import UsageError
from setebench.fleet import reading
from setebench.fleet.examine import Column, Tested, answer_text, test_of
from setebench.fleet.reading import folded, in_order
from setebench.results import Document, Finding, Outcome
from setebench.stats.nodes import limit

ALARM = 0.05
"""Probability of any false alarm in a whole comparison of equal nodes."""

FALSE_MARKS, OUTSIDE = 0.05, 0.05
"""Fraction of marks that are false, on average, and of runs of healthy nodes outside of `low` to `high`."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter over the fleet. Of numbers: the centre, the standard deviations of a run about its node (`within`)
    and of nodes about the centre (`between`), the 95 % prediction interval of one run of another healthy node
    (`low`, `high`). `repeated`: whether any node had several runs; without, `within` is what the intervals state and
    `between` also holds what runs don't state."""

    parameter: str
    unit: str
    centre: float | str
    nodes: int
    runs: int | None = None
    within: float | None = None
    between: float | None = None
    repeated: bool = False
    low: float | None = None
    high: float | None = None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A node that stands out in a parameter: its value against the usual one, the fraction of change of a number, the
    probability of one so odd among equal nodes, and that adjusted for false discoveries (`q`) and for any false alarm
    (`familywise`). `alarm`: the latter is at most `ALARM`."""

    node: str
    parameter: str
    value: float | str
    usual: float | str
    unit: str
    change: float | None
    p: float
    q: float
    familywise: float

    @property
    def alarm(self) -> bool:
        """Whether it counts for an exit status."""
        return self.familywise <= ALARM


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """What a parameter left open, why, and on which nodes (folded); nodes that also answered it in another run are not
    among them."""

    parameter: str
    reason: str
    nodes: str
    count: int


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison. `tests` is how many pairs of node and parameter were judged."""

    nodes: list[str]
    runs: int
    tests: int
    parameters: list[Parameter]
    marks: list[Mark]
    open: list[Open]
    notes: list[str]

    @property
    def alarms(self) -> list[Mark]:
        """The marks that count for an exit status."""
        return [mark for mark in self.marks if mark.alarm]


def compare(paths: Iterable[str | Path], progress: Callable[[str], None] = lambda _line: None) -> Fleet:
    """Compare results of many nodes (files, or folders of them) with each other. `progress` is called with what is done
    next.

    A file that can't be read costs a note. Raises `UsageError` where there is nothing to compare."""
    files, notes = reading.files(paths), list[str]()
    nodes: dict[str, int] = {}
    columns: dict[str, Column] = {}
    made: dict[str, list[str]] = {}
    for number, (path, name) in enumerate(files.items(), 1):
        try:
            result = store.load_as(path, reading.Result)
        except UsageError as error:
            notes.append(str(error))
            continue
        how = f"{result.tool.get('version', '')}{' --fast' if result.settings.get('fast') else ''}"
        made.setdefault(how, []).append(result.node(name))
        node = nodes.setdefault(result.node(name), len(nodes))
        first: dict[str, Finding] = {}
        for finding in result.findings:
            first.setdefault(finding.parameter, finding)
        for finding in first.values():
            columns.setdefault(finding.parameter, Column(finding.parameter)).add(node, finding)
        progress(f"{number:,} of {len(files):,} files read")
    if not made:
        raise UsageError(f"none of {len(files)} files is a result: {notes[0]}")
    if len(made) > 1:
        parts = [f"{how} on {folded(in_order(own))}" for how, own in sorted(made.items())]
        notes.append(f"results differ in how they were made: {'; '.join(parts)}")
    differing = [name.partition(".")[0] for name, column in columns.items() if len(column.method_versions - {0}) > 1]
    if differing:
        named = ", ".join(f"{name}.*" for name in dict.fromkeys(differing))
        notes.append(f"measured by different versions of the method, by which alone nodes may differ: {named}")
    names, answered = list(nodes), [column.answered for column in columns.values()]
    if all(len(set(own)) == len(own) for own in answered):
        notes.append("one run of each node: what disturbed a run looks like its node; several runs distinguish them")
    tests = [test for column in columns.values() if (test := test_of(column, len(names)))]
    return Fleet(
        nodes=in_order(names),
        runs=sum(map(len, made.values())),
        tests=sum(len(test.p) for test in tests),
        parameters=[_parameter(test) for test in tests],
        marks=_marks(tests, names),
        open=[each for column in columns.values() for each in _open(column, names)],
        notes=notes,
    )


def _parameter(test: Tested) -> Parameter:
    found, runs = test.spread, test.runs
    numeric: dict[str, Any] = {}
    if found is not None and runs is not None:
        one_run = float(np.sqrt(found.between + max(found.within, float(np.median(runs.stated)))))
        reach = limit(OUTSIDE, found.means.degrees) * one_run
        ends = {"low": test.centre - reach, "high": test.centre + reach} if np.isfinite(reach) else {}
        spreads = {"within": found.within**0.5, "between": found.between**0.5, "repeated": found.repeated}
        numeric = {"runs": int(runs.runs.sum()), **spreads, **ends}
    return Parameter(
        parameter=test.parameter, unit=test.unit, centre=test.shown(test.centre), nodes=len(test.nodes), **numeric
    )


def _marks(tests: list[Tested], names: list[str]) -> list[Mark]:
    """All that stands out, the smallest p first; false discoveries after Benjamini and Hochberg (1995), any false alarm
    after Bonferroni."""
    if not tests:
        return []
    p = np.concatenate([test.p for test in tests])
    q, family = stats.false_discovery_control(p), np.minimum(p * len(p), 1.0)
    judged = [(test, row) for test in tests for row in range(len(test.p))]
    marks = []
    for place in np.argsort(p, kind="stable"):
        if q[place] > FALSE_MARKS and family[place] > ALARM:
            break
        test, row = judged[place]
        value = float(test.values[row])
        mark = Mark(
            node=names[int(test.nodes[row])],
            parameter=test.parameter,
            value=test.shown(value),
            usual=test.shown(test.centre),
            unit=test.unit,
            change=test.relative(value),
            p=float(p[place]),
            q=float(q[place]),
            familywise=float(family[place]),
        )
        marks.append(mark)
    return marks


def _open(column: Column, names: list[str]) -> Iterator[Open]:
    """Reasons for which a parameter is open, on the nodes that none of its runs answers."""
    answered, silent = set(column.answered), dict[str, set[str]]()
    for node, reason in column.open:
        if node not in answered:
            silent.setdefault(reason, set()).add(names[node])
    for reason, nodes in silent.items():
        yield Open(parameter=column.parameter, reason=reason, nodes=folded(in_order(nodes)), count=len(nodes))


# -- limits for single nodes ------------------------------------------------------------------------------------------
#
# The interval of a mean would fail healthy nodes: what counts is where the next run of another node may lie. And many
# parameters of many nodes are looked at, so the limits are as wide as keeps any false alarm rare.


class _Compared(msgspec.Struct, frozen=True):
    """Of the document of `fleet compare --format json`."""

    tests: int
    parameters: list[Parameter]


def read(path: str | Path, false_alarm: float = ALARM) -> dict[str, Parameter]:
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
    reach = (high - low) / 2 * limit(chance, degrees) / limit(OUTSIDE, degrees)
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
