"""`setebench report`: result files as one HTML page that needs no network, or as tables in another form."""

from __future__ import annotations

from pathlib import Path

import click

from setebench.cli import beside
from setebench.cli.options import file_options
from setebench.cli.output import file_or_none, target_of
from setebench.errors import UsageError
from setebench.report.table import FORMS as TABLES
from setebench.report.table import render
from setebench.results import Document

FORM_OF_EXTENSION = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
}
FORMS = ("html", "table", "overview", "markdown", "latex", "csv", "json")


@click.command()
@click.argument("results", metavar="RESULT...", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="Form of the report.  [default: html, or by FILE's extension]"
)
@click.option("--reference", metavar="NAME", help="Published values beside the findings, or none.")
@file_options
def report(results: tuple[str, ...], output: Path | None, form: str | None, reference: str | None, force: bool) -> None:
    """Make a report of result files, on standard output or in FILE.

    The HTML page is one self-contained file with the machine, all findings with method and reason, and the plots with
    their data. JSON and CSV take one RESULT.

    Exit status: 0 written, 2 a file that can't be read or written.
    """
    output = file_or_none(output)
    chosen = form or _form_of(output)
    if chosen in ("json", "csv") and len(results) > 1:
        raise UsageError(f"{chosen} takes one result; name one, or use setebench compare")
    beside.check_reference(reference)
    write = target_of(output, force)
    documents = named(results)
    write(beside.report(documents, reference) if chosen == "html" else _tables(documents, chosen, reference))


def named(results: tuple[str, ...]) -> dict[str, Document]:
    """The documents by what they are called: the file's name, with a number where two have the same."""
    found: dict[str, Document] = {}
    for result in results:
        name = base = Path(result).name
        number = 2
        while name in found:
            name, number = f"{base} ({number})", number + 1
        found[name] = beside.load(result)
    return found


def _form_of(output: Path | None) -> str:
    if output is None:
        return "html"
    form = FORM_OF_EXTENSION.get(output.suffix.lower())
    if form is None:
        raise UsageError(f"the extension of {str(output)!r} names no form; add --format, or use .html")
    return form


def _tables(documents: dict[str, Document], form: str, reference: str | None) -> bytes:
    assert form in TABLES
    parts = (
        render(document, form, references=[] if form == "json" else beside.chosen_references(document, reference))
        for document in documents.values()
    )
    return "\n".join(parts).encode()
