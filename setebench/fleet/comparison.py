"""A fleet held against itself, or against what it was before: everything that the forms of output show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import UsageError
from setebench.fleet import reading
from setebench.fleet.columns import Columns, Kind
from setebench.fleet.examine import Tested, changes_of, tests_of
from setebench.fleet.groups import Group, groups
from setebench.fleet.nodes import folded, in_order
from setebench.stats.nodes import multiple

SCHEMA = 1

ALARM = 0.05
"""Probability of any false alarm in a whole comparison of equal nodes."""

FALSE_MARKS = 0.05
"""Fraction of marks that are false, on average."""

_KEPT = 0.05
"""p-values above can be neither an alarm nor a mark: they are counted and let go."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter over the fleet. Of numbers: the centre, the standard deviations of a run about its node (`within`)
    and of nodes about the centre (`between`), the 95 % prediction interval of one run of another healthy node
    (`low`, `high`) and the smallest change that this comparison finds with 95 % power. `repeated`: whether any node had
    several runs; without, `within` is what the intervals state and `between` also holds what runs don't state."""

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
    smallest_change: float | None = None


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


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that differ together, folded; and in which parameters, how, on how many of them."""

    nodes: str
    count: int
    differs: dict[str, str]


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """What a parameter left open, why, and on which nodes (folded); nodes that also answered it in another run are not
    among them."""

    parameter: str
    reason: str
    nodes: str
    count: int


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison. `tests` is how many pairs of node and parameter were judged; `distances` has a row a node and a
    column a parameter, in standard deviations of a normal distribution, NaN where nothing was judged."""

    nodes: list[str]
    runs: int
    tests: int
    parameters: list[Parameter]
    marks: list[Mark]
    groups: list[Together]
    open: list[Open]
    notes: list[str]
    distances: NDArray[np.float32]

    @property
    def alarms(self) -> list[Mark]:
        """The marks that count for an exit status."""
        return [mark for mark in self.marks if mark.alarm]


class _Small:
    """Small p-values of all tests, with what they are of."""

    def __init__(self) -> None:
        self.tests: list[Tested] = []
        self.count = 0
        self._p: list[NDArray[np.float64]] = []
        self._test: list[NDArray[np.int64]] = []
        self._place: list[NDArray[np.int64]] = []

    def take(self, test: Tested) -> None:
        places = np.flatnonzero(test.p <= _KEPT)
        self._p.append(test.p[places])
        self._place.append(places)
        self._test.append(np.full(len(places), len(self.tests)))
        self.tests.append(test)
        self.count += len(test.p)

    def adjusted(self) -> list[tuple[Tested, int, float, float]]:
        """Test, place of the node in it, q and familywise p of all that may be marked, the smallest p first."""
        if not self.tests:
            return []
        p, test, place = np.concatenate(self._p), np.concatenate(self._test), np.concatenate(self._place)
        q, family = multiple.false_discovery(p, self.count), multiple.familywise(p, self.count)
        order = [int(each) for each in np.argsort(p, kind="stable") if q[each] <= FALSE_MARKS or family[each] <= ALARM]
        return [(self.tests[test[each]], int(place[each]), float(q[each]), float(family[each])) for each in order]


def compare(paths: Iterable[str | Path], baseline: Iterable[str | Path] = (), heard: Heard | None = None) -> Fleet:
    """Compare results of many nodes (files, or folders of them) with each other; with a `baseline`, each node with what
    it said back then too. `heard` is given how many files are read, of how many.

    A file that can't be read costs a note. Raises `UsageError` where there is nothing to compare."""
    notes: list[str] = []
    with Columns() as now, Columns() as before:
        _fill(now, paths, notes, heard)
        earlier = list(baseline)
        if earlier:
            before.nodes = dict(now.nodes)  # the same numbers; those of nodes that are gone come behind
            _fill(before, earlier, notes, heard)
            notes += _came_and_went(now, before)
        return of_columns(now, before, notes)


def _came_and_went(now: Columns, before: Columns) -> list[str]:
    gone = list(before.nodes)[len(now.nodes) :]
    new = set(now.nodes) - before.seen
    notes = [f"in the baseline alone: {folded(in_order(gone))}"] if gone else []
    return [*notes, f"not in the baseline: {folded(in_order(new))}"] if new else notes


Heard = Callable[[int, int], None]


def _fill(columns: Columns, paths: Iterable[str | Path], notes: list[str], heard: Heard | None) -> None:
    files = reading.files(paths)
    settings: dict[str, dict[str, set[str]]] = {}
    broken: list[str] = []
    for number, read in enumerate(reading.results(files), 1):
        if isinstance(read, reading.Unreadable):
            broken.append(read.why)
        else:
            columns.add(read)
            _note_settings(settings, read)
        if heard is not None:
            heard(number, len(files))
    if not columns.runs:
        raise UsageError(f"none of {len(files)} files is a result: {broken[0]}")
    notes += broken
    notes += [line for name, values in settings.items() if (line := _mixed(name, values))]


def _note_settings(settings: dict[str, dict[str, set[str]]], read: reading.Result) -> None:
    """What should be the same in all results, lest nodes differ by how they were asked."""
    asked = read.settings
    for name, value in (
        ("version of setebench", read.version),
        ("scenario", asked.get("scenario")),
        ("setting of --fast", asked.get("fast")),
    ):
        settings.setdefault(name, {}).setdefault(str(value), set()).add(read.node)


