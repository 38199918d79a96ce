"""`setebench export`: a result as configuration for another tool."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import store
from setebench.cli.options import file_options
from setebench.cli.output import print_text, target_of
from setebench.errors import UsageError
from setebench.export import export, formats


@click.command("export")
@click.argument("result", metavar="RESULT", required=False, type=click.Path(path_type=Path))
@click.option("--to", "name", metavar="FORMAT", help="The format; see --list.")
@click.option("--list", "listing", is_flag=True, help="List the formats and exit.")
@file_options
def export_command(result: Path | None, name: str | None, listing: bool, output: Path | None, force: bool) -> None:
    """Write the result file RESULT as configuration for another tool.

    Every value has its interval and method where the format allows it. Parameters that the result leaves open are
    left out and listed; assumed values are marked.
    """
    if listing:
        width = max(map(len, formats()))
        print_text("".join(f"{each.name:{width}}  {each.title}\n" for each in formats().values()).encode())
        return
    if result is None or name is None:
        raise UsageError("name a result file and --to FORMAT; --list says which formats there are")
    write = target_of(output, force)
    write(export(store.load(result), name).encode())
