"""`setebench fleet`: measure many nodes, find those that stand out, and make fleets whose odd nodes are known; and
`setebench repeat`: the same question again and again here, each run in a process of its own, which gets other pages of
memory, and costs no other if it dies."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from setebench import campaign, registry, store
from setebench.campaign import NAME, series
from setebench.cli.options import (
    PATH,
    Number,
    fast_option,
    file_options,
    folder_option,
    form_option,
    forms_options,
    machine_options,
    no_wait_option,
    quiet_option,
    seed_option,
)
from setebench.cli.output import Output, Progress
from setebench.errors import DIFFERS, SetebenchError, UsageError
from setebench.fleet.reading import Folder, Plan
from setebench.fleet.run import Place, Run, by_dask, by_slurm, by_ssh, perform
from setebench.report.accuracy import repeated
from setebench.report.fleet import FORMS

MACHINES = 12
"""Simulated machines that are run, from whose runs those of all nodes are drawn."""


def checked_scenario(name: str) -> str:
    """The name of a scenario, or `characterize`. Raises `UsageError` for one that there is not."""
    if name != NAME:
        registry.scenario(name)
    return registry.command_name(name)


@click.group(no_args_is_help=True)
def fleet() -> None:
    """Many nodes that ought to be equal: measure them, and find the odd ones.

    'simulate' makes fleets to try it on.
    """


@fleet.command("compare")
@click.argument("results", metavar="DIR|FILE...", nargs=-1, required=True)
@click.option("--exit-code", is_flag=True, help="Exit with status 3 if a node stands out.")
@forms_options(FORMS)
@quiet_option
def compare_nodes(results: tuple[str, ...], **values: Any) -> None:
    """Find the nodes that stand out, and in which parameters.

    Results are files of `setebench characterize -o` or any scenario, one or several for a node: n7.json, n7.run-2.json
    and n7/run-3.json all belong to n7, unless a file names its node.

    Exit status: 0 compared, 2 nothing to compare or a file that can't be written; with --exit-code 3 where a node
    stands out by a test that gives a false alarm in at most one of twenty comparisons of equal nodes.
    """
    from setebench.fleet.comparison import compare

    target = Output.choose(values, FORMS)
    with Progress(values["quiet"]) as progress:
        found = compare(results, progress)
    target.write(FORMS[target.form](found))
    if values["exit_code"] and found.alarms:
        raise click.exceptions.Exit(DIFFERS)


@fleet.command()
@click.option("--on", "address", metavar="ADDRESS", help="The nodes are the hosts of this Dask cluster's workers.")
@click.option(
    "--slurm",
    is_flag=False,
    flag_value="",
    metavar="[PARTITION]",
    help="The nodes of a Slurm partition, one job for each measurement.",
)
@click.option("--hosts", metavar="FILE", type=PATH, help="Hosts to reach by ssh, one a line.")
@folder_option
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Scenario to run (may be repeated).")
@click.option("--machine", default="native", metavar="NAME", help="Machine on each node; may contain {node}.")
@click.option("--runs", default=1, type=click.IntRange(1, 1000), help="Runs of each scenario on a node.")
@seed_option
@fast_option
@click.option(
    "--limit",
    type=Number(min=0, min_open=True),
    default=3600,
    metavar="SECONDS",
    help="Time limit for one scenario on one node.",
)
@click.option("--at-once", type=click.IntRange(1), help="Number of nodes that measure at a time.  [default: all]")
@click.option(
    "--workers-are-nodes", is_flag=True, help="With --on: each worker is a node, by its name, instead of each host."
)
@quiet_option
def run(**values: Any) -> None:
    """Measure many nodes, one thing at a time on each.

    Results are written to DIR as they come, one file for each node, scenario and run, for `fleet compare DIR`. The same
    command continues with what is missing. A node that is slow, dead or gives invalid answers doesn't stop the others.

    Exit status: 0 all answered, 1 some answers are missing, 2 bad use, 130 interrupted.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is printed here, in a line each
    own = {name: values[name] for name in ("machine", "runs", "seed", "fast")}
    plan = Plan(scenarios=tuple(map(checked_scenario, values["scenarios"])) or (NAME,), **own)
    going_on = f"the same command goes on with what is missing in {values['folder']}."
    with Progress(values["quiet"], lambda: going_on) as progress, _place(values, progress.problem) as place:
        if not place.nodes:
            raise UsageError("there are no nodes that are up")
        folder = Folder(values["folder"], plan)
        limits = {"limit_seconds": values["limit"], "at_once": values["at_once"] or len(place.nodes)}
        complete = Run(place=place, folder=folder, progress=progress, problem=progress.problem, **limits).carry_out()
        progress.result(f"{sum(complete)} answers of {len(place.nodes)} nodes")
    if not all(complete):
        raise SetebenchError(f"{complete.count(False)} answers are missing; the same command measures them again")


