"""A value on its way to another tool: what it is in that tool's unit, how sure, and by which way it came about."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

Scalar = float | int | bool | str
Rounding = Callable[[float], float | int]


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
            parts.append(f"95 % in [{_end(self.low)}, {_end(self.high)}] {self.unit}".rstrip())
        parts += ["from " + ", ".join(self.parameters)] if self.parameters else []
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
    whys = (why, "rests on a lower bound" if known.origin is Origin.AT_LEAST else "", known.why)
    return replace(known, origin=Origin.ASSUMED, why="; ".join(filter(None, whys)))


def reworded(known: Known, word: Callable[[Scalar], Scalar]) -> Known:
    """`known` in the other tool's words, which have neither unit nor interval."""
    return known if isinstance(known, Open) else replace(known, value=word(known.value), unit="", low=None, high=None)


def exact(known: Known) -> Known:
    """`known` where it is more than a lower bound, for what would take a bound for the value."""
    if isinstance(known, Value) and known.origin is Origin.AT_LEAST:
        return Open(known.parameters[0], f"only a lower bound is known, {known.value} {known.unit}".rstrip())
    return known


def derived(
    rule: Callable[..., float], unit: str, inputs: Sequence[Known], how: str = "", rounding: Rounding = round
) -> Known:
    """`rule` of the inputs' values, rounded. The interval spans the rule at all corners of the inputs' intervals,
    which bounds it for rules that are monotone in every input. A bound is passed on by rules of one input, which all
    grow with it, and leaves those of several open: they may fall with it."""
    values: list[Value] = []
    for each in inputs if len(inputs) == 1 else map(exact, inputs):
        if isinstance(each, Open):
            return each
        values.append(each)
    names = tuple(dict.fromkeys(name for each in values for name in each.parameters))
    corners = ([end for end in (each.value, each.low, each.high) if end is not None] for each in values)
    try:
        rounded = rounding(rule(*(each.value for each in values)))
        ends = [rule(*corner) for corner in itertools.product(*corners)]
    except (ArithmeticError, ValueError):
        return Open(", ".join(names), f"no number of {unit} follows from these values")
    low, high = (min(ends), max(ends)) if len(ends) > 1 else (None, None)
    high = None if any(each.origin is Origin.AT_LEAST for each in values) else high  # a bound has no other end
    whys = [why for why in (how, *dict.fromkeys(each.why for each in values)) if why]
    origin = max((each.origin for each in values), key=tuple(Origin).index)
    return Value(rounded, unit, origin, "; ".join(whys), low, high, names)


def _end(end: float | None) -> str:
    return "-" if end is None else f"{end:.4g}" if abs(end) < 1e4 else f"{end:.0f}"
