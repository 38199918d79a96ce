"""The picture of the machine: its boxes from the cores to memory, what is in each and what lies between."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.report.numbers import number
from setebench.report.opening.answers import MEMORY, OPEN, Answers, rounded
from setebench.report.opening.prefetchers import Prefetcher, absent, present

PAGES = (("4k", "4 KiB"), ("2m", "2 MiB"))
"""Sizes of pages, as findings and as people call them."""

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
    """What was found, drawn as boxes; parts of which nothing was asked are left out."""
    there = present(answers)
    caches = [_cache(answers, level, index, there) for index, level in enumerate(answers.levels, 1)]
    faults = [(f"{name} pages", answers.timed(f"page_fault.minor.{size}")) for size, name in PAGES]
    beside = [
        *(Box(name=f"{level.upper()} TLB", facts=_translations(answers, f"tlb.{level}")) for level in ("l1", "l2")),
        Box(name="Page faults", facts=_facts(*faults)),
    ]
    return Picture(
        hierarchy=[_cores(answers), *caches, _memory(answers)], translation=[box for box in beside if box.facts]
    )


def _facts(*facts: tuple[str, str]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in facts if text]


def _cores(answers: Answers) -> Box:
    waits = [what for what in ("load", "store") if answers.value(f"blocking.{what}") == "blocking"]
    facts = _facts(
        ("cores", cores_text(answers.document.machine.facts)),
        ("clock", f"{answers.ratio:.2f} GHz" if answers.ratio else ""),
        ("waits", f"on a miss of a {' or '.join(waits)}" if waits else ""),
        ("changed line of another core", transfers(answers)),
    )
    return Box(name="Cores", facts=facts, width=1)


def cores_text(facts: dict[str, Any]) -> str:
    """How many cores with how many threads the program may use."""
    siblings = facts.get("siblings")
    groups = [group for group in siblings if isinstance(group, list)] if isinstance(siblings, list) else []
    threads = sorted({len(group) for group in groups})
    each = "one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads"
    return f"{len(groups)}, {each}{' each' if len(groups) > 1 else ''}" if groups else ""


def transfers(answers: Answers) -> str:
    """Reads of other cores' changed lines: their range."""
    names = [name for name in answers.findings if name.startswith("latency.core_to_core.")]
    known = [answers.value(name) for name in names if name.endswith(".modified")]
    values = [float(value) for value in known if isinstance(value, (int, float))]
    if not values:
        return OPEN if names else ""
    low, high = number(min(values), 0), number(max(values), 0)
    return f"{low} cycles" if low == high else f"{low} to {high} cycles"


def _cache(answers: Answers, level: str, index: int, there: list[Prefetcher]) -> Box:
    cache = f"cache.{level}"
    ways = answers.bare(f"{cache}.ways")
    bandwidth, _ = answers.bandwidths(level)
    before = f"l{int(level[1:]) - 1}"
    holds = answers.value(f"cache.{before}.inclusive_in_{level}") is True
    waiting = in_flight(answers, level)
    return Box(
        name=level.upper(),
        facts=_facts(
            ("size", answers.text(f"{cache}.size")),
            ("ways", ways),
            ("latency", answers.timed(f"latency.{level}")),
            ("bandwidth", rounded(bandwidth) if bandwidth else ""),
            ("keeps", f"all of {before.upper()}" if holds else ""),
        ),
        prefetchers=[each for each in there if each.level == level],
        absent=", ".join(absent(answers, level)),
        below=f"misses in flight: {waiting}" if waiting else "",
        width=1 + index,
    )


def in_flight(answers: Answers, level: str) -> str:
    """Misses of a level in flight: how many by whom, and whether threads of a core share them."""
    loads, prefetches = (answers.bare(f"mshr.{level}.{kind}") for kind in ("demand", "prefetch"))
    if not loads and not prefetches:
        return ""
    either = loads == prefetches or not loads or not prefetches
    text = (loads or prefetches) if either else f"{loads} by loads, {prefetches} by prefetches"
    shared = answers.value(f"mshr.{level}.shared_by_smt")
    return text + (", shared by a core's threads" if shared is True else "")


def _memory(answers: Answers) -> Box:
    alone, most = answers.bandwidths(MEMORY)
    facts = _facts(
        ("latency", answers.timed(f"latency.{MEMORY}")),
        ("one thread", rounded(alone) if alone else ""),
        ("bandwidth", f"{rounded(most)} by {kernel(most.parameter)}" if most else ""),
    )
    return Box(name="Memory", facts=facts)


def kernel(parameter: str) -> str:
    """`load of 64 bytes, 2 threads`."""
    _, _, name, width, threads, *_ = [*parameter.split("."), "", "", ""]
    count = threads.removeprefix("threads_")
    return f"{name} of {width} bytes, {'1 thread' if count == '1' else f'{count} threads'}"


def _translations(answers: Answers, tlb: str) -> list[tuple[str, str]]:
    facts = []
    for size, name in PAGES:
        entries, penalty = (answers.text(f"{tlb}.{what}.{size}") for what in ("entries", "miss_penalty"))
        cost = f", a miss costs {penalty}" if penalty not in ("", OPEN) else ", cost of a miss open" if penalty else ""
        facts.append((f"{name} pages", f"{entries}{cost}" if entries else ""))
    return _facts(*facts)
