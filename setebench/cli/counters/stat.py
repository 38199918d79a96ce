"""`setebench counters stat`: run a program and count its events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from setebench.cli.options import Number, forms_options, program_options
from setebench.cli.output import Output
from setebench.counters.counted import Counted
from setebench.errors import UsageError
from setebench.report.counted import render
from setebench.text import KILO

FORMS = ("table", "json")
USUAL = "task_clock,page_fault,context_switch,cpu_migration"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-e",
    "--event",
    "events",
    metavar="NAMES",
    multiple=True,
    help=f"Roles or events, with commas between; may be repeated.  [default: {USUAL}]",
)
@click.option("--interval", type=Number(min=1), metavar="MS", help="Also count in intervals of MS milliseconds.")
@program_options
@forms_options(FORMS)
@click.pass_context
def stat(ctx: click.Context, /, **options: Any) -> None:
    """Run PROGRAM and count its events. Those of all threads and processes that it starts are among them.

    PROGRAM has this command's standard input, output and error; the counts go to standard error after it has ended, or
    to FILE. Regions that it marks (docs/counters.md) are counted apart. Ctrl-C ends PROGRAM, and its counts are shown.

    Exit status: 0 it was counted, whatever PROGRAM returned (but see --child-status), 1 it could not be, 2 bad use, 130
    interrupted.
    """
    if not options["command"]:
        raise UsageError("name a program to run")
    target = Output.choose(options, FORMS)
    counted = _counted(options, ctx)
    target.deliver_beside(render(counted, target.form))
    ctx.exit(counted.run.shell_status(options["child_status"]))


def _counted(options: dict[str, Any], ctx: click.Context) -> Counted:
    """Count the run."""
    from setebench.native.perf.encode import Resolver, split_names
    from setebench.native.perf.program.run import Job, NotStarted, run_program

    resolver, command = Resolver(), tuple(options["command"])
    job = Job(
        wanted=resolver.named([name for text in options["events"] or (USUAL,) for name in split_names(text)]),
        interval=None if options["interval"] is None else options["interval"] / KILO,
        limit=options["duration"],
    )
    started = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        run, events = run_program(resolver.situation, job, command)
    except NotStarted as error:
        if not options["child_status"]:
            raise
        click.echo(f"Error: {error}", err=True)
        ctx.exit(error.status)
    return Counted(command=list(command), started=started, events=events, run=run)
