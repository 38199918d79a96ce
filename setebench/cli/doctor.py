"""`setebench doctor`: what would disturb a measurement here, what it means, what to do."""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from setebench import session, store
from setebench.cli.options import PATH, cpu_option, form_option, machine_option, no_wait_option, quiet_option
from setebench.cli.progress import Progress
from setebench.doctor import (
    Check,
    ClockReport,
    CounterReport,
    Measured,
    PageReport,
    Status,
    checks,
    facts_checks,
    machine_code,
)
from setebench.errors import SetebenchError, UsageError
from setebench.host import lock
from setebench.host.environment import Environment, read_environment
from setebench.host.tree import format_cpu_list
from setebench.machine import open_machine

SCHEMA = 1
LIVE = Path("/")
STYLES = {Status.GOOD: "green", Status.NOTE: "cyan", Status.BAD: "bold red", Status.UNKNOWN: "yellow"}


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON document of `doctor`. Environment and reports are null where they don't apply or weren't to be had."""

    schema: int = SCHEMA
    machine: str
    checks: list[Check]
    environment: Environment | None = None
    clock: ClockReport | None = None
    pages: PageReport | None = None
    counters: CounterReport | None = None


@click.command()
@machine_option
@cpu_option
@no_wait_option
@form_option
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=LIVE,
    show_default=True,
    help="Read the system files below this directory (a recorded machine). Nothing is measured then.",
)
@click.option(
    "--bundle",
    metavar="FILE",
    type=PATH,
    help="Also write FILE, to be sent with a report of a wrong answer: all this and the raw samples of latency --fast, "
    "without host names, paths and command lines.",
)
@quiet_option
def doctor(machine: str, cpu: int | None, root: Path, bundle: Path | None, **values: Any) -> None:
    """Say what would disturb a measurement here, what it means and what to do. Changes nothing.

    The exit status is 0 whatever is found, and 1 with --no-wait if another measurement is running.
    """
    progress = Progress(quiet=values["quiet"])
    if bundle is not None:
        store.check_target(bundle, force=False)
    if root != LIVE and (bundle is not None or machine != "native"):
        what = "--bundle measures" if bundle is not None else f"{machine!r} has no system files"
        raise UsageError(f"--root is for the machine 'native', and nothing is measured below it; {what}")
    found = examine(root, cpu, progress) if machine == "native" else examine_other(machine, cpu)
    if values["form"] == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        print_checks(found.checks, sys.stdout)
    if bundle is not None:
        data = bundled(found, cpu, progress)
        store.write(bundle, data)
        progress(f"wrote {bundle}, {len(data) / 1e3:.0f} kB, for setebench show and infer")


_PATH = re.compile(rb"""(?<=[\s"'(=:])(?:/|proc/|sys/)[^\s"'(),:;]+""")
"""A path in the text of a result file; no packed number begins with a slash."""


def bundled(found: Examination, cpu: int | None, progress: Callable[[str], None]) -> bytes:
    """A result file of `latency --fast` with the machine's answers, and beside them what was examined; compressed, and
    without paths. Nothing else in a result file says whose machine it is. Raises what measuring raises."""
    document = session.run("latency", found.machine, cpu=cpu, fast=True, raw=True, progress=progress)
    beside = store.plain(msgspec.structs.replace(found, environment=None))  # which the document has
    whole = msgspec.structs.replace(document, evidence={**document.evidence, "doctor": beside})
    return gzip.compress(_PATH.sub(b"[path]", store.dumps(whole)), mtime=0)


def examine(root: Path, cpu: int | None, progress: Callable[[str], None]) -> Examination:
    """Examine this CPU, or without any measuring the recorded machine below `root`.

    Raises `UsageError` for a CPU on which this process may not run, and what `host.lock.acquire` raises."""
    environment = read_environment(root)
    allowed = environment.topology.allowed or environment.topology.online
    if cpu is not None and allowed and cpu not in allowed:
        raise UsageError(f"CPU {cpu} can't be used; choose one of {format_cpu_list(allowed)}")
    why = "a recorded machine can't be measured"
    measured = Measured(cpu=cpu, counters=CounterReport(reason=why), why_no_clock=why, why_no_pages=why)
    if root.resolve() == LIVE:
        lock.acquire()  # once for all, as what is refused is not a finding
        try:
            progress("measuring the clock ...")
            clock, why_no_clock = _measured("selfcheck", "clock_report", cpu=cpu)
            progress("measuring the pages ...")
            pages, why_no_pages = _measured("selfcheck", "page_report", cpu=cpu)
            free, why_not_counted = _measured("perf.native_counters", "counter_report")
        finally:
            lock.release()
        counters = free or CounterReport(reason=why_not_counted)
        reasons = {"why_no_clock": why_no_clock, "why_no_pages": why_no_pages}
        measured = Measured(cpu=cpu, clock=clock, pages=pages, counters=counters, **reasons)
    reports = {name: getattr(measured, name) for name in ("clock", "pages", "counters")}
    return Examination(machine="native", checks=checks(environment, measured), environment=environment, **reports)


def _measured(module: str, report: str, **options: Any) -> tuple[Any, str]:
    """A report of the measuring part, which is only loaded where it is used; or why there is none."""
    try:
        return getattr(import_module(f"setebench.native.{module}"), report)(**options), ""
    except SetebenchError as error:
        return None, str(error)
    except ImportError as error:  # an installation without the extension can still report what the system says
        return None, f"the measuring part can't be loaded ({error})"


def examine_other(name: str, cpu: int | None) -> Examination:
    """Examine a machine that is not this CPU, by its facts. Raises `UsageError` for a CPU that it lacks."""
    with closing(open_machine(name, cpu=cpu)) as machine:
        facts = machine.facts
    session.check_cpu(facts, cpu)
    own = [machine_code(read_environment().access)] if facts.kind == "sim" else []  # what a plug-in needs nobody knows
    return Examination(machine=name, checks=[*facts_checks(facts), *own])


# -- printing ---------------------------------------------------------------------------------------------------------


def print_checks(found: Sequence[Check], file: TextIO) -> None:
    """A table for a terminal; elsewhere plain unbroken lines, one for each check's finding, with two below at most."""
    console = Console(file=file)
    if console.is_terminal:
        console.print(_table(found))
    else:
        for check in found:
            advice = f"    Do: {check.advice}\n" if check.advice else ""
            file.write(f"{check.name}: {check.status}: {check.found}\n    {check.meaning}\n{advice}")
    counts = Counter(check.status for check in found)
    order = (Status.BAD, Status.NOTE, Status.UNKNOWN, Status.GOOD)
    file.write(", ".join(f"{counts[status]} {status}" for status in order) + "\n")


def _table(found: Sequence[Check]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("Check", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    table.add_column("What was found, what it means, what to do")
    for check in found:
        text = Text(check.found)
        text.append(f"\n{check.meaning}", style="dim")
        if check.advice:
            text.append(f"\nDo: {check.advice}")
        table.add_row(Text(check.name), Text(check.status, style=STYLES[check.status]), text)
    return table
