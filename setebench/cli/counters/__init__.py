"""`setebench counters`: hardware counters and what the kernel counts. Its commands are imported when they are used."""

from __future__ import annotations

import click

from setebench.cli.lazy import LazyCommands

COMMANDS = {
    "header": ("setebench.cli.counters.header:header", "Print the C header that marks regions, or its folder."),
    "list": ("setebench.cli.counters.listing:list_roles", "List what can be counted here, by which event, or why not."),
    "peaks": (
        "setebench.cli.counters.checked:peaks",
        "Measure the largest rate of each event, its 100 %.",
    ),
    "stat": ("setebench.cli.counters.stat:stat", "Run a program and count its events."),
    "tables": ("setebench.cli.counters.tables:list_tables", "List event tables, their sources and disagreements."),
    "validate": ("setebench.cli.counters.checked:validate", "Check whether each event counts what its role says."),
}
"""Where each command lives, and its line in `--help`."""


@click.group(cls=LazyCommands, commands_at=COMMANDS, no_args_is_help=True)
def counters() -> None:
    """Check the CPU's event counters on this machine, and count events of programs.

    Events are roles ('setebench counters list'), or have the kernel's form: cpu/event=0x48,umask=1/.
    """
