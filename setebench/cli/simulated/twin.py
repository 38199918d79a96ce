"""`setebench twin`: a machine file from a result."""

from __future__ import annotations

from pathlib import Path

import click

from setebench import store
from setebench.cli.options import file_options
from setebench.cli.output import file_or_none, print_text
from setebench.errors import UsageError

SUFFIX = ".toml"


@click.command("twin", epilog="Use it with --machine sim:FILE, compare it with the machine by 'setebench verify'.")
@click.argument("result", metavar="RESULT", type=click.Path(path_type=Path))
@file_options
def twin_command(result: Path, output: Path | None, force: bool) -> None:
    """Make a machine file of the result file RESULT: a simulated machine with the parameters that were found.

    Each field says whether it was measured (with its interval), bounded, or assumed (with the reason), in a comment and
    in the table [origins].
    """
    from setebench.truth.twin import as_toml, make_twin

    output = file_or_none(output)
    if output is not None:
        if output.suffix != SUFFIX:
            raise UsageError(f"{str(output)!r} must end in {SUFFIX}, or --machine sim:FILE would not find it")
        store.check_target(output, force)
    text = as_toml(make_twin(store.load(result))).encode()
    if output is None:
        print_text(text)
    else:
        store.write(output, text, force)
