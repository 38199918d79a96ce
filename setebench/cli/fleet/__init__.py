"""`setebench fleet`: many nodes that ought to be equal. Its commands are imported when they are used."""

from __future__ import annotations

import click

from setebench.cli.lazy import LazyCommands

COMMANDS = {
    "compare": ("setebench.cli.fleet.compare:compare_nodes", "Say which nodes stand out, in what, and what is usual."),
    "run": ("setebench.cli.fleet.run:run", "Measure many nodes, on a Dask cluster, through Slurm or ssh."),
    "simulate": ("setebench.cli.fleet.simulate:simulate", "Make simulated nodes, of which the odd ones are known."),
}
"""Where each command lives, and its line in `--help`."""


@click.group(cls=LazyCommands, commands_at=COMMANDS, no_args_is_help=True)
def fleet() -> None:
    """Many nodes that ought to be equal: measure them, and find the odd ones."""
