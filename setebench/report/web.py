"""Documents as one HTML file that opens without a network: no script, no font, no picture from elsewhere.

Everything from a document is untrusted text: the templates escape it all, control characters are shown, and
a content security policy in the page forbids whatever might get through.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from setebench import store
from setebench.errors import SetebenchError
from setebench.report.opening import opening
from setebench.report.plots import plot
from setebench.report.sections import Reference, Section, condensed, sections
from setebench.report.text import csv_table
from setebench.report.view import View, cycles_per_ns, shortcomings, title, verified
from setebench.results import Document, Finding
from setebench.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

LARGEST_DOWNLOAD = 4 << 20
"""Bytes of a document up to which the report carries it along; browsers refuse very long data: addresses."""


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: its name, what it shows in words, its drawing, and its points. `problem` stands in for a drawing."""

    name: str
    alt: str = ""
    svg: str = ""
    points: str = ""
    evidence: str = ""
    problem: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A document in a report: what it is called there, its plots, and what it is held against."""

    name: str
    document: Document
    plots: Sequence[Plot] = ()
    references: Sequence[Reference] = ()


# -- pages ------------------------------------------------------------------------------------------------------------


def page(entries: Sequence[Entry]) -> str:
    """The report on some documents, a whole HTML page."""
    shown = [_shown(number, entry) for number, entry in enumerate(entries, 1)]
    heading = shown[0]["title"] if len(shown) == 1 else f"{len(shown)} results"
    return template("report.html.j2").render(entries=shown, heading=heading)


def table_html(document: Document) -> str:
    """The findings as an HTML fragment, for notebooks."""
    shown = _shown(1, Entry(name="", document=document))
    return template("table.html.j2").render(entry=shown)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("setebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def template(name: str) -> Template:
    """A page's template; it escapes whatever it is given."""
    return _environment().get_template(name)


def _shown(number: int, entry: Entry) -> dict[str, Any]:
    """What the template prints of an entry: text, but for the drawings."""
    document = entry.document
    view = View(document, entry.references)
    return {
        "number": number,
        "name": visible(entry.name),
        "title": title(document),
        "verified": verified(document),
        "opening": _opening(document, entry.references),
        "machine": _machine_rows(document),
        "settings": _pairs(document.settings),
        "facts": _pairs(document.machine.facts),
        "environment": _pairs(document.machine.environment),
        "shortcomings": shortcomings(document),
        "columns": view.columns()[:-1],
        "sections": [_section(view, section) for section in sections(condensed(document.findings))],
        "references": [visible(f"{each.name}: {each.document.machine.name}") for each in entry.references],
        "plots": [_plot(each, f"{number}-{position}") for position, each in enumerate(entry.plots, 1)],
        "download": _download(store.dumps(document), "application/json"),
    }


def _opening(document: Document, references: Sequence[Reference]) -> Any:
    """The first page as the template reads it, its texts made visible; None where there is none."""
    page = opening(document, references)
    return None if page is None else _shown_text(msgspec.to_builtins(page))


def _shown_text(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_shown_text(each) for each in value]
    return {key: _shown_text(each) for key, each in value.items()} if isinstance(value, dict) else value


def _section(view: View, section: Section) -> dict[str, Any]:
    return {"heading": visible(section.heading), "rows": [_row(view, finding) for finding in section.findings]}


def _row(view: View, finding: Finding) -> dict[str, Any]:
    *cells, _note = view.cells(finding)
    return {
        "cells": list(zip(view.columns(), cells, strict=False)),
        "outcome": str(finding.outcome),
        "method": visible(finding.method),
        "reason": visible(finding.reason or ""),
        "differs": any("≠" in reference.remark(finding) for reference in view.references),
    }


def _machine_rows(document: Document) -> list[tuple[str, str]]:
    """The machine block: what a reader asks first."""
    machine, settings = document.machine, document.settings
    ratio = cycles_per_ns(document)
    cpu = machine.environment.get("cpu")
    hypervisor = machine.environment.get("hypervisor")
    rows: list[tuple[str, Any]] = [
        ("machine", machine.name),
        ("opened as", settings.get("machine")),
        ("processor", _processor(cpu) if isinstance(cpu, dict) else None),
        ("guest of", hypervisor.get("name") if isinstance(hypervisor, dict) else None),
        ("core clock while measuring", f"{ratio:.3f} GHz" if ratio else None),
        ("CPUs", machine.facts.get("cpus")),
        ("seed", settings.get("seed")),
        ("fewer samples (--fast)", settings.get("fast")),
        ("begun", document.started),
        ("measured for", f"{document.elapsed_seconds:.1f} s"),
        ("written by", f"{document.tool.name} {document.tool.version}"),
    ]
    return [(label, _text(value)) for label, value in rows if value not in (None, "", [])]


