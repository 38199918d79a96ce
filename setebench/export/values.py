"""A value on its way to another tool: what it is in that tool's unit, how sure, and by which way it came about."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

Scalar = float | int | bool | str
Rounding = Callable[[float], float | int]

RESTS_ON_BOUND = "rests on a lower bound"
GROWN = (1.5, 2, 3, 4, 16, 256)  # times a lower bound, with which a rule is tried: far enough for any cache


class Origin(StrEnum):
    """How far a value can be trusted, the surest first."""

    MEASURED = "measured"
    AT_LEAST = "at least"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Value:
    """What another tool is given. `low` and `high` bound numbers at 95 %, in `unit`; `why` is the method of
    measuring, or the reason for assuming; `parameters` are the findings behind it."""

    value: Scalar
    unit: str
    origin: Origin
    why: str
    low: float | None = None
    high: float | None = None
    parameters: tuple[str, ...] = ()

    @property
    def comment(self) -> str:
        """Origin, interval, parameters and method, on one line."""
        parts = [str(self.origin)]
        if self.low is not None or self.high is not None:
            parts.append(f"95 % in [{_bound(self.low)}, {_bound(self.high)}] {self.unit}".rstrip())
        if self.parameters:
            parts.append("from " + ", ".join(self.parameters))
        return "; ".join([*parts, self.why] if self.why else parts)


@dataclass(frozen=True, slots=True)
class Open:
    """What a result does not settle, and why."""

    parameter: str
    reason: str


Known = Value | Open
Row = tuple[str, Known]
"""A name of the other tool's, and what it is given for it."""


def assumed(value: Scalar, unit: str, why: str) -> Value:
    """A value that nobody measured; `why` must say where it is from."""
    return Value(value, unit, Origin.ASSUMED, why)


def with_assumption(known: Known, why: str) -> Known:
    """`known` where it rests on an assumption as well: no surer than assumed, its interval kept."""
    if isinstance(known, Open):
        return known
    whys = [why, *([RESTS_ON_BOUND] if known.origin == Origin.AT_LEAST else []), *([known.why] if known.why else [])]
    return replace(known, origin=Origin.ASSUMED, why="; ".join(whys))


def reworded(known: Known, word: Callable[[Scalar], Scalar]) -> Known:
    """`known` in the other tool's words, which have neither unit nor interval."""
    if isinstance(known, Open):
        return known
    return replace(known, value=word(known.value), unit="", low=None, high=None)


def derived(
    rule: Callable[..., float], unit: str, inputs: tuple[Known, ...], how: str = "", rounding: Rounding = round
) -> Known:
    """`rule` of the inputs' values, rounded. The interval spans the rule at all corners of the inputs' intervals,
    which bounds it for rules that are monotone in every input. The result is no surer than its weakest input: a lower
    bound of an input with which the rule falls would bound it from above, so that leaves it open."""
    values: list[Value] = []
    for each in inputs:
        if isinstance(each, Open):
            return each
        values.append(each)
    ends: list[float] = []
    names = tuple(dict.fromkeys(name for each in values for name in each.parameters))
    try:
        rounded = rounding(rule(*(each.value for each in values)))
        if any(each.low is not None or each.high is not None for each in values):
            ends = [rule(*corner) for corner in itertools.product(*map(_ends, values))]
        falling = next((each for each in values if each.origin is Origin.AT_LEAST and _falls(rule, values, each)), None)
    except (ArithmeticError, ValueError):
        return Open(", ".join(names), f"no number of {unit} follows from these values")
    if falling is not None:
        return Open(", ".join(falling.parameters), f"only a lower bound, as which it would bound {unit} from above")
    whys = [why for why in (how, *dict.fromkeys(each.why for each in values)) if why]
    low, high = (min(ends), max(ends)) if ends else (None, None)
    return Value(rounded, unit, weakest(values), "; ".join(whys), low, high, names)


def _falls(rule: Callable[..., float], values: Sequence[Value], bound: Value) -> bool:
    """Whether larger values of an input than its lower bound make the result smaller."""
    raised = [[each.value if each is not bound else float(each.value) * by for each in values] for by in (1, *GROWN)]
    return any(after < before for before, after in itertools.pairwise(rule(*each) for each in raised))


def exact(known: Known) -> Known:
    """`known` where it is more than a lower bound, for tools that would take a bound for the value."""
    if isinstance(known, Value) and known.origin is Origin.AT_LEAST:
        return Open(known.parameters[0], f"only a lower bound is known, {known.value} {known.unit}".rstrip())
    return known


def weakest(values: Iterable[Value]) -> Origin:
    """The least sure origin of some values."""
    return max((each.origin for each in values), key=tuple(Origin).index)


def _ends(value: Value) -> tuple[Scalar, ...]:
    return (value.value, *(each for each in (value.low, value.high) if each is not None))


def _bound(bound: float | None) -> str:
    return "-" if bound is None else f"{bound:.4g}" if abs(bound) < 1e4 else f"{bound:.0f}"


@dataclass(slots=True)
class Sheet:
    """Values under the other tool's names for them, in the order in which they were put, and what had to be left out,
    with the reason."""

    values: dict[str, Value] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Sheet:
        """A sheet with these rows; of a name that comes twice, the first."""
        sheet = cls()
        for key, known in rows:
            sheet.put(key, known)
        return sheet

    def put(self, key: str, known: Known) -> None:
        """Enter a value under `key`, or why it is left out."""
        if isinstance(known, Open):
            self.left_out.setdefault(key, f"{known.parameter}: {known.reason}")
        else:
            self.values.setdefault(key, known)

    def get(self, key: str, otherwise: Scalar = "") -> Scalar:
        """What was entered."""
        return self.values[key].value if key in self.values else otherwise

    def lines(self, mark: str, template: str) -> Iterator[str]:
        """Each value (`{key}`, `{value}`) below its comment."""
        for key, each in self.values.items():
            yield f"{mark} {each.comment}"
            yield template.format(key=key, value=each.value)

    def missing(self, mark: str) -> Iterator[str]:
        """Lines that name what was left out, each behind the comment mark."""
        for key, reason in self.left_out.items():
            yield f"{mark} left out: {key} ({reason})"

    def parts(self) -> dict[str, Sheet]:
        """Sheets by the first words of the names."""
        found: dict[str, Sheet] = {}
        for key in (*self.values, *self.left_out):
            part, _, name = key.partition(" ")
            sheet = found.setdefault(part, Sheet())
            if key in self.values:
                sheet.values[name] = self.values[key]
            else:
                sheet.left_out[name] = self.left_out[key]
        return found

    def provenance(self, about: Iterable[str]) -> dict[str, object]:
        """For formats without comments: by key where the value comes from, and what was left out."""
        values = {
            key: {
                "value": each.value,
                "unit": each.unit,
                "origin": str(each.origin),
                "low": each.low,
                "high": each.high,
                "from": list(each.parameters),
                "why": each.why,
            }
            for key, each in self.values.items()
        }
        return {"about": [line.strip() for line in about], "values": values, "left_out": self.left_out}
