"""`setebench characterize`: every scenario on one machine, one table of everything."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import campaign, references, registry, session, store
from setebench.campaign import Listener, Plan, Step
from setebench.cli import beside
from setebench.cli.apart import Apart, Casualty, Logbook
from setebench.cli.commands.run import report_finding, warn_of_kinds
from setebench.cli.options import (
    FORMS,
    is_given,
    machine_parameters,
    no_wait_option,
    register_parameters,
    talk_parameters,
)
from setebench.cli.output import Output, file_or_none
from setebench.cli.progress import Progress
from setebench.errors import INTERRUPTED, SetebenchError, UsageError
from setebench.recording import without_recordings
from setebench.results import Document

HELP = """Run every scenario on one machine and print one table of everything.

Later scenarios use what earlier ones found (the clock, the levels). A scenario that fails loses only its own rows.
Scenarios with open findings are repeated at the end, for --patience seconds. With -o the results are saved after each
scenario, and --resume continues from there.

With --resume, --skip leaves out a scenario that is not done, such as one that never ends.

Exit status: 0 at least one scenario answered, 1 none could be run, 2 bad use, 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for. `earlier` is what to go on from, without the scenarios `left_out`; `casualty` is that of
    them that has ended its process just now, and `logbook` is for the next one."""

    plan: Plan
    earlier: Document | None
    output: Output
    saved: Path | None
    report: Path | None
    reference: str | None
    force: bool
    raw: bool
    verify: float | None = None
    left_out: Mapping[str, Step] = field(default_factory=dict)
    casualty: Casualty | None = None
    logbook: Logbook = field(default_factory=Logbook)


def _callback(**values: Any) -> None:
    request = _request(values)
    apart = click.get_current_context().find_object(Apart)
    if apart is not None:
        apart.enter()
        request = _gone_on(request, apart)
    progress = Progress(quiet=values["quiet"], verbose=values["verbose"])
    try:
        document, saver = _measure(request, progress)
        document = _verified(request, document, progress)
        progress.close()
        _deliver(request, document, saver, progress)
    except KeyboardInterrupt:
        progress.close()
        click.echo(f"\nInterrupted; {_way_on(request)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        request.logbook.end()
        progress.close()
    if not any(step.state == "done" for step in campaign.steps_of(document)):
        raise SetebenchError("no scenario could be run; the table says why")


def _gone_on(request: Request, apart: Apart) -> Request:
    """What is left to do behind the scenario that ended the process before this one, if one did: those before it that
    failed have had their turn."""
    lost, order = apart.casualty, request.plan.scenarios
    if lost is None:
        return replace(request, logbook=apart.logbook)
    earlier = apart.logbook.document() or request.earlier
    steps = campaign.steps_of(earlier) if earlier else []
    if any(step.scenario == lost.scenario and step.state == "done" for step in steps):  # its first answers stay
        plan = replace(request.plan, patience=0.0)
        return replace(request, plan=plan, earlier=earlier, casualty=lost, logbook=apart.logbook)
    before = order[: order.index(lost.scenario)]
    failed = {step.scenario: step for step in steps if step.state == "failed" and step.scenario in before}
    failed[lost.scenario] = campaign.lost(lost.scenario, lost.reason, lost.elapsed_seconds)
    return replace(
        request, earlier=earlier, left_out={**request.left_out, **failed}, casualty=lost, logbook=apart.logbook
    )


def _way_on(request: Request) -> str:
    if request.saved is None or not request.saved.exists():
        return "nothing was written (with -o FILE, --resume FILE could go on from here)."
    machine = f" --machine {request.plan.machine}" if campaign.runs_code(request.plan.machine) else ""
    return f"go on with: setebench characterize --resume {request.saved}{machine}"


def _request(values: dict[str, Any]) -> Request:
    """Raises `UsageError` for what can't work, before anything is measured."""
    if values["quiet"] and values["verbose"]:
        raise UsageError("--quiet and --verbose exclude each other")
    earlier = store.load(values["resume"]) if values["resume"] else None
    plan = _resumed_plan(values["resume"], earlier) if earlier else _new_plan(values)
    if earlier and values["patience"] is not None:
        plan = replace(plan, patience=values["patience"])
    left_out = _left_out(earlier, values["skip"]) if earlier else {}
    saved = values["output"] or values["resume"]
    output = Output(values["form"] or "table", None)
    output.check()
    beside.check_reference(values["reference"])
    for path in (saved, values["report"]):
        if path is not None and file_or_none(path) is None:
            raise UsageError("--output and --report need a file; the table, or --format json, goes to standard output")
        if path is not None:
            store.check_target(path, values["force"] or path == values["resume"])
    if values["report"] is not None and saved is not None and saved.resolve() == values["report"].resolve():
        raise UsageError(f"--output and --report both name {str(saved)!r}; name two files")
    return Request(
        plan=plan,
        earlier=earlier,
        output=output,
        saved=saved,
        report=values["report"],
        reference=values["reference"],
        force=values["force"],
        raw=saved is not None and not values["no_raw"],
        verify=values["verify"],
        left_out=left_out,
    )


