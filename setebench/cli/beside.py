"""What a document is shown with: plots of its scenarios, and references to hold its findings against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from setebench import references, registry, store
from setebench.campaign import evidence_of, steps_of
from setebench.cli.progress import quieten_matplotlib
from setebench.errors import SetebenchError, UsageError
from setebench.recording import without_recordings
from setebench.report import web
from setebench.report.plots.timeline import timeline_figure
from setebench.report.sections import Reference
from setebench.results import Document

NO_REFERENCE = "none"

OWN_PLOTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {"diagnose": timeline_figure}
"""What draws the evidence of commands that have no scenario behind them."""


def chosen_references(document: Document, name: str | None) -> list[Reference]:
    """The reference called `name`, or the one for the processor that the document is of; and what the operating system
    says of its caches, where the document has any. Raises `UsageError` for an unknown name."""
    found = []
    chosen = references.matching(document.machine.environment) if name is None else name
    if chosen is not None and chosen != NO_REFERENCE:
        chosen = chosen.removeprefix(references.PREFIX)
        found.append(Reference(name=chosen, document=references.document(chosen)))
    system = references.of_the_system(document.machine.environment)
    reported = {finding.parameter for finding in document.findings}
    if system is not None and reported & {finding.parameter for finding in system.findings}:
        found.append(Reference(name="system", document=system, complete=False))
    return found


def load(name: str) -> Document:
    """A result file, or `reference:NAME`. Raises `UsageError`."""
    if name.startswith(references.PREFIX):
        return references.document(name.removeprefix(references.PREFIX))
    return store.load(name)


def plots(document: Document) -> list[web.Plot]:
    """Every plot that the document's scenarios can draw from its evidence; one that can't be drawn says why."""
    quieten_matplotlib()
    try:
        order = {step.scenario: number for number, step in enumerate(steps_of(document))}
    except UsageError:  # a damaged list costs the order, no plot
        order = {}
    entries = sorted(evidence_of(document).items(), key=lambda entry: order.get(entry[0], len(order)))
    return [plot for name, evidence in entries for plot in _plots(name, evidence)]


def _plots(name: str, evidence: dict[str, Any]) -> list[web.Plot]:
    entry = registry.catalogue().get(name)
    try:
        drawing = OWN_PLOTS.get(name) if entry is None else entry.load().plot
        if drawing is None:
            return []
        drawn = drawing(evidence)
        figures = list(drawn) if isinstance(drawn, (list, tuple)) else [drawn]
        names = [name] if len(figures) == 1 else [f"{name} {number}" for number in range(1, len(figures) + 1)]
        return [web.draw(each, figure, evidence) for each, figure in zip(names, figures, strict=True)]
    except SetebenchError as error:
        return [web.Plot(name=name, problem=str(error))]
    except Exception as error:  # evidence comes from anybody's file, and a damaged one must not cost the report
        return [web.Plot(name=name, problem=f"can't be drawn from this evidence: {type(error).__name__}: {error}")]


def report(documents: dict[str, Document], reference: str | None) -> bytes:
    """The HTML report on some documents, by what they are called. Raises `UsageError` for an unknown reference."""
    shown = {
        name: msgspec.structs.replace(each, evidence=without_recordings(each.evidence))
        for name, each in documents.items()
    }
    entries = [
        web.Entry(name=name, document=each, plots=plots(each), references=chosen_references(each, reference))
        for name, each in shown.items()
    ]
    return web.page(entries).encode()


def check_reference(name: str | None) -> None:
    """Raise `UsageError` now for a reference that there is not."""
    if name is not None and name != NO_REFERENCE:
        chosen = name.removeprefix(references.PREFIX)
        if chosen not in references.names():
            raise UsageError(f"unknown reference {chosen!r}; one of {', '.join(references.names())}, {NO_REFERENCE}")
