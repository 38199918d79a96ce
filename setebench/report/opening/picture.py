"""The picture of the machine: its boxes from the cores to memory, and what is in each."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.report.opening.answers import MEMORY, OPEN, PAGES, Answers, kernel, rounded
from setebench.report.opening.prefetchers import present


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the machine: `facts` are (what it is called, what it is), `prefetchers` are (kind, what it does)."""

    name: str
    facts: list[tuple[str, str]]
    prefetchers: list[tuple[str, str]] = []


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The hierarchy from the cores down to memory, and translation beside it."""

    hierarchy: list[Box]
    translation: list[Box]


def picture(answers: Answers) -> Picture:
    """What was found, drawn as boxes; parts of which nothing was measured are left out."""
    waits = " or ".join(what for what in ("load", "store") if answers.value(f"blocking.{what}") == "blocking")
    cores = {
        "cores": _cores(answers.document.machine.facts),
        "clock": f"{answers.ratio:.2f} GHz" if answers.ratio else "",
        "waits": f"on a miss of a {waits}" if waits else "",
        "changed line of another core": answers.transfers(),
    }
    alone, most = answers.bandwidths(MEMORY)
    memory = {
        "latency": answers.timed(f"latency.{MEMORY}"),
        "one thread": rounded(alone),
        "bandwidth": f"{rounded(most)} by {kernel(most)}" if most else "",
    }
    every = {"Cores": cores, **{level.upper(): _cache(answers, level) for level in answers.levels}, "Memory": memory}
    beside = {f"{level.upper()} TLB": _translations(answers, f"tlb.{level}") for level in ("l1", "l2")}
    beside["Page faults"] = {f"{name} pages": answers.timed(f"page_fault.minor.{size}") for size, name in PAGES.items()}
    there = present(answers)
    boxes = [
        [
            Box(
                name=name,
                facts=[(label, text) for label, text in facts.items() if text],
                prefetchers=[each[1:] for each in there if each[0] == name],
            )
            for name, facts in part.items()
        ]
        for part in (every, beside)
    ]
    return Picture(hierarchy=boxes[0], translation=[box for box in boxes[1] if box.facts])


def _cores(facts: dict[str, Any]) -> str:
    """How many cores with how many threads the program may use."""
    siblings = facts.get("siblings")
    groups = [group for group in siblings if isinstance(group, list)] if isinstance(siblings, list) else []
    threads = sorted({len(group) for group in groups})
    each = "one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads"
    return f"{len(groups)}, {each}{' each' if len(groups) > 1 else ''}" if groups else ""


def _cache(answers: Answers, level: str) -> dict[str, str]:
    before = f"l{int(level[1:]) - 1}"
    holds = answers.value(f"cache.{before}.inclusive_in_{level}") is True
    return {
        "size": answers.text(f"cache.{level}.size"),
        "ways": answers.text(f"cache.{level}.ways").removesuffix(" ways"),
        "latency": answers.timed(f"latency.{level}"),
        "bandwidth": rounded(answers.bandwidths(level)[0]),
        "keeps": f"all of {before.upper()}" if holds else "",
        "misses in flight": answers.in_flight(level),
    }


def _translations(answers: Answers, tlb: str) -> dict[str, str]:
    facts = {}
    for size, name in PAGES.items():
        entries, penalty = (answers.text(f"{tlb}.{what}.{size}") for what in ("entries", "miss_penalty"))
        cost = f", a miss costs {penalty}" if penalty not in ("", OPEN) else ", cost of a miss open" if penalty else ""
        facts[f"{name} pages"] = f"{entries}{cost}" if entries else ""
    return facts
