"""The commands that read result files: show, report, compare, export and infer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from setebench import campaign, references, store
from setebench.campaign import Listener
from setebench.cli import beside
from setebench.cli.options import PATH, file_options, forms_options, output_options, quiet_option
from setebench.cli.output import Output, print_text
from setebench.cli.progress import Progress
from setebench.compare import Agreement, compare
from setebench.errors import DIFFERS, SetebenchError, UsageError, reason
from setebench.report.comparison import FORMS as COMPARISONS
from setebench.report.comparison import render as render_comparison
from setebench.results import Document


@click.command()
@click.argument("file", type=PATH)
@output_options
def show(file: Path, **values: Any) -> None:
    """Print the result file FILE, or write it to another file in another form."""
    target = Output.choose(values)
    document = store.load(file)
    target.deliver(document, beside.chosen_references(document) if target.form == "overview" else None)


@click.command()
@click.argument("results", metavar="RESULT...", nargs=-1, required=True)
@file_options
def report(results: tuple[str, ...], **values: Any) -> None:
    """Make an HTML page of result files, on standard output or in FILE.

    It is one self-contained file with the machine, all findings with method and reason, and the plots.

    Exit status: 0 written, 2 a file that can't be read or written.
    """
    target = Output.choose(values)
    target.write(beside.report(_named(results)))


def _named(results: tuple[str, ...]) -> list[tuple[str, Document]]:
    """The documents and what they are called: the file's name, or all that was given where two have the same."""
    names = [Path(result).name for result in results]
    return [
        (result if names.count(name) > 1 else name, beside.load(result))
        for name, result in zip(names, results, strict=True)
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
    target.write(render_comparison(found, target.form))
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
        with Progress(quiet=quiet) as progress:
            inferred = campaign.infer(document, Listener(progress=progress, failed=progress.failed))
    except Exception as error:  # a recording comes from anybody's file, and what a damaged one leads to is endless
        kind = UsageError if isinstance(error, UsageError) else SetebenchError
        raise kind(f"can't infer from {str(file)!r}: {reason(error)}") from error
    target.deliver(inferred)
    if (steps := campaign.steps_of(inferred)) and all(step.state != "done" for step in steps):
        raise SetebenchError("no scenario could be inferred; the table says why")
