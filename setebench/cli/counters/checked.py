"""`setebench counters validate` and `setebench counters peaks`: the scenarios, and where their answers are stored."""

from __future__ import annotations

from typing import Any

import click

from setebench import registry
from setebench.cli.options import PATH
from setebench.cli.run import scenario_command
from setebench.counters import verdicts
from setebench.native.perf.tables import this_key
from setebench.results import Document


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


validate = click.option(
    "--verdicts",
    metavar="FILE",
    type=PATH,
    help="Store the verdicts in FILE.  [default: below the user's data folder, for this CPU]",
)(scenario_command("validate", registry.scenario("counters"), _store))
peaks = scenario_command("peaks", registry.scenario("counter-peaks"))
