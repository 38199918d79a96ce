"""What many results say, kept by parameter: rows are sorted into blocks, and of each block a parameter's part is read.

So memory hardly grows with the number of nodes: what doesn't fit a buffer lies in a temporary file without a name.
"""

from __future__ import annotations

import json
import tempfile
from enum import IntEnum
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError
from setebench.fleet.reading import Reported, Result
from setebench.results import Outcome

ROWS_OF_A_BLOCK = 1 << 16
"""Rows that are collected before they are sorted and put away: some 20 MiB of Python's objects."""

IN_MEMORY_BYTES = 64 << 20
"""Beyond, blocks lie in a temporary file."""

MOST_PARAMETERS = 100_000
"""Of all results together; more say that a file is not what it claims."""

LARGEST = 1e100
"""Numbers beyond are nobody's measurement, and their squares would overflow."""

_OF_WIDTH = 0.5 / 1.959963984540054
"""Standard error over width of a 95 % interval of a normal value."""

_LARGEST_ERROR = 1e30
"""What is larger says nothing, and its square would overflow the file's 32 bits."""


class Kind(IntEnum):
    """What a row says: a number, one of several answers, that something is absent, a lower bound, or nothing."""

    NUMBER = 0
    ANSWER = 1
    ABSENT = 2
    BOUND = 3
    OPEN = 4


_MEASURED, _NUMBER = str(Outcome.MEASURED), int(Kind.NUMBER)

ROW = np.dtype([("node", "<u4"), ("kind", "u1"), ("value", "<f8"), ("error", "<f4")])
"""`value` is the number, or the code of the answer or of the reason; `error` the standard error that is stated."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said of one parameter: rows as `ROW`; answers and reasons by their codes."""

    parameter: str
    unit: str
    rows: NDArray[Any]
    texts: list[str]

    def of(self, *kinds: Kind) -> NDArray[Any]:
        """The rows of these kinds."""
        found: NDArray[Any] = self.rows[np.isin(self.rows["kind"], kinds)]
        return found


class _Parameter:
    """What is known of one parameter while results come in."""

    __slots__ = ("codes", "last_run", "number", "unit")

    def __init__(self, number: int) -> None:
        self.number = number
        self.last_run = 0
        self.unit: str | None = None
        self.codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        return self.codes.setdefault(text, len(self.codes))


class Columns:
    """Takes results one by one, gives back columns. Close it, or use it in a `with`.

    `nodes` are the numbers of nodes, which may be given beforehand; `seen` those that have results here."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.seen: set[str] = set()
        self.runs = 0
        self._parameters: dict[str, _Parameter] = {}
        self._pending: list[tuple[int, int, int, float, float]] = []
        self._blocks: list[tuple[int, NDArray[np.int64]]] = []
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115
        self._end = 0

    def __enter__(self) -> Columns:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def parameters(self) -> list[str]:
        """In the order in which they came."""
        return list(self._parameters)

    def add(self, result: Result) -> None:
        """Take one run of a node; of a parameter that it mentions twice the first finding counts."""
        node = self.nodes.setdefault(result.node, len(self.nodes))
        self.seen.add(result.node)
        self.runs += 1
        take = self._pending.append
        for finding in result.findings:
            known = self._parameters.get(finding.parameter) or self._new(finding.parameter)
            if known is None or known.last_run == self.runs:
                continue
            known.last_run = self.runs
            take((known.number, node, *_row(finding, known)))
        if len(self._pending) >= ROWS_OF_A_BLOCK:
            self._put_away()

    def _new(self, parameter: str) -> _Parameter | None:
        if len(self._parameters) >= MOST_PARAMETERS:
            return None
        known = self._parameters[parameter] = _Parameter(len(self._parameters))
        return known

    def column(self, parameter: str) -> Column:
        """What all results so far say of that parameter. Raises KeyError."""
        known = self._parameters[parameter]
        self._put_away()
        parts = [self._part(known.number, start, edges) for start, edges in self._blocks]
        rows = np.concatenate(parts) if parts else np.empty(0, ROW)
        return Column(parameter=parameter, unit=known.unit or "", rows=rows, texts=list(known.codes))

    def _part(self, number: int, start: int, edges: NDArray[np.int64]) -> NDArray[Any]:
        if number + 1 >= len(edges):  # the parameter came up behind this block
            return np.empty(0, ROW)
        self._file.seek(start + int(edges[number]) * ROW.itemsize)
        return np.frombuffer(self._file.read(int(edges[number + 1] - edges[number]) * ROW.itemsize), ROW)

    def _put_away(self) -> None:
        if not self._pending:
            return
        number, *fields = (np.array(each) for each in zip(*self._pending, strict=True))
        self._pending.clear()
        order = np.argsort(number, kind="stable")
        rows = np.empty(len(order), ROW)
        for name, values in zip(ROW.names or (), fields, strict=True):
            rows[name] = values[order]
        edges = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(self._parameters)))])
        try:
            self._file.seek(self._end)
            self._file.write(rows.tobytes())
        except OSError as error:
            raise SetebenchError(f"no room in {tempfile.gettempdir()!r} for what was read: {error.strerror}") from error
        self._blocks.append((self._end, edges))
        self._end += rows.nbytes


def _row(finding: Reported, known: _Parameter) -> tuple[int, float, float]:
    """Kind, value and stated standard error of a finding. The first lines are for nine findings of ten."""
    value = finding.value
    if (
        type(value) is float
        and finding.outcome == _MEASURED
        and finding.unit == known.unit
        and -LARGEST < value < LARGEST
    ):
        return _NUMBER, value, _error(finding.low, finding.high)
    if value is None or finding.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
        return Kind.OPEN, known.code(f"{finding.outcome}: {finding.reason or 'no reason given'}"), 0.0
    if finding.outcome == Outcome.ABSENT:
        return Kind.ABSENT, known.code("absent"), 0.0
    if known.unit is None:
        known.unit = finding.unit
    elif finding.unit != known.unit:
        return Kind.OPEN, known.code(f"another unit: {finding.unit}"), 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Kind.ANSWER, known.code(answer_text(value)), 0.0
    if not -LARGEST < value < LARGEST:
        return Kind.OPEN, known.code("no measurement is so large"), 0.0
    if finding.outcome == Outcome.AT_LEAST:
        return Kind.BOUND, float(value), 0.0
    return Kind.NUMBER, float(value), _error(finding.low, finding.high)


def _error(low: float | None, high: float | None) -> float:
    if low is None or high is None:
        return 0.0
    error = abs(high - low) * _OF_WIDTH
    return error if error < _LARGEST_ERROR else 0.0


def answer_text(value: Any) -> str:
    """An answer as text. A list of names is a set; of numbers, the order says something."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = sorted(set(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
