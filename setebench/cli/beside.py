"""What a document is shown with: plots of its scenarios, and references to hold its findings against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from setebench import references, registry, store
from setebench.campaign import evidence_of
from setebench.cli.progress import quieten_matplotlib
from setebench.errors import reason
from setebench.recording import without_recordings
from setebench.report import web
from setebench.report.plots.timeline import timeline_figure
from setebench.results import Document

OWN_PLOTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {"diagnose": timeline_figure}
"""What draws the evidence of commands that have no scenario behind them."""


def chosen_references(document: Document) -> dict[str, Document]:
    """The published values of the processor that the document is of, and what the operating system says of its caches,
    by who says it."""
    chosen = references.matching(document.machine.environment)
    found = {} if chosen is None else {f"published for {chosen}": references.document(chosen)}
    system = references.of_the_system(document.machine.environment)
    return found if system is None else found | {"said by the operating system": system}


def load(name: str) -> Document:
    """A result file, or `reference:NAME`. Raises `UsageError`."""
    if name.startswith(references.PREFIX):
        return references.document(name.removeprefix(references.PREFIX))
    return store.load(name)


def plots(document: Document) -> list[web.Plot]:
    """Every plot that the document's scenarios can draw from its evidence; one that can't be drawn says why."""
    quieten_matplotlib()
    return [plot for name, evidence in evidence_of(document).items() for plot in _plots(name, evidence)]


def _plots(name: str, evidence: dict[str, Any]) -> list[web.Plot]:
    entry = registry.catalogue().get(name)
    try:
        drawing = OWN_PLOTS.get(name) if entry is None else entry.load().plot
        if drawing is None:
            return []
        drawn = drawing(evidence)
        figures = list(drawn) if isinstance(drawn, (list, tuple)) else [drawn]
        names = [name] if len(figures) == 1 else [f"{name} {number}" for number in range(1, len(figures) + 1)]
        return [web.draw(each, figure) for each, figure in zip(names, figures, strict=True)]
    except Exception as error:  # evidence comes from anybody's file, and a damaged one must not cost the report
        return [web.Plot(name=name, problem=f"can't be drawn: {reason(error)}")]


def report(documents: Iterable[tuple[str, Document]]) -> str:
    """The HTML report on some documents, each with what it is called."""
    entries = []
    for name, each in documents:
        shown = msgspec.structs.replace(each, evidence=without_recordings(each.evidence))
        entries.append(web.Entry(name=name, document=shown, plots=plots(shown), references=chosen_references(shown)))
    return web.page(entries)
