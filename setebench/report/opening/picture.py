"""The picture of the machine: its boxes from the cores to memory, what is in each and what lies between."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.report.numbers import number
from setebench.report.opening.answers import MEMORY, Answers, rounded
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
    boxes = [_cores(answers)]
    boxes += [_cache(answers, level, index, there) for index, level in enumerate(answers.levels, 1)]
    boxes.append(_memory(answers))
    tlbs = [box for level in ("l1", "l2") if (box := _tlb(answers, level)).facts]
    walks = _walks(answers)
    return Picture(hierarchy=boxes, translation=[*tlbs, *([walks] if walks.facts else [])])


def _facts(*facts: tuple[str, str]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in facts if text]


def cores_text(facts: dict[str, Any]) -> str:
    """How many cores with how many threads the program may use."""
    siblings = facts.get("siblings")
    groups = [group for group in siblings if isinstance(group, list)] if isinstance(siblings, list) else []
    if not groups:
        return ""
    threads = sorted({len(group) for group in groups})
    each = "one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads"
    return f"{len(groups)}, {each} each" if len(groups) > 1 else f"1, {each}"


def _cores(answers: Answers) -> Box:
    clock = f"{answers.ratio:.2f} GHz" if answers.ratio else ""
    waits = [what for what in ("load", "store") if answers.value(f"blocking.{what}") == "blocking"]
    stalls = f"on a miss of a {' or '.join(waits)}" if waits else ""
    return Box(
        name="Cores",
        facts=_facts(
            ("cores", cores_text(answers.document.machine.facts)),
            ("clock", clock),
            ("waits", stalls),
            ("changed line of another core", transfers(answers)),
        ),
        width=1,
    )


def transfers(answers: Answers) -> str:
    """Reads of other cores' changed lines: their range."""
    matrix = [answers.get(name) for name in answers.findings if name.startswith("latency.core_to_core.")]
    changed = [each.value for each in matrix if each is not None and each.parameter.endswith(".modified")]
    values = [float(each) for each in changed if isinstance(each, (int, float))]
    if not values:
        return "open" if any(name.startswith("latency.core_to_core.") for name in answers.findings) else ""
    low, high = number(min(values), 0), number(max(values), 0)
    return f"{low} cycles" if low == high else f"{low} to {high} cycles"


def _cache(answers: Answers, level: str, index: int, there: list[Prefetcher]) -> Box:
    cache, latency = f"cache.{level}", f"latency.{level}"
    waiting = in_flight(answers, level)
    return Box(
        name=level.upper(),
        facts=_facts(
            ("size", answers.text(f"{cache}.size")),
            ("ways", _ways(answers, cache)),
            ("latency", _latency(answers, latency)),
            ("bandwidth", _bandwidth(answers, level)),
            ("keeps", _inclusion(answers, level)),
        ),
        prefetchers=[each for each in there if each.level == level],
        absent=", ".join(absent(answers, level)),
        below=f"misses in flight: {waiting}" if waiting else "",
        width=1 + index,
    )


def _ways(answers: Answers, cache: str) -> str:
    ways = answers.bare(f"{cache}.ways")
    return f"{ways}-way" if ways not in ("", "open") else ways


def _latency(answers: Answers, parameter: str) -> str:
    return ", ".join(filter(None, (answers.text(parameter), answers.nanoseconds(parameter))))


def _bandwidth(answers: Answers, level: str) -> str:
    found = answers.bandwidth(level)
    return "" if found is None else "open" if found.value is None else rounded(found)


def _inclusion(answers: Answers, level: str) -> str:
    """What a cache does to the one before it."""
    before = f"l{int(level[1:]) - 1}"
    held = answers.value(f"cache.{before}.inclusive_in_{level}")
    return "" if held is None else f"all of {before.upper()}" if held else ""


def in_flight(answers: Answers, level: str) -> str:
    """Misses of a level in flight: how many by whom, and whether threads of a core share them."""
    loads, prefetches = (answers.bare(f"mshr.{level}.{kind}") for kind in ("demand", "prefetch"))
    if not loads and not prefetches:
        return ""
    either = loads == prefetches or not loads or not prefetches
    text = (loads or prefetches) if either else f"{loads} by loads, {prefetches} by prefetches"
    shared = {True: ", shared by a core's threads", False: ", each thread has its own"}
    return text + shared.get(answers.value(f"mshr.{level}.shared_by_smt"), "")


def _memory(answers: Answers) -> Box:
    most = answers.largest(MEMORY)
    by = most.parameter.split(".") if most is not None else []
    threads = by[4].removeprefix("threads_") if len(by) > 4 else ""
    with_threads = "" if threads in ("", "1") else f" by {threads} threads"
    alone = answers.bandwidth(MEMORY)
    peak = f"{rounded(most)}{with_threads} ({by[2]})" if most is not None else "open" if alone is not None else ""
    return Box(
        name="Memory",
        facts=_facts(
            ("latency", _latency(answers, f"latency.{MEMORY}")),
            ("in an open row", answers.text(f"latency.{MEMORY}.row_hit")),
            ("one thread", rounded(alone) if alone is not None and alone.value is not None else ""),
            ("bandwidth", peak),
        ),
    )


def _tlb(answers: Answers, level: str) -> Box:
    start = f"tlb.{level}"
    facts = []
    for size, name in PAGES:
        entries, penalty = (answers.text(f"{start}.{what}.{size}") for what in ("entries", "miss_penalty"))
        missing = (
            f", a miss costs {penalty}" if penalty not in ("", "open") else ", cost of a miss open" if penalty else ""
        )
        facts += _facts((f"{name} pages", f"{entries}{missing}" if entries else ""))
    stores = answers.text(f"{start}.store_entries.4k")
    facts += _facts(("of stores", "" if stores == "none" else stores))
    return Box(name=f"{level.upper()} TLB", facts=facts)


def _walks(answers: Answers) -> Box:
    faults = [(f"fault of {name}", _latency(answers, f"page_fault.minor.{size}")) for size, name in PAGES]
    pieces = answers.text("tlb.walk_cache.entries")
    return Box(name="Page walks", facts=_facts(("walk cache", pieces), *faults))
