"""`setebench counters`: hardware counters and what the kernel counts."""

from __future__ import annotations

from typing import Any

import click

from setebench import registry
from setebench.cli.counters.listing import header, list_roles
from setebench.cli.counters.stat import stat
from setebench.cli.run import scenario_command
from setebench.counters import verdicts
from setebench.results import Document


@click.group(no_args_is_help=True)
def counters() -> None:
    """Check the CPU's event counters on this machine, and count events of programs.

    Events are roles ('setebench counters list'), or have the kernel's form: cpu/event=0x48,umask=1/.
    """


def _store(document: Document, _values: dict[str, Any]) -> None:
    """Store the verdicts of this CPU; those on other machines are in their result files."""
    if document.machine.kind == "native":
        click.echo(f"stored the verdicts in {verdicts.save(document)}", err=True)


validate = scenario_command("validate", registry.scenario("counters"), _store)
peaks = scenario_command("peaks", registry.scenario("counter-peaks"))
for command in (header, list_roles, peaks, stat, validate):
    counters.add_command(command)
