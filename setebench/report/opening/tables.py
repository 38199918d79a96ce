"""The summary of a machine, one row per parameter (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from setebench.report.opening.answers import MEMORY, OPEN, Answers, rounded
from setebench.report.opening.picture import PAGES, in_flight, kernel, transfers
from setebench.report.opening.prefetchers import absent, present, unsettled
from setebench.report.sections import UNDOCUMENTED, Reference

HINTS = ("t0", "t1", "t2", "nta", "w")
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


def groups(answers: Answers, references: Sequence[Reference]) -> list[Group]:
    """The summary; what was not asked has no row."""
    makers: tuple[tuple[str, Callable[[_Rows], Iterator[Row]]], ...] = (
        ("Cache/memory hierarchy latency", _latencies),
        ("Caches and TLBs", _sizes),
        ("Bandwidth", _bandwidths),
        ("Software prefetching", _software),
        ("Hardware prefetching", _hardware),
    )
    rows = _Rows(answers, references)
    made = [Group(heading=heading, rows=[row for row in make(rows) if row.value]) for heading, make in makers]
    return [group for group in made if group.rows]


class _Rows:
    """Makes rows of parameters, with what references say of them."""

    def __init__(self, answers: Answers, references: Sequence[Reference]) -> None:
        self.answers, self._references = answers, references

    def row(self, label: str, value: str, *parameters: str) -> Row:
        found = [self.answers.findings[name] for name in parameters if name in self.answers.findings]
        remarks = {each.name: dict.fromkeys(each.remark(finding) for finding in found) for each in self._references}
        said = {name: [text for text in texts if text not in ("", UNDOCUMENTED)] for name, texts in remarks.items()}
        published = "; ".join(f"{name} {', '.join(texts)}" for name, texts in said.items() if texts)
        news = not published and any(UNDOCUMENTED in texts for texts in remarks.values())
        return Row(label=label, value=value, published=published, news=news)

    def of(self, label: str, parameter: str) -> Row:
        return self.row(label, self.answers.exact(parameter), parameter)

    def listed(self, label: str, parts: dict[str, str], form: str = "{text} {name}") -> Row:
        """The texts of several parameters in one row, each with a name; `open` where none has an answer."""
        texts = {name: self.answers.exact(name) for name in parts if name in self.answers.findings}
        if set(texts.values()) == {OPEN}:
            return self.row(label, OPEN)
        value = "; ".join(form.format(text=text, name=parts[name]) for name, text in texts.items())
        return self.row(label, value, *texts)

    def by_page(self, label: str, parameter: str) -> Row:
        """`29 cycles on 4 KiB pages; 10 cycles on 2 MiB pages`."""
        return self.listed(label, {f"{parameter}.{size}": f"on {name} pages" for size, name in PAGES})


def _latencies(rows: _Rows) -> Iterator[Row]:
    answers = rows.answers
    for level in answers.levels:
        yield rows.of(f"{level.upper()} cache hit", f"latency.{level}")
    yield rows.of("memory access", f"latency.{MEMORY}")
    for width in ("16", "32", "64"):
        places = {f"latency.{level}.vector{width}": f"in {level.upper()}" for level in answers.levels}
        yield rows.listed(f"{width}-byte loads", places)
    yield rows.row("changed line of another core", transfers(answers))
    for level in ("l1", "l2"):
        yield rows.by_page(f"level-{level[1:]} TLB miss", f"tlb.{level}.miss_penalty")
    yield rows.by_page("page fault in memory", "page_fault.minor")


def _sizes(rows: _Rows) -> Iterator[Row]:
    answers = rows.answers
    for level in answers.levels:
        names = {what: f"cache.{level}.{what}" for what in ("size", "ways", "replacement")}
        texts = {what: answers.text(name) for what, name in names.items()}
        yield rows.row(f"{level.upper()} cache", _with_open(texts), *names.values())
        following = f"l{int(level[1:]) + 1}"
        yield rows.of(f"{following.upper()} includes {level.upper()}", f"cache.{level}.inclusive_in_{following}")
    for level in ("l1", "l2"):
        yield rows.by_page(f"{level.upper()} data TLB", f"tlb.{level}.entries")


def _with_open(texts: dict[str, str]) -> str:
    """What is known, and what is open by its name; `open` alone where nothing is known."""
    known = [text for text in texts.values() if text not in ("", OPEN)]
    missing = [name for name, text in texts.items() if text == OPEN]
    if not known:
        return OPEN if missing else ""
    return ", ".join(known) + (f"; open: {', '.join(missing)}" if missing else "")


def _bandwidths(rows: _Rows) -> Iterator[Row]:
    for level in (*rows.answers.levels, MEMORY):
        shown = {each.parameter: each for each in rows.answers.bandwidths(level) if each is not None}
        texts = [f"{rounded(each)} by {kernel(name)}" for name, each in shown.items()]
        label = "off-chip bandwidth" if level == MEMORY else f"{level.upper()} bandwidth"
        yield rows.row(label, "; up to ".join(texts), *shown)
    yield rows.of("latency under the largest load", "loaded_latency.at_peak")


def _software(rows: _Rows) -> Iterator[Row]:
    answers = rows.answers
    for label, wanted in (("prefetch works", True), ("prefetch is dropped", False)):
        names = [name for name in CONDITIONS if answers.value(f"software_prefetch.{name}") is wanted]
        where = ", ".join(CONDITIONS[name] for name in names)
        yield rows.row(label, where, *(f"software_prefetch.{name}" for name in names))
    fills = {f"software_prefetch.fills.{hint}": hint for hint in HINTS}
    yield rows.listed("where hints fill", fills, "{name}: {text}")
    for level in ("l1", "l2"):
        names = [f"mshr.{level}.{kind}" for kind in ("demand", "prefetch")]
        yield rows.row(f"number of {level.upper()} MSHRs", in_flight(answers, level), *names)
    yield rows.of("where no MSHR is free, a prefetch", "software_prefetch.when_full")
    after = {f"software_prefetch.store_after.{what}": f"after {what} prefetch" for what in ("shared", "exclusive")}
    yield rows.listed("store to a line of others", after)


def _hardware(rows: _Rows) -> Iterator[Row]:
    for each in present(rows.answers):
        names = [f"prefetcher.{each.identity}.{what}" for what in ("trigger", "degree", "max_distance", "streams")]
        yield rows.row(f"{each.level.upper()} {each.name}", each.words or "there", *names)
    missing = {level: ", ".join(absent(rows.answers, level)) for level in ("l1", "l2")}
    yield rows.row("not there", "; ".join(f"{level.upper()} {names}" for level, names in missing.items() if names))
    yield rows.row("open whether there", ", ".join(unsettled(rows.answers)))
