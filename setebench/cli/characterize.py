"""`setebench characterize`: every scenario on one machine, one table of everything."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import campaign, references, registry, session, store
from setebench.campaign import Listener, Plan
from setebench.cli import beside
from setebench.cli.child import Child, Lost
from setebench.cli.options import (
    FORMS,
    PATH,
    check_talk,
    force_option,
    is_given,
    machine_options,
    no_wait_option,
    reference_option,
    register_options,
    talk_options,
)
from setebench.cli.output import Output, file_or_none
from setebench.cli.progress import Progress
from setebench.cli.run import report_finding, warn_of_kinds
from setebench.errors import INTERRUPTED, SetebenchError, UsageError, need
from setebench.recording import without_recordings
from setebench.results import Document, Finding


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user wants: options by name (`values`); `earlier` is what to go on from, without scenarios to `skip`."""

    plan: Plan
    earlier: Document | None
    skip: frozenset[str]
    saved: Path | None
    values: dict[str, Any]


@click.command()
@machine_options
@register_options
@click.option("--only", metavar="SCENARIO", multiple=True, help="Run this one (may be given several times).")
@click.option("--skip", metavar="SCENARIO", multiple=True, help="Leave this one out (may be given several times).")
@click.option(
    "--patience",
    metavar="SECONDS",
    type=click.FloatRange(0.0),
    help="Time for repeating scenarios with open findings at the end, cheapest first; 0 runs each once."
    f"  [default: {campaign.PATIENCE_SECONDS:.0f}, and 0 with --fast]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=PATH,
    help="Save the results (JSON) to FILE, after each scenario. The table is printed too.",
)
@click.option("--resume", metavar="FILE", type=PATH, help="Continue the interrupted run in FILE, with its settings.")
@click.option("--no-raw", is_flag=True, help="Don't record the machine's answers in FILE (see setebench infer).")
@click.option(
    "--verify",
    type=click.FloatRange(0.01),
    metavar="MINUTES",
    help="Compare a twin made of the results with the machine for this long, and report the agreement.",
)
@click.option("--report", metavar="FILE", type=PATH, help="Write the HTML report to FILE too.")
@reference_option
@click.option(
    "--format", "form", type=click.Choice(FORMS), default="table", show_default=True, help="Form on standard output."
)
@force_option
@talk_options
@no_wait_option
def characterize(**values: Any) -> None:
    """Run every scenario on one machine and print one table of everything.

    Later scenarios use what earlier ones found (the clock, the levels). A scenario that fails loses only its own rows.
    Scenarios with open findings are repeated at the end, for --patience seconds. With -o the results are saved after
    each scenario, and --resume continues from there.

    With --resume, --skip leaves out a scenario that is not done, such as one that never ends.

    Exit status: 0 at least one scenario answered, 1 none could be run, 2 bad use, 130 interrupted.
    """
    check_talk(values)
    request = _request(values)
    child = Child(forks=click.get_current_context().obj is not None)
    lost = child.enter()
    with Progress(quiet=values["quiet"], verbose=values["verbose"]) as progress:
        if lost is not None:
            request = _behind(request, lost)
            progress.take_over()
            progress.result(f"{lost.scenario} failed: {lost.reason}")
        try:
            document = _measure(request, child, progress)
        except KeyboardInterrupt:
            progress.close()
            click.echo(f"\nInterrupted; {_way_on(request)}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        finally:
            child.end()
    if not any(step.state == "done" for step in campaign.steps_of(document)):
        raise SetebenchError("no scenario could be run; the table says why")


def _behind(request: Request, lost: Lost) -> Request:
    """What is left to do behind a scenario that ended its process: those that failed have had their turn."""
    earlier = lost.document or request.earlier
    steps = {step.scenario: step for step in campaign.steps_of(earlier)} if earlier else {}
    failed = {name for name, step in steps.items() if step.state == "failed"} | {lost.scenario}
    again = lost.scenario in steps and steps[lost.scenario].state == "done"  # its first answers stay
    plan = replace(request.plan, patience=0.0 if again else request.plan.patience)
    return replace(request, plan=plan, earlier=earlier, skip=request.skip | failed)


def _way_on(request: Request) -> str:
    if request.saved is None or not request.saved.exists():
        return "nothing was written (with -o FILE, --resume FILE could go on from here)."
    machine = f" --machine {request.plan.machine}" if campaign.runs_code(request.plan.machine) else ""
    return f"go on with: setebench characterize --resume {request.saved}{machine}"


# -- what the user wants ----------------------------------------------------------------------------------------------


def _request(values: dict[str, Any]) -> Request:
    """Raises `UsageError` for what can't work, before anything is measured."""
    resume, report = values["resume"], values["report"]
    earlier = store.load(resume) if resume else None
    plan = _resumed_plan(resume, earlier) if earlier else _new_plan(values)
    patience = values["patience"]
    saved = values["output"] or resume
    Output("table", None).check()
    beside.check_reference(values["reference"])
    for path in (saved, report):
        if path is not None and file_or_none(path) is None:
            raise UsageError("--output and --report need a file; the table, or --format json, goes to standard output")
        if path is not None:
            store.check_target(path, values["force"] or path == resume)
    if report is not None:
        need("jinja2")
    if report is not None and saved is not None and saved.resolve() == report.resolve():
        raise UsageError(f"--output and --report both name {str(saved)!r}; name two files")
    return Request(
        plan=replace(
            plan,
            patience=plan.patience if patience is None else patience,
            raw=saved is not None and not values["no_raw"],
        ),
        earlier=earlier,
        skip=_skipped(earlier, values["skip"]) if earlier else frozenset(),
        saved=saved,
        values=values,
    )


def _new_plan(values: dict[str, Any]) -> Plan:
    own = {name: values[name] for name in ("machine", "seed", "cpu", "fast", "msr")}
    patience = 0.0 if values["fast"] else campaign.PATIENCE_SECONDS
    return Plan(scenarios=campaign.choose(values["only"], values["skip"]), patience=patience, **own)


def _resumed_plan(file: Path, earlier: Document) -> Plan:
    """The plan of the earlier run; options that would make it another one are refused. A file may come from anybody:
    code that it names is only run where the user names it too."""
    for name in filter(is_given, ("cpu", "seed", "fast", "only", "msr")):
        raise UsageError(f"--resume goes on with the settings in {str(file)!r}; leave out --{name}")
    try:
        plan = campaign.plan_of(earlier)
        campaign.choose(plan.scenarios)
        campaign.steps_of(earlier)
    except UsageError as error:
        raise UsageError(f"can't go on with {str(file)!r}: {error}") from error
    named = click.get_current_context().params["machine"] if is_given("machine") else None
    if named is None and campaign.runs_code(plan.machine):
        raise UsageError(
            f"{str(file)!r} was begun on {plan.machine!r}, which is code to be run; where you trust it, name it: "
            f"add --machine {plan.machine}"
        )
    if named not in (None, plan.machine):
        raise UsageError(f"{str(file)!r} was begun on the machine {plan.machine!r}; leave out --machine {named}")
    return plan


def _skipped(earlier: Document, skipped: tuple[str, ...]) -> frozenset[str]:
    """Raises `UsageError` for a scenario that the earlier run has not."""
    steps = [step.scenario for step in campaign.steps_of(earlier)]
    names = list(map(registry.command_name, skipped))
    for name in set(names) - set(steps):
        raise UsageError(f"the run to go on with has no scenario {name!r}; one of {', '.join(steps)}")
    return frozenset(names)


# -- doing it ---------------------------------------------------------------------------------------------------------


def _measure(request: Request, child: Child, progress: Progress) -> Document:
    plan, values, saved = request.plan, request.values, request.saved
    written = [] if request.earlier is None and not values["force"] else [saved]

    def save(document: Document) -> None:
        if saved is not None:
            store.save(document, saved, force=bool(written))
            written.append(saved)  # from now on it replaces what is its own

    def try_to_save(document: Document) -> None:
        try:
            save(document)
        except SetebenchError as error:  # a full disk need not be full at the end, and the table can still be printed
            progress.result(f"not saved yet: {error}")

    def fail(scenario: str, error: BaseException) -> None:
        progress.result(f"{scenario} failed: {campaign.reason(error)}")
        progress.detail("".join(traceback.format_exception(error)).replace("\n", " | "))

    def report(finding: Finding) -> None:
        report_finding(finding, progress)

    listener = Listener(begun=child.begin, progress=progress, on_finding=report, saved=try_to_save, failed=fail)
    settings = session.Settings(cpu=plan.cpu, seed=plan.seed, msr=plan.msr, noted=progress.detail)
    with session.opened(plan.machine, settings) as machine:
        document = campaign.carry_out(plan, machine, listener, request.earlier, request.skip)
    document = _verified(request, document, progress)
    progress.close()
    warn_of_kinds(document, progress)
    if saved is not None:
        save(document)  # first: standard output may take no more
        progress.result(f"wrote {len(document.findings)} findings to {saved}")
    shown = msgspec.structs.replace(document, evidence=without_recordings(document.evidence))
    Output(values["form"], None).deliver(shown, beside.chosen_references(document, values["reference"]))
    if values["report"] is not None:
        name = saved.name if saved is not None else document.machine.name
        store.write(values["report"], beside.report({name: shown}, values["reference"]), values["force"])
        progress.result(f"wrote the report to {values['report']}")
    return document


def _verified(request: Request, document: Document, progress: Progress) -> Document:
    """The document with what its twin is worth on this machine, where that is wanted. What keeps a twin from being made
    costs that alone."""
    minutes = request.values["verify"]
    if minutes is None:
        return document
    from setebench.truth import verify
    from setebench.truth.twin import make_twin

    plan = request.plan
    wanted = verify.Request(machine=plan.machine, cpu=plan.cpu, seed=plan.seed, minutes=minutes)
    try:
        reported = references.of_the_system(document.machine.environment)
        made = verify.as_document(verify.verify(make_twin(document), wanted, progress), document, reported)
    except SetebenchError as error:
        progress.result(f"not verified: {error}")
        return document
    evidence = {**document.evidence, **made.evidence}
    return msgspec.structs.replace(document, findings=[*document.findings, *made.findings], evidence=evidence)
