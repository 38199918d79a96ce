"""`setebench fleet`: many nodes that ought to be equal. Its commands are imported when they are used."""

from __future__ import annotations

import click

from setebench.cli.lazy import LazyCommands

COMMANDS = {
    "compare": ("setebench.cli.fleet.compare:compare_nodes", "Find the nodes that stand out, and in which parameters."),
    "run": ("setebench.cli.fleet.run:run", "Measure many nodes: by a Dask cluster, Slurm or ssh."),
    "simulate": ("setebench.cli.fleet.simulate:simulate", "Make a fleet of simulated nodes with known odd ones."),
}
"""Where each command lives, and its line in `--help`."""


@click.group(cls=LazyCommands, commands_at=COMMANDS, no_args_is_help=True)
def fleet() -> None:
    """Measure many nodes that ought to be equal, and find the odd ones."""
