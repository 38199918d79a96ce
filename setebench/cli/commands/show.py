"""`setebench show`: a result file in another form."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import store
from setebench.cli import beside
from setebench.cli.options import output_options
from setebench.cli.output import Output


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--reference", metavar="NAME", help="Put the published values of NAME beside the findings.")
@output_options
def show(file: Path, reference: str | None, form: str | None, output: str | None, force: bool) -> None:
    """Print the result file FILE, or write it to another file in another form."""
    target = Output.choose(output, form, force)
    target.check()
    beside.check_reference(reference)
    document = store.load(file)
    target.deliver(document, [] if reference is None else beside.chosen_references(document, reference))
