"""The picture of the machine: its boxes from the cores to memory, and what is in each."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.report.opening.answers import MEMORY, Answers, kernel, rounded
from setebench.report.opening.prefetchers import present


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the machine: `facts` are (what it is called, what it is), `prefetchers` are (kind, what it does)."""

    name: str
    facts: list[tuple[str, str]]
    prefetchers: list[tuple[str, str]] = []


def picture(answers: Answers) -> list[Box]:
    """What was found from the cores down to memory; what was not measured is left out."""
    waits = " or ".join(what for what in ("load", "store") if answers.value(f"blocking.{what}") == "blocking")
    cores = {
        "cores": _cores(answers.document.machine.facts),
        "clock": f"{answers.ratio:.2f} GHz" if answers.ratio else "",
        "waits": f"on a miss of a {waits}" if waits else "",
    }
    alone, most = answers.bandwidths(MEMORY)
    memory = {
        "latency": answers.timed(f"latency.{MEMORY}"),
        "one thread": rounded(alone),
        "bandwidth": f"{rounded(most)} by {kernel(most)}" if most else "",
    }
    parts = {"Cores": cores, **{level.upper(): _cache(answers, level) for level in answers.levels}, "Memory": memory}
    there = present(answers)
    return [
        Box(
            name=name,
            facts=[(label, text) for label, text in facts.items() if text],
            prefetchers=[each[1:] for each in there if each[0] == name],
        )
        for name, facts in parts.items()
    ]


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
