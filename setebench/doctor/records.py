"""What the doctor's checks take and give."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec


class Status(StrEnum):
    """good: disturbs nothing. note: the tool copes, or can do a little less; know it. bad: results will be wider or
    wrong unless something is done. unknown: it could not be found out, the check says why."""

    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    UNKNOWN = "unknown"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `advice` says what to do; it is empty where nothing is to be done."""

    name: str
    status: Status
    found: str
    meaning: str
    advice: str = ""


class BracketReport(msgspec.Struct, frozen=True, kw_only=True):
    """One way to read the clock: mean and standard deviation, in ticks, of an interval with nothing in it."""

    name: str
    overhead_ticks: float
    jitter_ticks: float


class ClockReport(msgspec.Struct, frozen=True, kw_only=True):
    """The clock as measured.

    `step_ticks` is the smallest difference between two readings, `chosen` the name of the bracket to use.
    `cycles_per_tick` lies between `_low` and `_high` at 95 %; None where it could not be calibrated.
    `cpuid_ticks` is what one cpuid costs.
    """

    step_ticks: float
    ticks_per_second: float
    brackets: tuple[BracketReport, ...]
    chosen: str
    cpuid_traps: bool
    cpuid_ticks: float
    cycles_per_tick: float | None = None
    cycles_per_tick_low: float | None = None
    cycles_per_tick_high: float | None = None


class PageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a 2 MiB page was granted, by which way, and whether the TLB treats it as one page.

    `tlb_behaviour`: "real" (one entry), "splintered" (an entry per 4 KiB), "unresolved" (measured, but not clear) or
    "unavailable" (no such page to measure). `reason` says how that was seen, or why not.
    """

    granted: bool
    how: Literal["hugetlb", "madvise", "none"]
    tlb_behaviour: Literal["real", "splintered", "unresolved", "unavailable"]
    reason: str = ""


class CounterReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a core's counters were free at once when all were asked for; None where that was not to be found out.
    `reason` says why there were no more, or why it is not known."""

    free: int | None = None
    reason: str = "nothing was measured"


GOOD, NOTE, BAD, UNKNOWN = Status
Case = tuple[object, Status, str] | tuple[object, Status, str, str]
"""Where the first holds: status, meaning, and what to do."""


def row(name: str, found: str | None, unknown: tuple[str, ...], *cases: Case) -> Check:
    """The check by the first of the cases that holds. Where nothing was found it is unknown: why, what that means, and
    what to do."""
    if found is None:
        why, meaning, *advice = unknown
        return Check(name=name, status=UNKNOWN, found=why, meaning=meaning, advice="".join(advice))
    for holds, status, meaning, *advice in cases:
        if holds:
            return Check(name=name, status=status, found=found, meaning=meaning, advice="".join(advice))
    raise AssertionError(f"no case of {name!r} holds")


def size_text(size_bytes: int) -> str:
    """A size in the largest binary unit that leaves it above one: "2 MiB", "23.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
