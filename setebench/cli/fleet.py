"""`setebench fleet`: many nodes that ought to be equal; which is odd, and in which parameter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from setebench import registry, store
from setebench.cli.options import file_options
from setebench.cli.output import file_or_none, print_for_people, print_text
from setebench.cli.progress import Progress
from setebench.errors import UsageError
from setebench.fleet.comparison import compare
from setebench.report.fleet import FORMS, render
from setebench.score.noise import NOISES

if TYPE_CHECKING:
    from setebench.score.fleet import Recording

STANDS_OUT = 3
"""Exit status with --exit-code where a node stands out; 1 and 2 mean that there was no comparison."""

_FORM_OF_EXTENSION = {".json": "json", ".csv": "csv", ".html": "html", ".htm": "html"}
_SAID_EVERY = 500
"""Files after which progress is said again."""


@click.group(no_args_is_help=True)
def fleet() -> None:
    """Many nodes that ought to be equal: measure them, and find the odd ones."""


@fleet.command("compare")
@click.argument("results", metavar="DIR|FILE...", nargs=-1, required=True)
@click.option("--baseline", metavar="DIR|FILE", multiple=True, help="Earlier results of these nodes: what has changed?")
@click.option("--exit-code", is_flag=True, help="Exit with status 3 if a node stands out.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Form.  [default: table, or by FILE's extension]")
@file_options
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def compare_command(results: tuple[str, ...], baseline: tuple[str, ...], **values: Any) -> None:
    """Which of many nodes stand out, in which parameters, and what is usual.

    Results are files of `setebench characterize -o` or any scenario, several for a node where they are there: n7.json,
    n7.run-2.json and n7/run-3.json are all of n7, unless a file says its node itself.

    Exit status: 0 compared, 2 nothing to compare or a file that can't be written; with --exit-code 3 where a node
    stands out by a test that, with equal nodes, gives any false alarm in one comparison of twenty at most.
    """
    output, chosen = file_or_none(values["output"]), values["form"] or "table"
    if output is not None:
        store.check_target(output, values["force"])
        chosen = values["form"] or _FORM_OF_EXTENSION.get(output.suffix.lower(), "table")
    progress = Progress(quiet=values["quiet"])

    def heard(done: int, files: int) -> None:
        if done % _SAID_EVERY == 0:
            progress(f"{done:,} of {files:,} files read")

    found = compare(results, baseline, heard)
    progress.close()
    if output is not None:
        store.write(output, render(found, chosen).encode(), values["force"])
    elif chosen == "table":
        print_for_people(lambda **_look: render(found, "table"))
    else:
        print_text(render(found, chosen).encode())
    if values["exit_code"] and found.alarms:
        raise click.exceptions.Exit(STANDS_OUT)


@fleet.command()
@click.option("--nodes", required=True, type=click.IntRange(1, 100_000), help="Nodes in all.")
@click.option("--odd", default=0, show_default=True, type=click.IntRange(0), help="Odd ones among them.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Which nodes, and which runs.")
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
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="What is asked.  [default: latency]")
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
    help="Run none: draw from the runs in FILE, the recorded.json of another fleet.",
)
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path), help="To here."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
def simulate(**values: Any) -> None:
    """Make a fleet of simulated nodes whose odd ones are known: to try `fleet compare` on.

    A few machines are run; each node's runs are drawn from theirs. DIR gets a result file a run, truth.json (which
    nodes are odd, and how) and recorded.json (the runs, for --recorded).
    """
    from setebench.score import fleet as made

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


def _record(values: dict[str, Any], progress: Progress) -> Recording:
    from setebench.score import fleet as made

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
