"""`setebench counters validate` and `setebench counters peaks`: the scenarios, and where their answers are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import registry, store
from setebench.cli.options import Further, scenario_command
from setebench.counters import verdicts
from setebench.errors import UsageError
from setebench.native.perf.trust import this_key
from setebench.results import Document

_VERDICTS = click.Option(
    ["--verdicts"],
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep the verdicts in FILE.  [default: below the user's data folder, for this CPU]",
)
_CONTRIBUTE = click.Option(
    ["--contribute"],
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write them to FILE in the form of a contribution to the event tables.",
)


def _keep(document: Document, values: dict[str, Any]) -> None:
    """Keep the verdicts of this CPU; those of another machine only where a file is named."""
    found = verdicts.of_findings(document.findings)
    if document.machine.kind == "native" or values["verdicts"] is not None:
        kept = verdicts.Verdicts(
            key=this_key() if document.machine.kind == "native" else _key_of(document),
            machine=document.machine.name,
            date=document.started,
            verdicts=_with_older(document, found, values["verdicts"]),
        )
        click.echo(f"kept the verdicts in {verdicts.keep(kept, values['verdicts'])}", err=True)
    if values["contribute"] is not None:
        store.write(values["contribute"], _contribution(document, found), values["force"])
        click.echo(f"wrote the contribution to {values['contribute']}", err=True)


def _with_older(
    document: Document, found: dict[str, verdicts.Verdict], path: Path | None
) -> dict[str, verdicts.Verdict]:
    """Verdicts on some roles only replace those roles' older ones."""
    if document.machine.kind != "native" or path is not None or not document.settings["options"].get("role"):
        return found
    return {**verdicts.kept(this_key(), document.machine.name).verdicts, **found}


def _key_of(document: Document) -> verdicts.Key:
    """What verdicts on a machine that is not this CPU hold for: its name."""
    return verdicts.Key(processor=document.machine.name, microcode="", kernel="", version=document.tool.version)


def _contribution(document: Document, found: Mapping[str, verdicts.Verdict]) -> bytes:
    """Verdict, scale and interval of every role, with processor, microcode, kernel and version, and nothing else."""
    if document.machine.kind != "native":
        raise UsageError("only what was validated on this CPU can be contributed; leave out --machine")
    key = this_key()
    lines = [f"{name} = {_text(getattr(key, name))}" for name in key.__struct_fields__]
    for role, verdict in found.items():
        lines += ["", f"[validated.{role}]", f"verdict = {_text([kind.value for kind in verdict.kinds])}"]
        numbers = {"scale": verdict.scale, "scale_low": verdict.scale_low, "scale_high": verdict.scale_high}
        lines += [f"{name} = {number!r}" for name, number in numbers.items() if number is not None]
        lines += [f"reason = {_text(verdict.reason)}"] if verdict.reason else []
    return ("\n".join(lines) + "\n").encode()


def _text(value: object) -> str:
    """A string, or a list of such, as TOML; JSON writes them alike."""
    return msgspec.json.encode(value).decode()


validate = scenario_command("validate", registry.scenario("counters"), Further((_VERDICTS, _CONTRIBUTE), _keep))
peaks = scenario_command("peaks", registry.scenario("counter-peaks"))
