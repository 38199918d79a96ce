"""The summary of a machine, one row per parameter (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.report.opening.answers import MEMORY, OPEN, PAGES, Answers, kernel, rounded
from setebench.report.opening.picture import missing, present
from setebench.results import Outcome

CONDITIONS = {
    "on_tlb_miss.l1": "level-1 TLB miss",
    "on_tlb_miss.l2": "level-2 TLB miss",
    "on_page_fault": "page fault",
    "across_page": "across page boundary",
}
HINTS = ("t0", "t1", "t2", "nta", "w")
TLBS = ("l1", "l2")

Row = tuple[str, str]
"""Label and value; without a value there is no row."""


def summary(answers: Answers) -> dict[str, list[Row]]:
    """The rows by heading; what was not measured has no row."""
    makers = {
        "Cache/memory hierarchy latency": _latencies,
        "Caches and TLBs": _sizes,
        "Bandwidth": _bandwidths,
        "Software prefetching": _software,
        "Hardware prefetching": _hardware,
    }
    found = {heading: [row for row in make(answers) if row[1]] for heading, make in makers.items()}
    return {heading: rows for heading, rows in found.items() if rows}


def _row(answers: Answers, label: str, parts: dict[str, str], form: str = "{text} {name}") -> Row:
    """The texts of several parameters in one row, each with a name; `open` where none has an answer."""
    texts = {name: answers.timed(name, interval=True) for name in parts if name in answers.findings}
    if set(texts.values()) == {OPEN}:
        return label, OPEN
    return label, "; ".join(form.format(text=text, name=parts[name]) for name, text in texts.items())


def _by_page(answers: Answers, label: str, parameter: str) -> Row:
    """`29 cycles on 4 KiB pages; 10 cycles on 2 MiB pages`."""
    return _row(answers, label, {f"{parameter}.{size}": f"on {name} pages" for size, name in PAGES.items()})


def _latencies(answers: Answers) -> Iterator[Row]:
    places = {level: f"{level.upper()} cache hit" for level in answers.levels} | {MEMORY: "memory access"}
    yield from (_row(answers, label, {f"latency.{place}": ""}, "{text}") for place, label in places.items())
    for width in ("16", "32", "64"):
        own = {f"latency.{level}.vector{width}": f"in {level.upper()}" for level in answers.levels}
        yield _row(answers, f"{width}-byte loads", own)
    yield "changed line of another core", answers.transfers()
    yield from (_by_page(answers, f"level-{level[1]} TLB miss", f"tlb.{level}.miss_penalty") for level in TLBS)
    yield _by_page(answers, "page fault in memory", "page_fault.minor")


def _sizes(answers: Answers) -> Iterator[Row]:
    for level in answers.levels:
        texts = {what: answers.text(f"cache.{level}.{what}") for what in ("size", "ways", "replacement")}
        known = [text for text in texts.values() if text not in ("", OPEN)]
        missing = ", ".join(name for name, text in texts.items() if text == OPEN)
        yield f"{level.upper()} cache", "; open: ".join(filter(None, (", ".join(known), missing))) if known else OPEN
        following = f"l{int(level[1:]) + 1}"
        includes = answers.text(f"cache.{level}.inclusive_in_{following}")
        yield f"{following.upper()} includes {level.upper()}", includes
    yield from (_by_page(answers, f"{level.upper()} data TLB", f"tlb.{level}.entries") for level in TLBS)


def _bandwidths(answers: Answers) -> Iterator[Row]:
    for level in (*answers.levels, MEMORY):
        shown = {each.parameter: f"{rounded(each)} by {kernel(each)}" for each in answers.bandwidths(level) if each}
        label = "off-chip bandwidth" if level == MEMORY else f"{level.upper()} bandwidth"
        yield label, "; up to ".join(shown.values())
    yield "latency under the largest load", answers.timed("loaded_latency.at_peak", interval=True)


def _software(answers: Answers) -> Iterator[Row]:
    for label, wanted in (("prefetch works", True), ("prefetch is dropped", False)):
        where = [words for name, words in CONDITIONS.items() if answers.value(f"software_prefetch.{name}") is wanted]
        yield label, ", ".join(where)
    yield _row(answers, "where hints fill", {f"software_prefetch.fills.{h}": h for h in HINTS}, "{name}: {text}")
    yield from ((f"number of {level.upper()} MSHRs", answers.in_flight(level)) for level in TLBS)
    yield "where no MSHR is free, a prefetch", answers.text("software_prefetch.when_full")
    after = {f"software_prefetch.store_after.{what}": f"after {what} prefetch" for what in ("shared", "exclusive")}
    yield _row(answers, "store to a line of others", after)


def _hardware(answers: Answers) -> Iterator[Row]:
    yield from ((f"{level} {name}", words or "there") for level, name, words in present(answers))
    yield "not there", missing(answers, Outcome.ABSENT)
    yield "open whether there", missing(answers, Outcome.UNRESOLVED, Outcome.UNAVAILABLE)
