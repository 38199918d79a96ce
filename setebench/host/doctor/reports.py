"""What those who measure report to the doctor, and what it says: a row for each check."""

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


GOOD, NOTE, BAD, UNKNOWN = Status


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
    """The clock as measured: the smallest difference between two readings, the bracket to use, what one cpuid costs,
    and core cycles per tick with their 95 % interval, None where they could not be calibrated."""

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
    "unavailable" (no such page to measure). `reason` says how that was measured, or why not."""

    granted: bool
    how: Literal["hugetlb", "madvise", "none"]
    tlb_behaviour: str
    reason: str = ""


class CounterReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a core's counters were free at once when all were opened. `reason` says why there were no more."""

    free: int
    reason: str = ""


def row(name: str, found: str | None, status: Status | bool, meaning: str, advice: str = "") -> Check:
    """A check; True is good, False is a note, and nothing found is unknown. `advice`: what to do where it isn't
    good."""
    chosen = UNKNOWN if found is None else status if isinstance(status, Status) else GOOD if status else NOTE
    said = "the system does not say" if found is None else found
    return Check(name=name, status=chosen, found=said, meaning=meaning, advice=advice if chosen in (NOTE, BAD) else "")


def either(fact: bool | None, yes: str, no: str) -> str | None:
    """One of two words for what is so or not; None where that isn't known."""
    return None if fact is None else yes if fact else no
