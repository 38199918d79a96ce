"""`setebench characterize`: every scenario on one machine, one table of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import campaign, references, session, store
from setebench.campaign import Listener, Plan
from setebench.cli.documents import chosen_references, html_report
from setebench.cli.options import (
    PATH,
    force_option,
    is_given,
    machine_options,
    no_wait_option,
    quiet_option,
    register_options,
)
from setebench.cli.output import STANDARD_OUTPUT, Output, Progress
from setebench.cli.run import warn_of_kinds
from setebench.errors import SetebenchError, UsageError, need
from setebench.recording import without_recordings
from setebench.report.table import FORMS
from setebench.results import Document

Values = dict[str, Any]
MINUTES = 0.5
"""Of the comparison at the end."""


@click.command()
@machine_options
@register_options
@click.option("--only", metavar="SCENARIO", multiple=True, help="Run this one (may be given several times).")
@click.option("--skip", metavar="SCENARIO", multiple=True, help="Leave this one out (may be given several times).")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=PATH,
    help="Save the results (JSON) to FILE, after each scenario. The table is printed too.",
)
@click.option("--resume", metavar="FILE", type=PATH, help="Continue the interrupted run in FILE, with its settings.")
@click.option("--no-raw", is_flag=True, help="Don't record the machine's answers in FILE (see setebench infer).")
@click.option("--verify", is_flag=True, help="At the end compare the twin of the results with the machine, for 30 s.")
@click.option("--report", metavar="FILE", type=PATH, help="Write the HTML report to FILE too.")
@click.option("--format", "form", type=click.Choice(FORMS), default="table", help="Form on standard output.")
@force_option
@quiet_option
@no_wait_option
def characterize(**values: Any) -> None:
    """Run every scenario on one machine and print one table of everything.

    Later scenarios use what earlier ones found (the clock, the levels). A scenario that fails loses only its own rows.
    With -o the results are saved after each scenario, and --resume continues from there.

    Exit status: 0 at least one scenario answered, 1 none could be run, 2 bad use, 130 interrupted.
    """
    resume, report, saved = values["resume"], values["report"], values["output"] or values["resume"]
    earlier = store.load(resume) if resume else None
    own = {name: values[name] for name in ("machine", "seed", "cpu", "fast", "msr")}
    if earlier:
        plan = _resumed(resume, earlier)
    else:
        plan = Plan(scenarios=campaign.choose(values["only"], values["skip"]), **own)
    _check_targets(saved, report, values)
    with Progress(values["quiet"], lambda: _way_on(plan, saved)) as progress:
        document = _measured(plan, earlier, saved, values, progress)
        if values["verify"]:
            document = _verified(document, plan, progress)
        if saved is not None:
            store.save(document, saved, force=True)  # first: standard output may take no more
            progress.result(f"wrote {len(document.findings)} findings to {saved}")
        shown = msgspec.structs.replace(document, evidence=without_recordings(document.evidence))
        Output(values["form"]).deliver(shown, chosen_references(document))
        if report is not None:
            name = saved.name if saved is not None else document.machine.name
            store.write(report, html_report([(name, shown)]).encode(), values["force"])
            progress.result(f"wrote the report to {report}")
    if not any(step.state == "done" for step in campaign.steps_of(document)):
        raise SetebenchError("no scenario could be run; the table says why")


def _verified(document: Document, plan: Plan, progress: Progress) -> Document:
    """The document with what its twin predicts of the machine; as it is, and the reason on the terminal, where no twin
    can be made of it."""
    from setebench.truth.twin import make_twin
    from setebench.truth.verify.check import Request, verify
    from setebench.truth.verify.document import as_document

    try:
        twin, how = make_twin(document), Request(machine=plan.machine, cpu=plan.cpu, seed=plan.seed, minutes=MINUTES)
        found = as_document(
            verify(twin, how, progress), document, references.of_the_system(document.machine.environment)
        )
    except Exception as error:  # whatever ends a verification, another author's machine too, what was measured is kept
        progress.failed("verify", error)
        return document
    findings = [each for each in document.findings if not each.parameter.startswith("verify.")]
    evidence = {**document.evidence, **found.evidence}
    progress.close()
    return msgspec.structs.replace(document, findings=[*findings, *found.findings], evidence=evidence)


def _way_on(plan: Plan, saved: Path | None) -> str:
    if saved is None or not saved.exists():
        return "nothing was written (with -o FILE, --resume FILE goes on behind the first scenario)."
    machine = f" --machine {plan.machine}" if campaign.runs_code(plan.machine) else ""
    return f"go on with: setebench characterize --resume {saved}{machine}"


def _resumed(file: Path, earlier: Document) -> Plan:
    """The plan of the earlier run; options that would make it another one are refused. A file may come from anybody:
    code that it names is only run where the user names it too."""
    for name in filter(is_given, ("cpu", "seed", "fast", "only", "skip", "msr")):
        raise UsageError(f"--resume goes on with the settings in {str(file)!r}; leave out --{name}")
    try:
        plan = campaign.plan_of(earlier)
        campaign.choose(plan.scenarios)
        campaign.steps_of(earlier)
    except UsageError as error:
        raise UsageError(f"can't go on with {str(file)!r}: {error}") from error
    unnamed = None if campaign.runs_code(plan.machine) else plan.machine
    if plan.machine != (click.get_current_context().params["machine"] if is_given("machine") else unnamed):
        raise UsageError(f"{str(file)!r} was begun on {plan.machine!r}: where you trust that, --machine {plan.machine}")
    return plan


def _check_targets(saved: Path | None, report: Path | None, values: Values) -> None:
    """Raise `UsageError` for what can't work, before anything is measured."""
    Output(values["form"]).check()
    for path in filter(None, (saved, report)):
        if path == STANDARD_OUTPUT:
            raise UsageError("--output and --report need a file; the table, or --format json, goes to standard output")
        store.check_target(path, values["force"] or path == values["resume"])
    if report is not None:
        need("jinja2")
        if saved is not None and saved.resolve() == report.resolve():
            raise UsageError(f"--output and --report both name {str(saved)!r}; name two files")


def _measured(plan: Plan, earlier: Document | None, saved: Path | None, values: Values, progress: Progress) -> Document:
    def save(document: Document) -> None:
        if saved is not None:
            try:
                store.save(document, saved, force=True)  # it was checked before, and is its own from then on
            except SetebenchError as error:  # a full disk need not be full at the end, and the table can be printed
                progress.result(f"not saved yet: {error}")

    how = session.Settings(cpu=plan.cpu, seed=plan.seed, msr=plan.msr, progress=progress.result)
    raw = saved is not None and not values["no_raw"]
    with session.opened(plan.machine, how) as machine:
        document = earlier or campaign.begun(plan, machine)
        listener = Listener(progress=progress, saved=save, failed=progress.failed)
        document = campaign.carry_out(document, machine, listener, raw)
    progress.close()
    warn_of_kinds(document, progress)
    return document
