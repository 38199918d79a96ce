"""The summary of a machine, one row per parameter (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from setebench.report.opening.answers import MEMORY, OPEN, PAGES, Answers, kernel, rounded
from setebench.report.opening.prefetchers import absent, present, unsettled
from setebench.report.sections import UNDOCUMENTED, Reference

CONDITIONS = {
    "on_tlb_miss.l1": "level-1 TLB miss",
    "on_tlb_miss.l2": "level-2 TLB miss",
    "on_page_fault": "page fault",
    "across_page": "across page boundary",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the summary. `published` is what references say of the parameters behind it; `news` where the
    published values have none of them."""

    label: str
    value: str
    published: str = ""
    news: bool = False


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a heading."""

    heading: str
    rows: list[Row]


Line = tuple[str, str, Sequence[str]]
"""Label and value of a row, and the parameters behind it."""


def groups(answers: Answers, references: Sequence[Reference]) -> list[Group]:
    """The summary; what was not measured has no row."""
    makers: dict[str, Callable[[Answers], Iterator[Line]]] = {
        "Cache/memory hierarchy latency": _latencies,
        "Caches and TLBs": _sizes,
        "Bandwidth": _bandwidths,
        "Software prefetching": _software,
        "Hardware prefetching": _hardware,
    }
    made = []
    for heading, make in makers.items():
        rows = [_row(answers, references, line) for line in make(answers) if line[1]]
        made += [Group(heading=heading, rows=rows)] if rows else []
    return made


def _row(answers: Answers, references: Sequence[Reference], line: Line) -> Row:
    label, value, parameters = line
    found = [answers.findings[name] for name in parameters if name in answers.findings]
    published, undocumented = [], False
    for reference in references:
        remarks = dict.fromkeys(reference.remark(finding) for finding in found)
        texts = [text for text in remarks if text not in ("", UNDOCUMENTED)]
        published += [f"{reference.name} {', '.join(texts)}"] if texts else []
        undocumented |= UNDOCUMENTED in remarks
    return Row(label=label, value=value, published="; ".join(published), news=undocumented and not published)


def _one(answers: Answers, label: str, parameter: str) -> Line:
    return label, answers.timed(parameter, interval=True), [parameter]


def _listed(answers: Answers, label: str, parts: dict[str, str], form: str = "{text} {name}") -> Line:
    """The texts of several parameters in one row, each with a name; `open` where none has an answer."""
    texts = {name: answers.timed(name, interval=True) for name in parts if name in answers.findings}
    if set(texts.values()) == {OPEN}:
        return label, OPEN, []
    return label, "; ".join(form.format(text=text, name=parts[name]) for name, text in texts.items()), list(texts)


def _by_page(answers: Answers, label: str, parameter: str) -> Line:
    """`29 cycles on 4 KiB pages; 10 cycles on 2 MiB pages`."""
    return _listed(answers, label, {f"{parameter}.{size}": f"on {name} pages" for size, name in PAGES.items()})


def _latencies(answers: Answers) -> Iterator[Line]:
    for level in answers.levels:
        yield _one(answers, f"{level.upper()} cache hit", f"latency.{level}")
    yield _one(answers, "memory access", f"latency.{MEMORY}")
    for width in ("16", "32", "64"):
        places = {f"latency.{level}.vector{width}": f"in {level.upper()}" for level in answers.levels}
        yield _listed(answers, f"{width}-byte loads", places)
    yield "changed line of another core", answers.transfers(), []
    for level in ("l1", "l2"):
        yield _by_page(answers, f"level-{level[1:]} TLB miss", f"tlb.{level}.miss_penalty")
    yield _by_page(answers, "page fault in memory", "page_fault.minor")


def _sizes(answers: Answers) -> Iterator[Line]:
    for level in answers.levels:
        names = {what: f"cache.{level}.{what}" for what in ("size", "ways", "replacement")}
        texts = {what: answers.text(name) for what, name in names.items()}
        known = [text for text in texts.values() if text not in ("", OPEN)]
        missing = [name for name, text in texts.items() if text == OPEN]
        rest = f"; open: {', '.join(missing)}" if missing else ""
        yield f"{level.upper()} cache", ", ".join(known) + rest if known else OPEN if missing else "", [*names.values()]
        following = f"l{int(level[1:]) + 1}"
        yield _one(answers, f"{following.upper()} includes {level.upper()}", f"cache.{level}.inclusive_in_{following}")
    for level in ("l1", "l2"):
        yield _by_page(answers, f"{level.upper()} data TLB", f"tlb.{level}.entries")


def _bandwidths(answers: Answers) -> Iterator[Line]:
    for level in (*answers.levels, MEMORY):
        shown = {each.parameter: f"{rounded(each)} by {kernel(each)}" for each in answers.bandwidths(level) if each}
        label = "off-chip bandwidth" if level == MEMORY else f"{level.upper()} bandwidth"
        yield label, "; up to ".join(shown.values()), list(shown)
    yield _one(answers, "latency under the largest load", "loaded_latency.at_peak")


def _software(answers: Answers) -> Iterator[Line]:
    for label, wanted in (("prefetch works", True), ("prefetch is dropped", False)):
        names = [name for name in CONDITIONS if answers.value(f"software_prefetch.{name}") is wanted]
        yield label, ", ".join(CONDITIONS[name] for name in names), [f"software_prefetch.{name}" for name in names]
    fills = {f"software_prefetch.fills.{hint}": hint for hint in ("t0", "t1", "t2", "nta", "w")}
    yield _listed(answers, "where hints fill", fills, "{name}: {text}")
    for level in ("l1", "l2"):
        names = [f"mshr.{level}.{kind}" for kind in ("demand", "prefetch")]
        yield f"number of {level.upper()} MSHRs", answers.in_flight(level), names
    yield _one(answers, "where no MSHR is free, a prefetch", "software_prefetch.when_full")
    after = {f"software_prefetch.store_after.{what}": f"after {what} prefetch" for what in ("shared", "exclusive")}
    yield _listed(answers, "store to a line of others", after)


def _hardware(answers: Answers) -> Iterator[Line]:
    for each in present(answers):
        names = [f"prefetcher.{each.identity}.{what}" for what in ("trigger", "degree", "max_distance", "streams")]
        yield f"{each.level.upper()} {each.name}", each.words or "there", names
    missing = {level: absent(answers, level) for level in ("l1", "l2")}
    yield "not there", "; ".join(f"{level.upper()} {names}" for level, names in missing.items() if names), []
    yield "open whether there", unsettled(answers), []
