"""`setebench counters`: what can be counted, by which events, in which programs, and counting those of a program."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import click

from setebench import registry
from setebench.cli.options import Number, forms_options, program_options
from setebench.cli.output import Output, print_text
from setebench.counters import verdicts
from setebench.counters.counted import Counted
from setebench.errors import UsageError
from setebench.report.counted import render
from setebench.report.text import in_columns
from setebench.results import Document
from setebench.text import KILO


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the events of PMUs that the kernel names.")
def list_roles(everything: bool) -> None:
    """List what can be counted here. Each role has its meaning, unit and event, or why it can't be.

    Nothing is counted. That an event can be counted doesn't say that it counts what its role says.
    """
    from setebench.native.perf.encode import Resolver

    offers = list(Resolver().offers(everything))
    reasons = list(dict.fromkeys(each.reason for each, _ in offers if each.reason))  # below, as most roles share one
    numbers = {reason: f"[{number}]" for number, reason in enumerate(reasons, 1)}
    cells = [(each.name, each.unit, numbers.get(each.reason) or each.event, meaning) for each, meaning in offers]
    below = "".join(f"\n{number} not here: {reason}" for reason, number in numbers.items())
    print_text(f"{in_columns(cells, ('name', 'unit', 'event', 'meaning'))}\n{below}\n")


@click.command()
@click.option("--dir", "folder", is_flag=True, help="Print the folder instead, for the compiler's -I.")
def header(folder: bool) -> None:
    """Print the path of setebench.h. It marks regions of C and C++ programs; there is nothing to link.

    cc -I"$(setebench counters header --dir)" program.c
    """
    place = files("setebench") / "include"
    print_text(f"{place if folder else place / 'setebench.h'}\n")


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


SCENARIOS = {"peaks": "counter-peaks", "validate": "counters"}


class _Counters(click.Group):
    """Imports what scenarios need for them alone: threads of linear algebra would take signals that are meant for a
    program that is counted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *SCENARIOS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SCENARIOS:
            return super().get_command(ctx, cmd_name)
        from setebench.cli.run import scenario_command

        after = _store if cmd_name == "validate" else None
        return scenario_command(cmd_name, registry.scenario(SCENARIOS[cmd_name]), after)


@click.group(cls=_Counters, no_args_is_help=True)
def counters() -> None:
    """Check the CPU's event counters on this machine, and count events of programs.

    Events are roles ('setebench counters list'), or have the kernel's form: cpu/event=0x48,umask=1/.
    """


def _store(document: Document, _values: dict[str, Any]) -> None:
    """Store the verdicts of this CPU; those on other machines are in their result files."""
    if document.machine.kind == "native":
        click.echo(f"stored the verdicts in {verdicts.save(document)}", err=True)


for command in (header, list_roles, stat):
    counters.add_command(command)
