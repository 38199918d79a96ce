"""`setebench diagnose`: what limits a program."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from setebench import store
from setebench.cli.options import PATH, no_wait_option, output_options, program_options
from setebench.cli.output import Output
from setebench.errors import UsageError
from setebench.results import Document

if TYPE_CHECKING:
    from setebench.counters.counted import Run


@click.command(context_settings={"allow_interspersed_args": False})
@program_options
@click.option(
    "--machine",
    metavar="NAME",
    default="native",
    help="Diagnose a built-in demonstration on this machine, instead of a program.",
)
@click.option("--probe-latency", is_flag=True, help="Probe memory latency from an idle core; refused where none is.")
@no_wait_option
@click.option("--calibration", metavar="RESULT", type=PATH, help="A result of `counter-curves` on this machine.")
@click.option(
    "--verdicts", metavar="FILE", type=PATH, help="A result of `counters validate`, instead of the stored verdicts."
)
@click.option("--plot", metavar="FILE", type=PATH, help="Draw the timeline into FILE (.png, .svg or .pdf).")
@output_options
@click.pass_context
def diagnose(ctx: click.Context, /, **values: Any) -> None:
    """Run PROGRAM and say what limits it: its cycles by cause, latencies, traffic, time by function, what to try.

    PROGRAM has this command's standard input, output and error; the report goes to standard error after it has ended,
    or to FILE. Figures that need a PMU with trusted events are reported as unavailable or unresolved without one.

    Exit status: 0 whatever PROGRAM returned (but see --child-status), 1 it could not be run, 2 bad use, 130
    interrupted.
    """
    target = Output.choose(values)
    _check(values)
    if values["machine"] == "native":
        document, run = _diagnosed(values, ctx)
        status = run.shell_status(values["child_status"])
    else:
        document, status = _demonstrated(values), 0
    # only now: threads of linear algebra would take signals that are meant for the program
    from setebench.cli.run import draw
    from setebench.report.diagnosed import report
    from setebench.report.plots.timeline import timeline_figure
    from setebench.report.table import render

    text = report(document) if target.form == "table" else render(document, target.form)
    target.deliver_beside(text)
    if values["plot"] is not None:
        draw(timeline_figure, document, values["plot"], values["force"])
    ctx.exit(status)


def _check(values: dict[str, Any]) -> None:
    """Raises `UsageError` for options that contradict each other, or files that couldn't be written later."""
    from setebench.report.plots import plot

    if bool(values["command"]) == (values["machine"] != "native"):
        raise UsageError("name a program to run, or --machine sim:NAME for its demonstration, not both")
    if values["plot"] is not None:
        plot.check_extension(values["plot"])
        store.check_target(values["plot"], values["force"])


def _demonstrated(values: dict[str, Any]) -> Document:
    """Diagnose the demonstration: by the verdicts that are named, or else by counts as they are, as none are stored for
    other machines."""
    from setebench.counters.verdicts import stored
    from setebench.diagnose.demonstration import demonstrate
    from setebench.diagnose.document import diagnosed
    from setebench.diagnose.figures import Basis, measured_on
    from setebench.machine import open_machine
    from setebench.session import machine_record

    started, name, file = datetime.now(UTC), values["machine"], values["verdicts"]
    with closing(open_machine(name)) as machine:
        facts = machine.facts
        verdicts = None if file is None else stored(machine_record(facts), file)
        limit = measured_on(facts.name, values["calibration"])
        settings = {"machine": name, "verdicts": None if file is None else str(file)}
        basis = Basis(saturation_cycles=limit, verdicts=verdicts, line_bytes=facts.line_size)
        return diagnosed(demonstrate(machine), basis, machine_record(facts), settings, started)


def _diagnosed(values: dict[str, Any], ctx: click.Context) -> tuple[Document, Run]:
    from setebench.counters.verdicts import stored
    from setebench.diagnose.figures import Basis, measured_on
    from setebench.diagnose.run import diagnose_program, this_machine
    from setebench.native.perf.program.run import NotStarted

    machine = this_machine()
    limit = measured_on(machine.name, values["calibration"])
    # before the program runs: verdicts may have expired
    basis = Basis(verdicts=stored(machine, values["verdicts"]), saturation_cycles=limit)
    try:
        return diagnose_program(tuple(values["command"]), basis, values["duration"], values["probe_latency"])
    except NotStarted as error:
        if not values["child_status"]:
            raise
        click.echo(f"Error: {error}", err=True)
        ctx.exit(error.status)
