"""`setebench fleet compare`: which of many nodes stand out, and in which parameter."""

from __future__ import annotations

from typing import Any

import click

from setebench.cli.options import file_options
from setebench.cli.output import file_or_none, print_for_people, target_of
from setebench.cli.progress import Progress
from setebench.fleet.comparison import compare
from setebench.report.fleet import FORMS, render

STANDS_OUT = 3
"""Exit status with --exit-code where a node stands out; 1 and 2 mean that there was no comparison."""

_FORM_OF_EXTENSION = {".json": "json", ".csv": "csv", ".html": "html", ".htm": "html"}
_SAID_EVERY = 500
"""Files after which progress is said again."""


@click.command()
@click.argument("results", metavar="DIR|FILE...", nargs=-1, required=True)
@click.option(
    "--baseline", metavar="DIR|FILE", multiple=True, help="Earlier results of these nodes, to find what has changed."
)
@click.option("--exit-code", is_flag=True, help="Exit with status 3 if a node stands out.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Form.  [default: table, or by FILE's extension]")
@file_options
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def compare_nodes(results: tuple[str, ...], baseline: tuple[str, ...], **values: Any) -> None:
    """Find the nodes that stand out, and in which parameters.

    Results are files of `setebench characterize -o` or any scenario, one or several for a node: n7.json, n7.run-2.json
    and n7/run-3.json all belong to n7, unless a file names its node.

    Exit status: 0 compared, 2 nothing to compare or a file that can't be written; with --exit-code 3 where a node
    stands out by a test that gives a false alarm in at most one of twenty comparisons of equal nodes.
    """
    output = file_or_none(values["output"])
    write = target_of(output, values["force"])
    suffix = "" if output is None else output.suffix.lower()
    chosen = values["form"] or _FORM_OF_EXTENSION.get(suffix, "table")
    progress = Progress(quiet=values["quiet"])

    def heard(done: int, files: int) -> None:
        if done % _SAID_EVERY == 0:
            progress(f"{done:,} of {files:,} files read")

    found = compare(results, baseline, heard)
    progress.close()
    if output is None and chosen == "table":
        print_for_people(lambda **_look: render(found, "table"))
    else:
        write(render(found, chosen).encode())
    if values["exit_code"] and found.alarms:
        raise click.exceptions.Exit(STANDS_OUT)
