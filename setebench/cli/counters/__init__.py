"""`setebench counters`: hardware counters and what the kernel counts."""

from __future__ import annotations

from typing import Any

import click

from setebench import registry
from setebench.cli.counters.listing import header, list_roles
from setebench.cli.counters.stat import stat
from setebench.cli.options import PATH
from setebench.cli.run import scenario_command
from setebench.counters import verdicts
from setebench.native.perf.tables import this_key
from setebench.results import Document


@click.group(no_args_is_help=True)
def counters() -> None:
    """Check the CPU's event counters on this machine, and count events of programs.

    Events are roles ('setebench counters list'), or have the kernel's form: cpu/event=0x48,umask=1/.
    """


def _store(document: Document, values: dict[str, Any]) -> None:
    """Store the verdicts of this CPU; those of another machine, which hold for its name, only where a file is named.
    Verdicts on some roles only replace those roles' older ones."""
    found = {finding.parameter: finding for finding in document.findings}
    native, path, name = document.machine.kind == "native", values["verdicts"], document.machine.name
    if native or path is not None:
        other = verdicts.Key(processor=name, microcode="", kernel="", version=document.tool.version)
        key = this_key() if native else other
        if native and path is None and document.settings["options"].get("role"):
            found = {**verdicts.stored(key, name).findings, **found}
        new = verdicts.Verdicts(key=key, machine=name, date=document.started, findings=found)
        click.echo(f"stored the verdicts in {verdicts.save(new, path)}", err=True)


verdicts_option = click.option(
    "--verdicts",
    metavar="FILE",
    type=PATH,
    help="Store the verdicts in FILE.  [default: below the user's data folder, for this CPU]",
)
validate = verdicts_option(scenario_command("validate", registry.scenario("counters"), _store))
peaks = scenario_command("peaks", registry.scenario("counter-peaks"))
for command in (header, list_roles, peaks, stat, validate):
    counters.add_command(command)
