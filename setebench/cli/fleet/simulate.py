"""`setebench fleet simulate`: fleets of simulated nodes whose odd ones are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from setebench import registry
from setebench.cli.options import folder_option
from setebench.cli.progress import Progress
from setebench.errors import UsageError
from setebench.score import NOISES
from setebench.score import fleet as made


@click.command()
@click.option("--nodes", required=True, type=click.IntRange(1, 100_000), help="Number of nodes.")
@click.option("--odd", default=0, show_default=True, type=click.IntRange(0), help="Number of odd ones among them.")
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the choice of nodes and runs."
)
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50), help="Runs of each node.")
@click.option(
    "--degrade",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0, 1000, min_open=True),
    help="By how many percent odd ones are worse.",
)
@click.option("--machine", default="plain", show_default=True, metavar="NAME", help="Simulated machine.")
@click.option("--noise", type=click.Choice(NOISES), default="guest", show_default=True, help="How noisy it is.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="NAME",
    help="Scenario to run (may be repeated).  [default: latency]",
)
@click.option("--fast/--thorough", default=True, show_default=True, help="How many samples scenarios take.")
@click.option(
    "--machines",
    default=12,
    show_default=True,
    type=click.IntRange(1, 50),
    help="Simulated machines that are run; nodes are drawn from their runs.",
)
@click.option(
    "--recorded",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw from the runs in FILE, the recorded.json of another fleet, instead of running machines.",
)
@folder_option
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def simulate(**values: Any) -> None:
    """Make a fleet of simulated nodes with known odd ones, to try `fleet compare` on.

    A few machines are run, and the runs of all nodes are drawn from theirs. DIR gets one result file for each run,
    truth.json (which nodes are odd, and how) and recorded.json (the runs, for --recorded).
    """
    progress = Progress(quiet=values["quiet"])
    given: Path | None = values["recorded"]
    recording = made.read_recording(given) if given is not None else _record(values, progress)
    plan = made.Plan(
        nodes=values["nodes"],
        odd=values["odd"],
        seed=values["seed"],
        runs=values["runs"],
        degrade=values["degrade"] / 100,
    )
    found = made.write(values["folder"], recording, plan)
    progress.result(f"wrote {plan.nodes} nodes to {values['folder']}; {len(found)} of them odd, see {made.TRUTH} there")


def _record(values: dict[str, Any], progress: Progress) -> made.Recording:
    asked = tuple(registry.command_name(name) for name in values["scenarios"]) or ("latency",)
    for name in asked:
        registry.scenario(name)
    count = values["machines"]
    if values["runs"] > count:
        raise UsageError(f"{values['runs']} runs a node need at least so many --machines")
    wanted = made.Wanted(
        machine=values["machine"].removeprefix("sim:"),
        noise=values["noise"],
        scenarios=asked,
        fast=values["fast"],
        seed=values["seed"],
        count=count,
    )
    return made.record(wanted, lambda done: progress(f"{done} of {count} simulated machines run"))
