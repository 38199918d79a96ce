"""`setebench sim`: the simulated machines, what is true of them, and new ones."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from setebench import store
from setebench.cli.options import output_options
from setebench.cli.output import Output, print_text
from setebench.errors import UsageError

NAME_HELP = "NAME is a shipped machine (see 'setebench sim list'), random:SEED, or the path of a .toml file."


@click.group(no_args_is_help=True)
def sim() -> None:
    """Simulated machines: memory systems whose every parameter is known.

    Use one in any scenario by --machine sim:NAME.
    """


@sim.command("list")
def list_machines() -> None:
    """List the machines that come with setebench."""
    from setebench.sim.files import loader

    rows = [*loader.shipped(), ("random:SEED", "drawn from SEED, any whole number; the same for the same SEED")]
    width = max(len(name) for name, _ in rows)
    print_text("".join(f"{name:<{width}}  {description}\n" for name, description in rows).encode())


@sim.command(epilog=NAME_HELP)
@click.argument("name")
def show(name: str) -> None:
    """Print the machine file of NAME.

    A shipped one comes as it is, with the source of each value; any other with every field, defaults included.
    """
    from setebench.sim.files import loader
    from setebench.sim.files.dump import dump

    shipped = not loader.is_path(name) and not name.startswith("random:")
    text = loader.shipped_text(name) if shipped else dump(loader.load(name))
    print_text(text.encode())


@sim.command(epilog=NAME_HELP)
@click.argument("name")
@output_options
def truth(name: str, form: str | None, output: str | None, force: bool) -> None:
    """Print the true parameters of NAME, by the names of findings."""
    from setebench.sim.files import loader
    from setebench.sim.truth.document import truth_document

    target = Output.choose(output, form, force)
    target.check()
    target.deliver(truth_document(loader.load(name), name, datetime.now(UTC)))


@sim.command(epilog="Check it with 'setebench sim show FILE', use it with --machine sim:FILE.")
@click.argument("file")
@click.option(
    "--from", "source", default="plain", metavar="NAME", show_default=True, help="Machine whose values to start with."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def new(file: str, source: str, force: bool) -> None:
    """Write a commented machine file to FILE (.toml, or - for standard output)."""
    from setebench.sim.files import loader
    from setebench.sim.files.dump import template

    if file != "-" and not file.endswith(".toml"):
        raise UsageError(f"{file!r} must end in .toml, or --machine sim:FILE would not find it")
    stem = "my-machine" if file == "-" else Path(file).stem
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", stem)[:64] or "my-machine"
    text = template(loader.load(source), name).encode()
    if file == "-":
        print_text(text)
        return
    store.write(file, text, force)
    click.echo(f"Wrote {click.format_filename(file)}.", err=True)
