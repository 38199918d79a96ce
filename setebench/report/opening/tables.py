"""The summary of a machine, one row per parameter (Fang et al. 2014, Tables V and VI)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from setebench.report.numbers import number
from setebench.report.opening.answers import MEMORY, Answers, rounded
from setebench.report.opening.picture import PAGES, in_flight, transfers
from setebench.report.opening.prefetchers import absent, present, unsettled
from setebench.report.sections import UNDOCUMENTED, Reference
from setebench.results import Finding

WIDTHS = ("16", "32", "64")
HINTS = ("t0", "t1", "t2", "nta", "w")
CONDITIONS = (
    ("on_tlb_miss.l1", "level-1 TLB miss"),
    ("on_tlb_miss.l2", "level-2 TLB miss"),
    ("on_page_fault", "page fault"),
    ("across_page", "across page boundary"),
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the summary. `published` is what references say of the parameters behind it; `news` where the
    published values have none of them."""

    label: str
    value: str
    published: str = ""
    news: bool = False

    @property
    def open(self) -> bool:
        """Whether there is no answer."""
        return self.value == "open"


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
        remarks = [(each.name, [each.remark(finding) for finding in found]) for each in self._references]
        said = [(name, ", ".join(dict.fromkeys(filter(None, texts)))) for name, texts in _known(remarks)]
        published = "; ".join(f"{name} {text}" for name, text in said if text)
        return Row(label=label, value=value, published=published, news=not published and _news(remarks))

    def of(self, label: str, parameter: str) -> Row:
        return self.row(label, self.answers.exact(parameter), parameter)

    def by_page(self, label: str, parameter: str) -> Row:
        """`29 cycles on 4 KiB pages, 10 cycles on 2 MiB pages`."""
        names = [(f"{parameter}.{size}", name) for size, name in PAGES]
        parts = [(self.answers.exact(each), name) for each, name in names if each in self.answers.findings]
        texts = dict.fromkeys(text for text, _ in parts)
        if list(texts) == ["open"]:
            return self.row(label, "open")
        places = [(text, [name for other, name in parts if other == text]) for text in texts]
        text = "; ".join(f"{text} on {' and '.join(names)} pages" for text, names in places)
        return self.row(label, text, *(each for each, _ in names))


_Remarks = list[tuple[str, list[str]]]


def _known(remarks: _Remarks) -> Iterator[tuple[str, list[str]]]:
    for name, texts in remarks:
        yield name, [text for text in texts if text != UNDOCUMENTED]


def _news(remarks: _Remarks) -> bool:
    return any(UNDOCUMENTED in texts for _, texts in remarks)


def _latencies(rows: _Rows) -> Iterator[Row]:
    answers = rows.answers
    for level in answers.levels:
        yield rows.of(f"{level.upper()} cache hit", f"latency.{level}")
    yield rows.of("memory access", f"latency.{MEMORY}")
    yield rows.of("memory access in an open row", f"latency.{MEMORY}.row_hit")
    yield rows.row("vector loads", _vectors(answers))
    yield rows.row("changed line of another core", transfers(answers))
    for level in ("l1", "l2"):
        yield rows.by_page(f"level-{level[1:]} TLB miss", f"tlb.{level}.miss_penalty")
    yield rows.by_page("page fault in memory", "page_fault.minor")


def _vectors(answers: Answers) -> str:
    """What vector loads take longer than 8-byte loads: one clause where every width can take as long as they do."""
    said = {width: _wider(answers, width) for width in WIDTHS}
    levels = dict.fromkeys(level for _, missing in said.values() for level in missing)
    extras = {width: extra for width, (extra, _) in said.items() if extra is not None}
    if not extras:
        return "open" if levels else ""
    if all(extra.low <= 0 <= extra.high for extra in extras.values()):
        low, high = min(each.low for each in extras.values()), max(each.high for each in extras.values())
        text = _more(_Extra(low, 0.0, high))
    else:
        text = "; ".join(f"{_more(extra)} with {width} bytes" for width, extra in extras.items())
    return f"{text}; open: {', '.join(levels)}" if levels else text


def _wider(answers: Answers, width: str) -> tuple[_Extra | None, list[str]]:
    """A width's difference to 8-byte loads, the one that all levels can have if there is one; and
    levels of which it is open."""
    asked = [level for level in (*answers.levels, MEMORY) if f"latency.{level}.vector{width}" in answers.findings]
    extras = {level: extra for level in asked if (extra := _extra(answers, level, width)) is not None}
    if not extras:
        return None, asked
    low, high = max(each.low for each in extras.values()), min(each.high for each in extras.values())
    if low > high:  # the levels differ: the interval spans them
        low, high = min(each.low for each in extras.values()), max(each.high for each in extras.values())
    return _Extra(low, (low + high) / 2, high), [each for each in asked if each not in extras]