def _processor(cpu: dict[str, Any]) -> str:
    numbers = [f"{key} {cpu[key]}" for key in ("family", "model", "stepping") if cpu.get(key) is not None]
    return ", ".join([str(cpu.get("name") or "unknown"), *numbers])


def _pairs(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(visible(str(key)), _text(value)) for key, value in record.items()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _download(data: bytes, kind: str) -> str:
    """A data: address, empty where it would be too long."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}" if len(data) <= LARGEST_DOWNLOAD else ""


# -- plots ------------------------------------------------------------------------------------------------------------


def draw(name: str, figure: Figure, evidence: Any) -> Plot:
    """A figure as a plot of the report. `evidence` is what it was drawn from. Raises `SetebenchError` where there is
    nothing in the figure."""
    if not figure.axes:
        raise SetebenchError("the figure is empty")
    alt = plot.alt_text(figure)
    return Plot(
        name=name,
        alt=alt,
        svg=plot.encode(figure, "svg", alt).decode(),
        points=_points(figure),
        evidence=json.dumps(store.plain(evidence), ensure_ascii=False),
    )


def _points(figure: Figure) -> str:
    """What is drawn, as CSV: points of lines with their error bars, of scatter plots, and the cells of heat maps."""
    rows = ((axes.get_title(), *point) for axes in figure.axes for point in _drawn(axes))
    return csv_table([("plot", "series", "x", "y", "low", "high", "value"), *rows])


def _drawn(axes: Axes) -> Iterator[tuple[Any, ...]]:
    """Series, x, y, low, high and value of each point; empty where a kind of drawing has none of them."""
    from matplotlib.collections import PathCollection
    from matplotlib.container import ErrorbarContainer

    barred = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    parts = {part for each in barred for part in (each.lines[0], *each.lines[1])}
    for each in barred:
        yield from _barred(str(each.get_label()), each)
    for line in axes.get_lines():
        if line not in parts and line.get_transform() == axes.transData:  # others mark a level, and hold no points
            points = zip(_plain(line.get_xdata()), _plain(line.get_ydata()), strict=True)
            yield from ((str(line.get_label()), x, y, "", "", "") for x, y in points)
    for scatter in axes.collections:
        if isinstance(scatter, PathCollection):
            yield from ((str(scatter.get_label()), x, y, "", "", "") for x, y in _plain(scatter.get_offsets()))
    for image in axes.get_images():
        for y, row in enumerate(_plain(image.get_array())):
            yield from (("", x, y, "", "", value) for x, value in enumerate(row))


def _barred(series: str, container: ErrorbarContainer) -> Iterator[tuple[Any, ...]]:
    line, caps, _bars = container.lines
    if line is None:
        return
    points = [_plain(line.get_xdata()), _plain(line.get_ydata())]
    bounds = [_plain(cap.get_ydata()) for cap in caps] if len(caps) == 2 else []
    for index, (x, y) in enumerate(zip(*points, strict=True)):
        low, high = (bound[index] for bound in bounds) if bounds else ("", "")
        yield series, x, y, low, high, ""


def _plain(values: Any) -> Any:
    import numpy as np

    return store.plain(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan))


def _plot(each: Plot, number: str) -> dict[str, str]:
    return {
        "name": visible(each.name),
        "alt": visible(each.alt),
        "svg": _inlined(each, number) if each.svg else "",
        "points": _download(each.points.encode(), "text/csv"),
        "evidence": _download(each.evidence.encode(), "application/json"),
        "problem": visible(each.problem),
    }


def _inlined(each: Plot, number: str) -> str:
    """The drawing for use inside a page: identifiers of its own, and a title for screen readers before all else."""
    svg = each.svg[each.svg.index("<svg ") :]
    svg = re.sub(r'\bid="', f'id="p{number}-', svg)
    svg = re.sub(r'(href="#|url\(#)', lambda match: f"{match[1]}p{number}-", svg)
    head, end, body = svg.partition(">")
    labels = f'aria-labelledby="p{number}-title" aria-describedby="p{number}-desc"'
    named = f'<title id="p{number}-title">{escape(visible(each.name))}</title>'
    body = body.replace("<desc>", f'<desc id="p{number}-desc">', 1)
    return f"{head} {labels}{end}\n {named}{body}"
