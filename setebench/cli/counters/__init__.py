"""`setebench counters`: hardware counters and what the kernel counts."""

from __future__ import annotations

import click

from setebench.cli.counters.checked import peaks, validate
from setebench.cli.counters.header import header
from setebench.cli.counters.listing import list_roles
from setebench.cli.counters.stat import stat
from setebench.cli.counters.tables import list_tables


@click.group(no_args_is_help=True)
def counters() -> None:
    """Check the CPU's event counters on this machine, and count events of programs.

    Events are roles ('setebench counters list'), or have the kernel's form: cpu/event=0x48,umask=1/.
    """


for command in (header, list_roles, peaks, stat, list_tables, validate):
    counters.add_command(command)
