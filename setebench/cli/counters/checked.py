"""`setebench counters validate` and `setebench counters peaks`: the scenarios, and where their answers are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import registry, store
from setebench.cli.run import Further, scenario_command
from setebench.counters import verdicts
from setebench.errors import UsageError
from setebench.native.perf.trust import this_key
from setebench.results import Document


def _file_option(name: str, help_: str) -> click.Option:
    return click.Option([name], metavar="FILE", type=click.Path(path_type=Path), help=help_)


_VERDICTS = _file_option(
    "--verdicts", "Keep the verdicts in FILE.  [default: below the user's data folder, for this CPU]"
)
_CONTRIBUTE = _file_option("--contribute", "Also write them to FILE in the form of a contribution to the event tables.")


def _keep(document: Document, values: dict[str, Any]) -> None:
    """Keep the verdicts of this CPU; those of another machine, which hold for its name, only where a file is named.
    Verdicts on some roles only replace those roles' older ones."""
    found = verdicts.of_findings(document.findings)
    native, path, name = document.machine.kind == "native", values["verdicts"], document.machine.name
    if native or path is not None:
        other = verdicts.Key(processor=name, microcode="", kernel="", version=document.tool.version)
        key = this_key() if native else other
        some = native and path is None and document.settings["options"].get("role")
        every = {**verdicts.kept(key, name).verdicts, **found} if some else found
        kept = verdicts.Verdicts(key=key, machine=name, date=document.started, verdicts=every)
        click.echo(f"kept the verdicts in {verdicts.keep(kept, path)}", err=True)
    if values["contribute"] is not None:
        if not native:
            raise UsageError("only what was validated on this CPU can be contributed; leave out --machine")
        store.write(values["contribute"], _contribution(found), values["force"])
        click.echo(f"wrote the contribution to {values['contribute']}", err=True)


def _contribution(found: Mapping[str, verdicts.Verdict]) -> bytes:
    """Verdict, scale and interval of every role, with processor, microcode, kernel and version, and nothing else, as
    TOML, whose strings and lists of such are as JSON writes them."""

    def text(value: object) -> str:
        return msgspec.json.encode(value).decode()

    key = this_key()
    lines = [f"{name} = {text(getattr(key, name))}" for name in key.__struct_fields__]
    for role, verdict in found.items():
        lines += ["", f"[validated.{role}]", f"verdict = {text([kind.value for kind in verdict.kinds])}"]
        numbers = {"scale": verdict.scale, "scale_low": verdict.scale_low, "scale_high": verdict.scale_high}
        lines += [f"{name} = {number!r}" for name, number in numbers.items() if number is not None]
        lines += [f"reason = {text(verdict.reason)}"] if verdict.reason else []
    return ("\n".join(lines) + "\n").encode()


validate = scenario_command("validate", registry.scenario("counters"), Further((_VERDICTS, _CONTRIBUTE), _keep))
peaks = scenario_command("peaks", registry.scenario("counter-peaks"))