def _place(values: dict[str, Any], problem: Any) -> AbstractContextManager[Place]:
    if sum(values[name] is not None for name in ("address", "slurm", "hosts")) != 1:
        raise UsageError("name one place: --on ADDRESS, --slurm [PARTITION] or --hosts FILE")
    if values["address"] is not None:
        return by_dask(values["address"], values["workers_are_nodes"], problem)
    return nullcontext(by_ssh(values["hosts"]) if values["hosts"] else by_slurm(values["slurm"]))


@fleet.command()
@click.option("--nodes", required=True, type=click.IntRange(1, 100_000), help="Number of nodes.")
@click.option("--odd", default=0, type=click.IntRange(0), help="Number of odd ones among them.")
@seed_option
@click.option("--runs", default=3, type=click.IntRange(1, MACHINES), help="Runs of each node.")
@click.option(
    "--recorded",
    metavar="FILE",
    type=PATH,
    help="Draw from the runs in FILE, the recorded.json of another fleet, instead of running machines.",
)
@folder_option
@quiet_option
def simulate(**values: Any) -> None:
    """Make a fleet of simulated nodes, some of them 10 % slower at a level, to try `fleet compare` on.

    A few machines are run, and the runs of all nodes are drawn from theirs. DIR gets one result file for each run,
    truth.json (which nodes are odd, and how) and recorded.json (the runs, for --recorded).
    """
    from setebench.score import Task
    from setebench.score import fleet as made

    progress = Progress(values["quiet"])
    plan = made.Plan(**{name: values[name] for name in ("nodes", "odd", "seed", "runs")})
    if plan.odd > plan.nodes:  # before machines are run for minutes
        raise UsageError(f"{plan.odd} odd ones of {plan.nodes} nodes are too many")
    if values["recorded"] is not None:
        recording = store.load_as(values["recorded"], made.Recording)
    else:
        task = Task(machine="plain", noise="guest", scenarios=("latency",), fast=True, seed=values["seed"])
        recording = made.record(task, MACHINES, lambda done: progress(f"{done} of {MACHINES} simulated machines run"))
    found = made.write(values["folder"], recording, plan)
    progress.result(f"wrote {plan.nodes} nodes to {values['folder']}; {len(found)} of them odd, see {made.TRUTH} there")


# -- the same question again and again --------------------------------------------------------------------------------


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
    target = Output.choose(values)
    name = checked_scenario(values["scenario"])
    own = {key: values[key] for key in ("machine", "cpu", "seed", "fast", "runs")}
    folder = Folder(values["folder"], Plan(scenarios=(name,), **own))
    place = Place(nodes=(HERE,), perform=lambda _node, command, seconds: perform(command, seconds))
    going_on = f"the same command goes on in {values['folder']}"
    with Progress(values["quiet"], lambda: f"{going_on}.") as progress:
        done = Run(place=place, folder=folder, progress=progress, problem=progress.problem).carry_out()
    if not all(done):
        raise SetebenchError(f"{done.count(False)} runs are missing; {going_on}")
    settings = {key: own[key] for key in ("machine", "cpu", "seed", "fast")}
    made = series.document(name, settings, [folder.file(job) for job in folder.jobs(HERE)])
    target.write(store.pretty(made) if values["form"] == "json" else repeated.render(made))
