"""Numbers for people: as many digits as the interval supports, and no more."""

from __future__ import annotations

import json
import math
from typing import Any

from setebench import store
from setebench.results import Finding, Outcome
from setebench.text import in_bytes

_MOST_DECIMALS = 6


def decimals(low: float | None, high: float | None) -> int | None:
    """Decimal places that an interval supports: its half width with one digit, with two where that digit is 1 or 2.

    None where there is no interval, or one no wider than rounding: nothing is known of the precision then.
    """
    if low is None or high is None or not math.isfinite(high - low) or high <= low or math.isclose(low, high):
        return None
    half = max((high - low) / 2, 10.0 ** (-_MOST_DECIMALS - 1))  # also of the least numbers there are
    places = -math.floor(math.log10(half))
    leading = half * 10.0**places
    return min(max(0, places + int(leading < 2.95)), _MOST_DECIMALS)


def number(value: float, places: int | None) -> str:
    """`value` with `places` decimals; without, integers as they are and others with four significant digits."""
    if isinstance(value, int):
        return str(value)
    if places is not None:
        return f"{value:.{places}f}"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def value_text(finding: Finding) -> str:
    """The value with its unit, as a person reads it: `4.00 cycles`, `≥ 64 entries`, `32 KiB`, `load, store`, `no`."""
    if finding.value is None:
        return "—"
    text = _with_unit(store.plain(finding.value), finding.unit, decimals(finding.low, finding.high))
    return f"≥ {text}" if finding.outcome is Outcome.AT_LEAST else text


def interval_text(finding: Finding) -> str:
    """The 95 % interval in the unit of the value: `[3.97, 4.03]`, `[60, …]` where one side is open."""
    if finding.low is None and finding.high is None:
        return ""
    places = decimals(finding.low, finding.high)
    ends = ("…" if end is None else store.plain(end) for end in (finding.low, finding.high))
    form = in_bytes if finding.unit == "bytes" else lambda end: number(end, places)
    return f"[{', '.join(end if isinstance(end, str) else form(end) for end in ends)}]"


def nanoseconds(finding: Finding, cycles_per_ns: float) -> float | None:
    """The value in ns, None where the finding isn't a number of cycles."""
    value = finding.number if finding.unit == "cycles" else None
    return None if value is None else value / cycles_per_ns


def nanoseconds_text(finding: Finding, cycles_per_ns: float) -> str:
    """`nanoseconds` with the digits that the interval supports once it is in ns too."""
    value = nanoseconds(finding, cycles_per_ns)
    ends = (None if end is None else end / cycles_per_ns for end in (finding.low, finding.high))
    return "" if value is None else number(value, decimals(*ends))


def _with_unit(value: Any, unit: str, places: int | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return in_bytes(value) if unit == "bytes" else f"{number(value, places)} {unit}".rstrip()
    if isinstance(value, list):
        text = ", ".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in value)
        return f"{text} {unit}".rstrip() if text and unit not in ("list", "string", "bool") else text or "(none)"
    return str(value)
