"""The commands about simulated machines: sim, and twin, verify and fit for the twin of a result."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import references, store
from setebench.cli.options import (
    PATH,
    Number,
    cpu_option,
    file_options,
    machine_option,
    no_wait_option,
    output_options,
    quiet_option,
    result_argument,
    seed_option,
    several,
)
from setebench.cli.output import Output, Progress, print_text
from setebench.errors import DIFFERS, UsageError
from setebench.sim import spec
from setebench.sim.files import loader
from setebench.sim.files.dump import dump
from setebench.sim.truth.document import truth_document
from setebench.truth.twin import as_toml, make_twin, twin_of_file

NAME_HELP = "NAME is a shipped machine (see 'setebench sim list'), random:SEED, or the path of a .toml file."


@click.group(no_args_is_help=True)
def sim() -> None:
    """Simulated machines: memory systems whose every parameter is known.

    Use one in any scenario by --machine sim:NAME.
    """


@sim.command("list")
def list_machines() -> None:
    """List the machines that come with setebench."""
    rows = [*loader.shipped(), ("random:SEED", "drawn from SEED, any whole number; the same for the same SEED")]
    width = max(len(name) for name, _ in rows)
    print_text("".join(f"{name:<{width}}  {description}\n" for name, description in rows))


@sim.command("show", epilog=NAME_HELP)
@click.argument("name")
def show_machine(name: str) -> None:
    """Print the machine file of NAME.

    A shipped one comes as it is, with the source of each value; any other with every field, defaults included.
    """
    shipped = loader.presets().get(name)
    print_text(shipped.read_bytes() if shipped else dump(loader.load(name)))


@sim.command()
def schema() -> None:
    """Print what a machine file may have: every field with its meaning, range and default, as a JSON Schema."""
    print_text(store.pretty(msgspec.json.schema(spec.Machine)))


@sim.command(epilog=NAME_HELP)
@click.argument("name")
@output_options
def truth(name: str, **values: Any) -> None:
    """Print the true parameters of NAME, by the names of findings."""
    target = Output.choose(values)
    target.deliver(truth_document(loader.load(name), name, datetime.now(UTC)))


# -- the twin of a result ---------------------------------------------------------------------------------------------


def _machine_file(values: dict[str, Any]) -> Output:
    """Where a machine file goes. Raises `UsageError` for one that couldn't be opened by --machine."""
    output = Output.choose(values)
    if output.path is not None and output.path.suffix != ".toml":
        raise UsageError(f"{str(output.path)!r} must end in .toml, or --machine sim:FILE would not find it")
    return output


@click.command("twin", epilog="Use it with --machine sim:FILE, compare it with the machine by 'setebench verify'.")
@result_argument
@file_options
def twin_command(result: Path, **values: Any) -> None:
    """Make a machine file of the result file RESULT: a simulated machine with the parameters that were found.

    Each field says whether it was measured (with its interval), bounded, or assumed (with the reason), in the table
    [origins].
    """
    output = _machine_file(values)
    output.write(as_toml(make_twin(store.load(result))))


twin_options = several(
    result_argument,
    machine_option,
    click.option("--twin", "file", metavar="FILE", type=PATH, help="Use this machine file as the twin."),
    cpu_option,
    no_wait_option,
    click.option("--minutes", type=Number(0.01), metavar="N", help="Duration.  [default: verify 2, fit 10]"),
    click.option("--probes", type=click.IntRange(1), metavar="N", help="Number of probes (fit: for each field)."),
    seed_option,
    quiet_option,
)


def _twin_and_request(values: dict[str, Any], minutes: float | None) -> tuple[Any, Any, Any]:
    """The result, its twin, or the one of a file, and what to measure."""
    from setebench.truth.verify.check import Request

    document, file = store.load(values["result"]), values["file"]
    twin = make_twin(document) if file is None else twin_of_file(loader.read_file(str(file)), str(file))
    how = {name: values[name] for name in ("machine", "cpu", "seed")}
    return document, twin, Request(minutes=values["minutes"] or minutes, trials=values["probes"], **how)


@click.command("verify")
@twin_options
@click.option("--exit-code", is_flag=True, help="Exit with status 3 where the twin is contradicted.")
@output_options
def verify_command(**values: Any) -> None:
    """Compare the twin of the result file RESULT with the machine, on random probes.

    Each probe runs three times on the machine and once on the twin. How far the machine agrees with itself limits how
    far a twin can agree with it.

    Exit status: 0 checked, 1 it could not be run, 2 bad use; with --exit-code 3 where the twin is contradicted.
    """
    from setebench.truth.verify.check import verify
    from setebench.truth.verify.document import as_document

    target = Output.choose(values)
    document, twin, request = _twin_and_request(values, None if values["probes"] else 2.0)
    with Progress(values["quiet"]) as progress:
        checked = verify(twin, request, progress)
    made = as_document(checked, document, references.of_the_system(document.machine.environment))
    target.deliver(made)
    if target.path is None and target.form == "table":
        form = "#{number} {family}: {machine}, twin {twin}: {probe}"
        lines = [form.format(**each) for each in made.evidence["verify"]["worst"]]
        click.echo("\n".join(["", *lines]))
    if values["exit_code"] and checked.contradicted:
        raise click.exceptions.Exit(DIFFERS)


@click.command("fit", epilog="Check it with 'setebench verify RESULT --twin FILE', which uses other probes.")
@twin_options
@file_options
def fit_command(**values: Any) -> None:
    """Make a machine file of the result file RESULT that predicts the machine better than what was found alone.

    Fields that random probes contradict get another value, one at a time, if it predicts the machine better on new
    probes. The result file is not changed; the machine file says which fields were fitted and why.

    Exit status: 0 written, 1 it could not be run, 2 bad use.
    """
    from setebench.truth.fit import fit

    output = _machine_file(values)
    _, twin, request = _twin_and_request(values, 10.0)
    with Progress(values["quiet"]) as progress:
        better = fit(twin, request, progress)
        progress.result(f"{sum(each.origin == 'fitted' for each in better.origins.values())} fields fitted")
    output.write(as_toml(better))
