"""`setebench repeat`: the same question again and again, and how often the answers contradict each other.

Each run is a process of its own: it gets other pages of memory, and one that dies costs no other.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from setebench import campaign, store
from setebench.campaign import series
from setebench.cli.fleet import checked_scenario
from setebench.cli.options import PATH, file_options, form_option, machine_options, no_wait_option, quiet_option
from setebench.cli.output import Output
from setebench.cli.progress import Progress
from setebench.errors import SetebenchError
from setebench.report.accuracy import repeated

HERE = "here"
"""What the only node is called."""


@click.command()
@click.option("-n", "runs", type=click.IntRange(min=2), metavar="RUNS", default=10, help="Number of runs.")
@click.option("--scenario", metavar="NAME", default=campaign.NAME, help="Or one scenario.")
@machine_options
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=PATH,
    default="setebench-repeat",
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
    from setebench.fleet.plan import Folder, Plan
    from setebench.fleet.run import Place, Run, perform

    target = Output.choose(values)
    name = checked_scenario(values["scenario"])
    own = {key: values[key] for key in ("machine", "cpu", "seed", "fast", "runs")}
    folder = Folder(values["folder"], Plan(scenarios=(name,), **own))
    place = Place(nodes=(HERE,), perform=lambda _node, command, seconds: perform(command, seconds))
    with Progress(quiet=values["quiet"]) as progress:
        problem = partial(progress.result, always=True)
        with progress.interruptible(lambda: f"the same command goes on in {values['folder']}."):
            done = Run(place=place, folder=folder, progress=progress, problem=problem).carry_out()
    if not all(done):
        raise SetebenchError(f"{done.count(False)} runs are missing; the same command goes on in {values['folder']}")
    settings = {key: own[key] for key in ("machine", "cpu", "seed", "fast")}
    made = series.document(name, settings, [folder.file(job) for job in folder.jobs(HERE)])
    target.write(store.pretty(made) if values["form"] == "json" else repeated.render(made))