def _new_plan(values: dict[str, Any]) -> Plan:
    return Plan(
        scenarios=campaign.choose(values["only"], values["skip"]),
        machine=values["machine"],
        seed=values["seed"],
        cpu=values["cpu"],
        fast=values["fast"],
        msr=values["msr"],
        patience=campaign.default_patience(values["fast"]) if values["patience"] is None else values["patience"],
    )


def _resumed_plan(file: Path, earlier: Document) -> Plan:
    """The plan of the earlier run; options that would make it another one are refused."""
    fixed = ("cpu", "seed", "fast", "only", "msr")
    if given := [name for name in fixed if is_given(name)]:
        raise UsageError(
            f"--resume goes on with the settings in {str(file)!r}; leave out --{given[0].replace('_', '-')}"
        )
    try:
        plan = campaign.plan_of(earlier)
        campaign.choose(plan.scenarios)
        campaign.steps_of(earlier)
    except UsageError as error:
        raise UsageError(f"can't go on with {str(file)!r}: {error}") from error
    _check_machine(file, plan.machine)
    return plan


def _check_machine(file: Path, machine: str) -> None:
    """A file may come from anybody: code that it names is only run where the user names it too."""
    named = click.get_current_context().params["machine"] if is_given("machine") else None
    if named is None and campaign.runs_code(machine):
        raise UsageError(
            f"{str(file)!r} was begun on {machine!r}, which is code to be run; where you trust it, name it: "
            f"add --machine {machine}"
        )
    if named is not None and named != machine:
        raise UsageError(f"{str(file)!r} was begun on the machine {machine!r}; leave out --machine {named}")


def _left_out(earlier: Document, skipped: Iterable[str]) -> dict[str, Step]:
    """Those of the scenarios to skip that are not done, with how far they got. Raises `UsageError` for one that the
    earlier run has not."""
    steps = {step.scenario: step for step in campaign.steps_of(earlier)}
    skipped = list(map(registry.command_name, skipped))
    unknown = [name for name in skipped if name not in steps]
    if unknown:
        raise UsageError(f"the run to go on with has no scenario {unknown[0]!r}; one of {', '.join(steps)}")
    return {name: steps[name] for name in skipped if steps[name].state != "done"}


def _measure(request: Request, progress: Progress) -> tuple[Document, _Saver]:
    saver = _Saver(request.saved, request.force or request.earlier is not None)

    def save(document: Document) -> None:
        request.logbook.keep(document)
        try:
            saver.save(document)
        except SetebenchError as error:  # a full disk need not be full at the end, and the table can still be printed
            progress.result(f"not saved yet: {error}")

    def fail(scenario: str, error: BaseException) -> None:
        progress.result(f"{scenario} failed: {campaign.reason(error)}")
        progress.detail("".join(traceback.format_exception(error)).replace("\n", " | "))

    listener = Listener(
        begun=request.logbook.begin,
        progress=progress,
        on_finding=lambda finding: report_finding(finding, progress),
        saved=save,
        failed=fail,
    )
    plan = request.plan
    if request.casualty is not None:
        progress.take_over()
        progress.result(f"{request.casualty.scenario} failed: {request.casualty.reason}")
    with session.opened(plan.machine, plan.cpu, plan.seed, progress.detail, plan.msr) as machine:
        document = campaign.carry_out(plan, machine, listener, request.earlier, request.raw, request.left_out)
    return document, saver


