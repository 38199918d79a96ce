"""The commands that read result files: show, report, compare, export and infer; and what a document is shown with:
plots of its scenarios, and references to hold its findings against."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import campaign, references, registry, store
from setebench.campaign import Listener, evidence_of
from setebench.cli.options import PATH, file_options, forms_options, output_options, quiet_option
from setebench.cli.output import Output, Progress, print_text, quieten_matplotlib
from setebench.compare import Agreement, compare
from setebench.errors import DIFFERS, SetebenchError, UsageError, reason
from setebench.recording import without_recordings
from setebench.report import web
from setebench.report.comparison import FORMS as COMPARISONS
from setebench.report.plots.timeline import timeline_figure
from setebench.results import Document


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
    return [plot for name, evidence in evidence_of(document).items() if (plot := _plot(name, evidence))]


def _plot(name: str, evidence: dict[str, Any]) -> web.Plot | None:
    entry = registry.catalogue().get(name)
    try:
        drawing = entry.load().plot if entry else timeline_figure if name == "diagnose" else None
        return None if drawing is None else web.draw(name, drawing(evidence))
    except Exception as error:  # evidence comes from anybody's file, and a damaged one must not cost the report
        return web.Plot(name=name, problem=f"can't be drawn: {reason(error)}")


def html_report(documents: Iterable[tuple[str, Document]]) -> str:
    """The HTML report on some documents, each with what it is called."""
    entries = []
    for name, each in documents:
        shown = msgspec.structs.replace(each, evidence=without_recordings(each.evidence))
        entries.append(web.entry(name, shown, plots(shown), chosen_references(shown)))
    return web.page(entries)


# -- the commands -----------------------------------------------------------------------------------------------------


@click.command()
@click.argument("file", type=PATH)
@output_options
def show(file: Path, **values: Any) -> None:
    """Print the result file FILE, or write it to another file in another form."""
    target = Output.choose(values)
    document = store.load(file)
    target.deliver(document, chosen_references(document) if target.form == "overview" else None)


@click.command()
@click.argument("results", metavar="RESULT...", nargs=-1, required=True)
@file_options
def report(results: tuple[str, ...], **values: Any) -> None:
    """Make an HTML page of result files, on standard output or in FILE.

    It is one self-contained file with the machine, all findings with method and reason, and the plots.

    Exit status: 0 written, 2 a file that can't be read or written.
    """
    target = Output.choose(values)
    target.write(html_report(_named(results)))


def _named(results: tuple[str, ...]) -> list[tuple[str, Document]]:
    """The documents and what they are called: the file's name, or all that was given where two have the same."""
    names = [Path(result).name for result in results]
    return [
        (result if names.count(name) > 1 else name, load(result)) for name, result in zip(names, results, strict=True)
    ]


@click.command("compare")
@click.argument("results", metavar="A B [C...]", nargs=-1)
@click.option("--list-references", is_flag=True, help="List the published values that come with setebench, and exit.")
@click.option("--exit-code", is_flag=True, help="Exit with status 3 if a finding differs.")
@forms_options(COMPARISONS)
def compare_command(results: tuple[str, ...], **values: Any) -> None:
    """Compare results with the first of them: settings and findings that differ, and findings that agree.

    A result is a file, or reference:NAME for published values. Two numbers differ if their intervals don't overlap.

    Exit status: 0 compared, 2 a file that can't be read or written; with --exit-code 3 where a finding differs.
    """
    if values["list_references"]:
        print_text("".join(map(references.listed, references.names())))
        return
    if len(results) < 2:
        raise UsageError("name at least two results (files, or reference:NAME; see --list-references)")
    target = Output.choose(values, COMPARISONS)
    names, documents = zip(*_named(results), strict=True)
    found = compare(documents, names)
    target.write(COMPARISONS[target.form](found))
    if values["exit_code"] and found.of(Agreement.DIFFERS):
        raise click.exceptions.Exit(DIFFERS)


@click.command("export")
@click.argument("result", metavar="RESULT", required=False, type=PATH)
@click.option("--to", "name", metavar="FORMAT", help="The format; see --list.")
@click.option("--list", "listing", is_flag=True, help="List the formats and exit.")
@file_options
def export_command(result: Path | None, name: str | None, listing: bool, **values: Any) -> None:
    """Write the result file RESULT as configuration for another tool.

    Every value has its interval and method where the format allows it. Parameters that the result leaves open are
    left out and listed; assumed values are marked.
    """
    from setebench.export import export, formats

    if listing:
        width = max(map(len, formats()))
        print_text("".join(f"{each.name:{width}}  {each.title}\n" for each in formats().values()))
        return
    if result is None or name is None:
        raise UsageError("name a result file and --to FORMAT; --list says which formats there are")
    target = Output.choose(values)
    target.write(export(store.load(result), name))


@click.command()
@click.argument("file", type=PATH)
@quiet_option
@output_options
def infer(file: Path, quiet: bool, **values: Any) -> None:
    """Run the inference again on the machine's answers recorded in FILE, without the machine.

    FILE is a result of characterize -o, or of a scenario with --raw.

    Exit status: 0 inferred, 1 all scenarios have other probes than in the version that recorded, 2 nothing was
    recorded.
    """
    target = Output.choose(values)
    document = store.load(file)
    try:
        with Progress(quiet) as progress:
            inferred = campaign.infer(document, Listener(progress=progress, failed=progress.failed))
    except Exception as error:  # a recording comes from anybody's file, and what a damaged one leads to is endless
        kind = UsageError if isinstance(error, UsageError) else SetebenchError
        raise kind(f"can't infer from {str(file)!r}: {reason(error)}") from error
    target.deliver(inferred)
    if (steps := campaign.steps_of(inferred)) and all(step.state != "done" for step in steps):
        raise SetebenchError("no scenario could be inferred; the table says why")
