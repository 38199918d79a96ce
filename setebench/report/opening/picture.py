"""The picture of the machine: its boxes from the cores to memory, what is in each and what lies between."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.report.opening.answers import MEMORY, OPEN, PAGES, Answers, kernel, rounded
from setebench.report.opening.prefetchers import Prefetcher, absent, present

LARGEST = 6
"""Widths of boxes: that of the cores is the least, that of memory the largest."""


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the machine. `facts` are (what it is called, what it is); `below` says what passes down from it."""

    name: str
    facts: list[tuple[str, str]]
    prefetchers: list[Prefetcher] = []
    absent: str = ""
    below: str = ""
    width: int = LARGEST


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The hierarchy from the cores down to memory, and translation beside it."""

    hierarchy: list[Box]
    translation: list[Box]


def picture(answers: Answers) -> Picture:
    """What was found, drawn as boxes; parts of which nothing was measured are left out."""
    waits = [what for what in ("load", "store") if answers.value(f"blocking.{what}") == "blocking"]
    cores = _facts(
        ("cores", _cores(answers.document.machine.facts)),
        ("clock", f"{answers.ratio:.2f} GHz" if answers.ratio else ""),
        ("waits", f"on a miss of a {' or '.join(waits)}" if waits else ""),
        ("changed line of another core", answers.transfers()),
    )
    alone, most = answers.bandwidths(MEMORY)
    memory = _facts(
        ("latency", answers.timed(f"latency.{MEMORY}")),
        ("one thread", rounded(alone)),
        ("bandwidth", f"{rounded(most)} by {kernel(most)}" if most else ""),
    )
    there = present(answers)
    caches = [_cache(answers, level, index, there) for index, level in enumerate(answers.levels, 1)]
    faults = _facts(*((f"{name} pages", answers.timed(f"page_fault.minor.{size}")) for size, name in PAGES.items()))
    tables = [Box(name=f"{level.upper()} TLB", facts=_translations(answers, f"tlb.{level}")) for level in ("l1", "l2")]
    return Picture(
        hierarchy=[Box(name="Cores", facts=cores, width=1), *caches, Box(name="Memory", facts=memory)],
        translation=[box for box in (*tables, Box(name="Page faults", facts=faults)) if box.facts],
    )


def _facts(*facts: tuple[str, str]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in facts if text]


def _cores(facts: dict[str, Any]) -> str:
    """How many cores with how many threads the program may use."""
    siblings = facts.get("siblings")
    groups = [group for group in siblings if isinstance(group, list)] if isinstance(siblings, list) else []
    threads = sorted({len(group) for group in groups})
    each = "one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads"
    return f"{len(groups)}, {each}{' each' if len(groups) > 1 else ''}" if groups else ""


def _cache(answers: Answers, level: str, index: int, there: list[Prefetcher]) -> Box:
    before, waiting = f"l{int(level[1:]) - 1}", answers.in_flight(level)
    holds = answers.value(f"cache.{before}.inclusive_in_{level}") is True
    return Box(
        name=level.upper(),
        facts=_facts(
            ("size", answers.text(f"cache.{level}.size")),
            ("ways", answers.bare(f"cache.{level}.ways")),
            ("latency", answers.timed(f"latency.{level}")),
            ("bandwidth", rounded(answers.bandwidths(level)[0])),
            ("keeps", f"all of {before.upper()}" if holds else ""),
        ),
        prefetchers=[each for each in there if each.level == level],
        absent=absent(answers, level),
        below=f"misses in flight: {waiting}" if waiting else "",
        width=1 + index,
    )


def _translations(answers: Answers, tlb: str) -> list[tuple[str, str]]:
    facts = []
    for size, name in PAGES.items():
        entries, penalty = (answers.text(f"{tlb}.{what}.{size}") for what in ("entries", "miss_penalty"))
        cost = f", a miss costs {penalty}" if penalty not in ("", OPEN) else ", cost of a miss open" if penalty else ""
        facts.append((f"{name} pages", f"{entries}{cost}" if entries else ""))
    return _facts(*facts)