def _mixed(name: str, values: dict[str, set[str]]) -> str | None:
    if len(values) < 2:
        return None
    parts = [f"{value} on {folded(in_order(nodes))}" for value, nodes in sorted(values.items())]
    return f"results differ in the {name}: {'; '.join(parts)}"


def of_columns(now: Columns, before: Columns | None = None, notes: Iterable[str] = ()) -> Fleet:
    """As `compare`, of what is read already; `before` has the same numbers for the same nodes."""
    names = list(now.nodes)
    small, parameters, left_open, columns = _Small(), [], [], []
    repeated = False
    known = set(before.parameters) if before is not None else set()
    for parameter in now.parameters:
        column = now.column(parameter)
        tests = tests_of(column, len(names))
        if before is not None and parameter in known:
            tests += changes_of(column, before.column(parameter), len(names))
        for test in tests:
            small.take(test)
            columns.append(_spread_out(test, len(names)))
        repeated = repeated or len(np.unique(column.rows["node"])) < len(column.rows)
        left_open += _open(parameter, column.rows, column.texts, names)
    parameters = [_parameter(test, small.count) for test in small.tests]
    found = small.adjusted()
    marks = [_mark(names, *each) for each in found]
    distances = np.stack(columns, axis=1) if columns else np.empty((len(names), 0), np.float32)
    order = [now.nodes[name] for name in in_order(names)]
    return Fleet(
        nodes=[names[each] for each in order],
        runs=now.runs,
        tests=small.count,
        parameters=parameters,
        marks=marks,
        groups=[_together(group, names) for group in groups(_marked(found))],
        open=left_open,
        notes=[*notes, *([] if repeated else [SINGLE_RUNS])],
        distances=distances[order],
    )


SINGLE_RUNS = (
    "one run of each node: whatever disturbed a run is indistinguishable from its node, and none can stand out by an "
    "answer that is no number; several runs of each node, at different times, distinguish them"
)
"""What a comparison without repeated runs can't say."""


def _spread_out(test: Tested, nodes: int) -> NDArray[np.float32]:
    row = np.full(nodes, np.nan, np.float32)
    row[test.nodes] = test.distance
    return row


def _parameter(test: Tested, tests: int) -> Parameter:
    spread = test.spread
    if spread is None:
        return Parameter(parameter=test.parameter, unit=test.unit, centre=test.usual, nodes=len(test.nodes))
    smallest = spread.smallest(ALARM / max(tests, 1))
    return Parameter(
        parameter=test.parameter,
        unit=test.unit,
        centre=test.centre,
        nodes=len(test.nodes),
        runs=spread.runs,
        within=spread.within,
        between=spread.between,
        repeated=spread.repeated,
        low=spread.low if np.isfinite(spread.low) else None,
        high=spread.high if np.isfinite(spread.high) else None,
        smallest_change=smallest if np.isfinite(smallest) else None,
    )


def _mark(names: list[str], test: Tested, place: int, q: float, family: float) -> Mark:
    value = float(test.values[place])
    number = test.texts is None
    return Mark(
        node=names[int(test.nodes[place])],
        parameter=test.parameter,
        value=value if number else test.text(value),
        usual=test.centre if number else test.usual,
        unit=test.unit,
        change=test.relative(value),
        p=float(test.p[place]),
        q=q,
        familywise=family,
    )


def _marked(found: list[tuple[Tested, int, float, float]]) -> dict[tuple[str, str], list[int]]:
    """For each parameter and what is said of it, the marked nodes: of numbers, whether they are above or below."""
    marked: dict[tuple[str, str], list[int]] = {}
    levels: dict[tuple[str, str], list[float]] = {}
    for test, place, _q, _family in found:
        value = float(test.values[place])
        side = ("above" if value > test.centre else "below") if test.texts is None else test.text(value)
        marked.setdefault((test.parameter, side), []).append(int(test.nodes[place]))
        levels.setdefault((test.parameter, side), []).append(value)
    tests = {test.parameter: test for test, *_ in found}
    return {(name, _said(tests[name], side, levels[name, side])): nodes for (name, side), nodes in marked.items()}


def _said(test: Tested, side: str, values: list[float]) -> str:
    if test.texts is not None:
        return f"{side} instead of {test.usual}" if not test.usual.startswith("unchanged") else side
    middle = float(np.median(values))
    change = test.relative(middle)
    by = f" ({change:+.1%})" if change is not None else ""
    return f"{test.text(middle)} {test.unit}{by} instead of {test.usual}".replace("  ", " ")


def _together(group: Group, names: list[str]) -> Together:
    differs = {}
    for parameter, (nodes, text) in group.differs.items():
        part = "" if len(nodes) == len(group.nodes) else f" on {folded(in_order(names[each] for each in nodes))}"
        differs[parameter] = text + part
    every = in_order(names[each] for each in group.nodes)
    return Together(nodes=folded(every), count=len(every), differs=differs)


def _open(parameter: str, rows: NDArray[np.void], texts: list[str], names: list[str]) -> list[Open]:
    """Reasons for which a parameter is open, on the nodes that none of its runs answers."""
    silent = rows[rows["kind"] == Kind.OPEN]
    answered = np.unique(rows["node"][rows["kind"] != Kind.OPEN])
    silent = silent[~np.isin(silent["node"], answered)]
    found = []
    for code in np.unique(silent["value"]).astype(int):
        nodes = np.unique(silent["node"][silent["value"] == code])
        named = folded(in_order(names[each] for each in nodes))
        found.append(Open(parameter=parameter, reason=texts[code], nodes=named, count=len(nodes)))
    return sorted(found, key=lambda each: -each.count)
