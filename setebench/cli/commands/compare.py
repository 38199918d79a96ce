"""`setebench compare`: results and published values side by side."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import references
from setebench.cli.commands.report import named
from setebench.cli.options import file_options
from setebench.cli.output import file_or_none, print_for_people, print_text, target_of
from setebench.compare import Agreement, compare
from setebench.errors import UsageError
from setebench.report.comparison import FORMS, render

DIFFERS = 3
"""Exit status with --exit-code where a finding differs; 1 and 2 mean that there was no comparison."""


@click.command("compare")
@click.argument("results", metavar="A B [C...]", nargs=-1)
@click.option("--list-references", is_flag=True, help="List the published values that come with setebench, and exit.")
@click.option("--exit-code", is_flag=True, help="Exit with status 3 if a finding differs.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Form of the comparison.  [default: table]")
@file_options
def compare_command(
    results: tuple[str, ...],
    list_references: bool,
    exit_code: bool,
    form: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Compare results with the first of them: settings and findings that differ, and findings that agree.

    A result is a file, or reference:NAME for published values. Two numbers differ if their intervals don't overlap.

    Exit status: 0 compared, 2 a file that can't be read or written; with --exit-code 3 where a finding differs.
    """
    if list_references:
        print_text(_list().encode())
        return
    if len(results) < 2:
        raise UsageError("name at least two results (files, or reference:NAME; see --list-references)")
    write = target_of(output, force)
    documents = named(results)
    found = compare(list(documents.values()), list(documents))
    if form in (None, "table") and file_or_none(output) is None:
        print_for_people(lambda **_look: render(found, "table"))
    else:
        write(render(found, form or "table").encode())
    if exit_code and found.of(Agreement.DIFFERS):
        raise click.exceptions.Exit(DIFFERS)


def _list() -> str:
    lines = []
    for name in references.names():
        known = references.read(name)
        lines.append(f"reference:{name}  {known.title}, {len(known.values)} values")
        lines += [f"    {source.title} ({source.kind}) {source.url}".rstrip() for source in known.sources.values()]
    return "\n".join(lines) + "\n"
