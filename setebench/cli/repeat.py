"""`setebench repeat`: the same question again and again, and how often the answers contradict each other.

Each run is a process of its own: it gets other pages of memory, and one that dies costs no other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import campaign, registry
from setebench.campaign.series import Series, SeriesPlan
from setebench.cli.options import (
    PATH,
    file_options,
    form_option,
    is_given,
    machine_options,
    no_wait_option,
    quiet_option,
)
from setebench.cli.output import target_of, terminal_width
from setebench.errors import INTERRUPTED, SetebenchError, UsageError
from setebench.report.accuracy import repeated


@click.command()
@click.option(
    "-n", "runs", type=click.IntRange(min=2), metavar="RUNS", default=10, show_default=True, help="Number of runs."
)
@click.option("--scenario", metavar="NAME", default=campaign.NAME, show_default=True, help="One scenario, or all.")
@machine_options
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=PATH,
    default="setebench-repeat",
    show_default=True,
    help="Keep every run in DIR; a stopped series continues there.",
)
@form_option
@quiet_option
@file_options
@no_wait_option
def repeat(**values: Any) -> None:
    """Repeat a scenario, and report how often it is answered and how often two answers contradict.

    Each run has its own seed, counted from --seed on, and is kept in DIR. The same command continues where it was
    stopped; with a larger -n it adds runs.
    """
    write = target_of(values["output"], values["force"])
    series = Series(values["folder"], _plan(values["folder"], values))
    go_on = f"go on with: {_way_on(series.plan, values)}"
    try:
        for run in range(1, values["runs"] + 1):
            if not series.is_done(run):
                _run(series, run, values, go_on)
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted; {go_on}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    made = series.document(values["runs"])
    if values["form"] == "json":
        text = msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"
    else:
        text = repeated.render(made, terminal_width())
    write(text.encode())


def _plan(folder: Path, values: dict[str, Any]) -> SeriesPlan:
    """What the folder's plan says where it has one, changed by what was given: a difference is refused later."""
    given = {name: values[name] for name in ("scenario", "machine", "cpu", "seed", "fast") if is_given(name)}
    earlier = SeriesPlan.of(folder)
    if earlier is not None and campaign.runs_code(earlier.machine) and "machine" not in given:
        raise UsageError(
            f"{str(folder)!r} was begun on {earlier.machine!r}, which is code to be run; where you trust it, name it: "
            f"add --machine {earlier.machine}"
        )
    plan = msgspec.structs.replace(earlier or SeriesPlan(), **given)
    if plan.scenario != campaign.NAME:
        plan = msgspec.structs.replace(plan, scenario=registry.command_name(plan.scenario))
        registry.scenario(plan.scenario)
    return plan


def _way_on(plan: SeriesPlan, values: dict[str, Any]) -> str:
    machine = f" --machine {plan.machine}" if campaign.runs_code(plan.machine) else ""
    return f"setebench repeat -n {values['runs']} --dir {values['folder']}{machine}"


# -- one run --------------------------------------------------------------------------------------------------------


def _run(series: Series, run: int, values: dict[str, Any], go_on: str) -> None:
    """Raises `SetebenchError` where it couldn't be carried out."""
    if not values["quiet"]:
        click.echo(f"run {run} of {values['runs']}", err=True)
    status = _performed([*_command(series, run), *(["-q"] if values["quiet"] else [])])
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if not series.is_done(run):
        raise SetebenchError(f"run {run} ended with exit status {status}; {go_on}")


def _performed(arguments: list[str]) -> int:
    """Run setebench in a process of its own and return its exit status. Ctrl-C reaches it at the terminal too, so it is
    waited for."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
    command = [sys.executable, "-m", "setebench", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        return process.wait()


def _command(series: Series, run: int) -> list[str]:
    """Arguments of setebench for a run, or for the rest of one of all scenarios that was stopped."""
    plan, file = series.plan, str(series.file(run))
    machine = ["--machine", plan.machine]
    if plan.scenario == campaign.NAME and series.file(run).exists():
        return [campaign.NAME, "--resume", file, *(machine if campaign.runs_code(plan.machine) else [])]
    settings = [*machine, "--seed", str(plan.seed + run - 1), *(["--fast"] if plan.fast else [])]
    settings += ["--cpu", str(plan.cpu)] if plan.cpu is not None else []
    settings += [] if plan.scenario == campaign.NAME else ["--format", "json", "--raw"]
    return [plan.scenario, "-o", file, *settings]
