"""`setebench fleet run`: measure many nodes, on a Dask cluster that is there or one that is started."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from setebench import registry
from setebench.campaign import NAME
from setebench.cli.options import folder_option
from setebench.cli.progress import Progress
from setebench.errors import INTERRUPTED, SetebenchError, UsageError
from setebench.fleet import engine, launch
from setebench.fleet.plan import Folder, Plan

_SECONDS = {"": 1, "s": 1, "min": 60, "h": 3600}


def duration(text: str) -> float:
    """Seconds as people write them: 90, 90s, 5min, 2h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h)?", text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no duration; write 90s, 5min or 2h")
    return float(found[1]) * _SECONDS[found[2] or ""]


@click.command()
@click.option("--on", "address", metavar="ADDRESS", help="The nodes are the hosts of this Dask cluster's workers.")
@click.option(
    "--slurm",
    is_flag=False,
    flag_value="",
    metavar="[PARTITION]",
    help="The nodes of a Slurm partition, one job for each.",
)
@click.option("--hosts", metavar="FILE", type=click.Path(path_type=Path), help="Hosts to reach by ssh, one a line.")
@folder_option
@click.option(
    "--scenario", "scenarios", multiple=True, metavar="NAME", help="Scenario to run (may be repeated).  [default: all]"
)
@click.option(
    "--machine", default="native", show_default=True, metavar="NAME", help="Machine on each node; may contain {node}."
)
@click.option(
    "--runs", default=1, show_default=True, type=click.IntRange(1, 1000), help="Runs of each scenario on a node."
)
@click.option("--every", type=duration, default="0s", help="Time between the starts of runs: 30min, 6h.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the first run.")
@click.option("--fast", is_flag=True, help="Take fewer samples.")
@click.option(
    "--limit", type=duration, default="1h", show_default=True, help="Time limit for one scenario on one node."
)
@click.option("--at-once", type=click.IntRange(1), help="Number of nodes that measure at a time.  [default: all]")
@click.option("--wait", type=duration, default="10min", show_default=True, help="How long to wait for workers.")
@click.option(
    "--workers-are-nodes", is_flag=True, help="With --on: each worker is a node, by its name, instead of each host."
)
@click.option("--scheduler-host", metavar="HOST", help="Name of this computer for the nodes.  [default: its name]")
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def run(**values: Any) -> None:
    """Measure many nodes, with one worker on each.

    Results are written to DIR as they come, one file for each node, scenario and run, for `fleet compare DIR`. The same
    command continues with what is missing. A node that is slow, dead or gives invalid answers doesn't stop the others.

    Exit status: 0 all answered, 1 some answers are missing, 2 bad use, 130 interrupted.
    """
    if sum(values[name] is not None for name in ("address", "slurm", "hosts")) != 1:
        raise UsageError("name one place: --on ADDRESS, --slurm [PARTITION] or --hosts FILE")
    progress = Progress(quiet=values["quiet"])

    def problem(line: str) -> None:  # with --quiet too
        progress.close()
        click.echo(line, err=True)

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said here, in a line each
    try:
        tally = _measured(values, engine.Listener(progress=progress, problem=problem))
    except KeyboardInterrupt:
        progress.close()
        click.echo(f"\nInterrupted; the same command goes on with what is missing in {values['folder']}.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        progress.close()
    cost = tally.engine_cpu_seconds / tally.seconds if tally.seconds else 0.0
    progress.result(
        f"{tally.kept} answers of {len(tally.nodes)} nodes; beside measurements of {tally.seconds:.0f} s the engine "
        f"took {cost:.1%} of a CPU on their nodes"
    )
    if tally.failed:
        raise SetebenchError(f"{tally.failed} answers are missing; the same command asks for them again")


def _measured(values: dict[str, Any], listener: engine.Listener) -> engine.Tally:
    scenarios = tuple(name if name == NAME else registry.command_name(name) for name in values["scenarios"])
    for name in scenarios:
        if name != NAME:
            registry.scenario(name)
    asked = {name: values[name] for name in ("machine", "runs", "seed", "fast")}
    plan = Plan(scenarios=scenarios or (NAME,), **asked)
    with _place(values) as (address, expected):
        manner = engine.Manner(
            by_worker=values["workers_are_nodes"],
            limit_seconds=values["limit"],
            at_once=values["at_once"],
            every_seconds=values["every"],
            expected=expected,
            wait_seconds=values["wait"],
        )
        return asyncio.run(engine.carry_out(address, Folder.open(values["folder"], plan), manner, listener))


@contextmanager
def _place(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, launch.Started]]]:
    """The scheduler's address, and the nodes whose workers are still to come."""
    if values["address"] is not None:
        yield values["address"], {}
        return
    nodes = launch.by_ssh(values["hosts"]) if values["hosts"] else launch.by_slurm(values["slurm"])
    if not nodes.names:
        raise UsageError("there are no nodes that are up")
    with launch.cluster(nodes, values["scheduler_host"]) as place:
        yield place