class _Extra(NamedTuple):
    """Cycles that a load takes longer than another, with the ends that both intervals leave."""

    low: float
    value: float
    high: float


def _extra(answers: Answers, level: str, width: str) -> _Extra | None:
    wide, base = (_ends(answers.get(name)) for name in (f"latency.{level}.vector{width}", f"latency.{level}"))
    if wide is None or base is None:
        return None
    return _Extra(wide.low - base.high, wide.value - base.value, wide.high - base.low)


def _ends(finding: Finding | None) -> _Extra | None:
    if finding is None or not isinstance(finding.value, (int, float)):
        return None
    low, high = (finding.value if end is None else end for end in (finding.low, finding.high))
    return _Extra(low, finding.value, high)


def _more(extra: _Extra) -> str:
    interval = f", within [{number(extra.low, 1)}, {number(extra.high, 1)}] cycles" if extra.low < extra.high else ""
    if extra.low <= 0 <= extra.high:
        return f"as 8-byte loads{interval}"
    return f"{number(extra.value, 1)} cycles more{interval}"


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
    yield rows.of("page-walk caches", "tlb.walk_cache.entries")


def _with_open(texts: dict[str, str]) -> str:
    """What is known, and what is open by its name; `open` alone where nothing is known."""
    known = [text for text in texts.values() if text not in ("", "open")]
    missing = [name for name, text in texts.items() if text == "open"]
    if not known:
        return "open" if missing else ""
    return ", ".join(known) + (f"; open: {', '.join(missing)}" if missing else "")


def _bandwidths(rows: _Rows) -> Iterator[Row]:
    answers = rows.answers
    for level in (*answers.levels, MEMORY):
        alone, most = answers.bandwidth(level), answers.largest(level)
        label = "off-chip bandwidth" if level == MEMORY else f"{level.upper()} bandwidth"
        if alone is None and most is None:
            continue
        shown = {each.parameter: each for each in (alone, most) if each is not None and each.value is not None}
        texts = [f"{rounded(each)} by {_kernel(name)}" for name, each in shown.items()]
        yield rows.row(label, "; up to ".join(texts) or "open", *shown)
    yield rows.of("latency under the largest load", "loaded_latency.at_peak")


def _kernel(parameter: str) -> str:
    """`load of 64 bytes, 2 threads`."""
    _, _, kernel, width, threads, *_ = [*parameter.split("."), "", "", ""]
    number = threads.removeprefix("threads_")
    return f"{kernel} of {width} bytes, {'1 thread' if number == '1' else f'{number} threads'}"


def _software(rows: _Rows) -> Iterator[Row]:
    answers = rows.answers
    said = {name: answers.value(f"software_prefetch.{name}") for name, _ in CONDITIONS}
    for label, wanted in (("prefetch works", True), ("prefetch is dropped", False)):
        places = [(name, where) for name, where in CONDITIONS if said[name] is wanted]
        names = [f"software_prefetch.{name}" for name, _ in places]
        yield rows.row(label, ", ".join(where for _, where in places), *names)
    fills = [(hint, answers.text(f"software_prefetch.fills.{hint}")) for hint in HINTS]
    levels = dict.fromkeys(level for _, level in fills if level)
    lands = [f"{', '.join(hint for hint, where in fills if where == level)}: {level}" for level in levels]
    yield rows.row("where hints fill", "; ".join(lands), *(f"software_prefetch.fills.{hint}" for hint in HINTS))
    for level in ("l1", "l2"):
        names = [f"mshr.{level}.{kind}" for kind in ("demand", "prefetch")]
        yield rows.row(f"number of {level.upper()} MSHRs", in_flight(answers, level), *names)
    yield rows.of("where no MSHR is free, a prefetch", "software_prefetch.when_full")
    after = [(what, answers.exact(f"software_prefetch.store_after.{what}")) for what in ("shared", "exclusive")]
    known = [f"{text} after {what} prefetch" for what, text in after if text not in ("", "open")]
    unanswered = "open" if any(text for _, text in after) else ""
    yield rows.row("store to a line of others", "; ".join(known) or unanswered)


def _hardware(rows: _Rows) -> Iterator[Row]:
    for each in present(rows.answers):
        names = [f"prefetcher.{each.identity}.{what}" for what in ("trigger", "degree", "max_distance", "streams")]
        yield rows.row(f"{each.level.upper()} {each.name}", each.words or "there", *names)
    missing = [
        f"{level.upper()} {', '.join(names)}" for level in ("l1", "l2") if (names := absent(rows.answers, level))
    ]
    yield rows.row("not there", "; ".join(missing))
    yield rows.row("open whether there", ", ".join(unsettled(rows.answers)))