def _verified(request: Request, document: Document, progress: Progress) -> Document:
    """The document with what its twin is worth on this machine, where that was asked. What keeps a twin from being made
    or asked costs that alone."""
    if request.verify is None:
        return document
    from setebench.truth.twin import make_twin
    from setebench.truth.verify import Request as Asked
    from setebench.truth.verify import as_document, verify

    plan = request.plan
    asked = Asked(machine=plan.machine, cpu=plan.cpu, seed=plan.seed, minutes=request.verify)
    try:
        said = references.of_the_system(document.machine.environment)
        made = as_document(verify(make_twin(document), asked, progress), document, said)
    except SetebenchError as error:
        progress.result(f"not verified: {error}")
        return document
    return msgspec.structs.replace(
        document, findings=[*document.findings, *made.findings], evidence={**document.evidence, **made.evidence}
    )


class _Saver:
    """Writes a document to its file again and again; after the first time it replaces what is its own."""

    def __init__(self, path: Path | None, force: bool) -> None:
        self._path, self._force = path, force
        self._saved: Document | None = None

    def save(self, document: Document) -> None:
        """Raises `UsageError` where the file can't be written."""
        if self._path is not None and document is not self._saved:
            store.save(document, self._path, self._force)
            self._force, self._saved = True, document


def _deliver(request: Request, document: Document, saver: _Saver, progress: Progress) -> None:
    shown = msgspec.structs.replace(document, evidence=without_recordings(document.evidence))
    warn_of_kinds(document, progress)
    if request.saved is not None:
        saver.save(document)  # first: standard output may take no more
        progress.result(f"wrote {len(document.findings)} findings to {request.saved}")
    request.output.deliver(shown, beside.chosen_references(document, request.reference))
    if request.report is not None:
        name = request.saved.name if request.saved is not None else document.machine.name
        store.write(request.report, beside.report({name: shown}, request.reference), request.force)
        progress.result(f"wrote the report to {request.report}")


def _parameters() -> list[click.Parameter]:
    path = click.Path(path_type=Path)
    return [
        *machine_parameters(),
        *register_parameters(),
        click.Option(["--only"], metavar="SCENARIO", multiple=True, help="Run this one (may be given several times)."),
        click.Option(
            ["--skip"], metavar="SCENARIO", multiple=True, help="Leave this one out (may be given several times)."
        ),
        click.Option(
            ["--patience"],
            metavar="SECONDS",
            type=click.FloatRange(0.0),
            help="Time for repeating scenarios with open findings at the end, cheapest first; 0 asks once."
            f"  [default: {campaign.default_patience(False):.0f}, and 0 with --fast]",
        ),
        click.Option(
            ["-o", "--output"],
            metavar="FILE",
            type=path,
            help="Save the results (JSON) to FILE, after each scenario. The table is printed too.",
        ),
        click.Option(
            ["--resume"], metavar="FILE", type=path, help="Continue the interrupted run in FILE, with its settings."
        ),
        click.Option(
            ["--no-raw"], is_flag=True, help="Don't record the machine's answers in FILE (see setebench infer)."
        ),
        click.Option(
            ["--verify"],
            type=click.FloatRange(0.01),
            metavar="MINUTES",
            help="Compare a twin made of the results with the machine for this long, and report the agreement.",
        ),
        click.Option(["--report"], metavar="FILE", type=path, help="Write the HTML report to FILE too."),
        click.Option(
            ["--reference"],
            metavar="NAME",
            help="Published values beside the findings (see setebench compare --list-references), or none."
            "  [default: those of this processor, if there are any]",
        ),
        click.Option(["--format", "form"], type=click.Choice(FORMS), help="Form on standard output.  [default: table]"),
        click.Option(["--force"], is_flag=True, help="Replace files that exist."),
        *talk_parameters(),
    ]


characterize = click.Command(
    "characterize",
    callback=_callback,
    params=_parameters(),
    help=HELP,
    short_help="Run every scenario and print one table of everything.",
)
no_wait_option(characterize)
