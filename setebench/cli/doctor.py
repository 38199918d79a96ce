"""`setebench doctor`: what would disturb a measurement here, what it means, what to do."""

from __future__ import annotations

import gzip
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from setebench import session, store
from setebench.cli.options import PATH, Number, cpu_option, force_option, form_option, no_wait_option, quiet_option
from setebench.cli.output import Progress, print_text
from setebench.errors import SetebenchError, UsageError
from setebench.host import lock
from setebench.host.doctor.clock import clock_checks
from setebench.host.doctor.cpus import cpu_checks
from setebench.host.doctor.memory import memory_checks
from setebench.host.doctor.reports import BAD, GOOD, NOTE, UNKNOWN, Check
from setebench.host.doctor.rights import rights_checks
from setebench.host.environment import Environment, read_environment
from setebench.machine import open_machine
from setebench.results import SCHEMA
from setebench.text import in_bytes, ranges

COLOURS = {GOOD: "green", NOTE: "cyan", BAD: "red", UNKNOWN: "yellow"}


@click.command()
@cpu_option
@no_wait_option
@form_option
@click.option(
    "--bundle",
    metavar="FILE",
    type=PATH,
    help="Also write FILE, to be sent with a report of a wrong answer: all this and the raw samples of latency --fast, "
    "without host names, paths and command lines.",
)
@click.option(
    "--record",
    metavar="FILE",
    type=PATH,
    help="Also record what disturbs this machine, in times alone, into FILE (.npz), which a machine file may name.",
)
@click.option("--seconds", type=Number(0.1, 60), default=5.0, help="How long --record records.")
@force_option
@quiet_option
def doctor(cpu: int | None, bundle: Path | None, form: str, force: bool, **values: Any) -> None:
    """Say what would disturb a measurement here, what it means and what to do. Changes nothing.

    The exit status is 0 whatever is found, and 1 with --no-wait if another measurement is running.
    """
    progress, record = Progress(values["quiet"]), values["record"]
    if record is not None and record.suffix != ".npz":
        raise UsageError(f"{str(record)!r} must end in .npz, or no machine file could name it")
    for path in filter(None, (bundle, record)):
        store.check_target(path, force)
    found = examine(cpu, progress)
    if form == "json":
        print_text(store.pretty(found))
    else:
        print_checks(found["checks"])
    if bundle is not None:
        data = bundled(found, cpu, progress)
        store.write(bundle, data, force)
        progress.result(f"wrote {bundle}, {in_bytes(len(data))}, for setebench show and infer")
    if record is not None:
        progress("recording ...")
        with closing(open_machine(cpu=cpu)) as machine:
            arrays = import_module("setebench.native.disturbance").record(machine, values["seconds"])
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)
        store.write(record, packed.getvalue(), force)
        progress.result(f"wrote {record}, {in_bytes(len(packed.getvalue()))}, for machine files")


_PATH = re.compile(rb"""(?<=[\s"'(=:])(?:/|proc/|sys/)[^\s"'(),:;]+""")
"""A path in the text of a result file; no packed number begins with a slash."""


def bundled(found: dict[str, Any], cpu: int | None, progress: Callable[[str], None]) -> bytes:
    """A result file of `latency --fast` with the machine's answers, and beside them what was examined; compressed, and
    without paths. Nothing else in a result file says whose machine it is. Raises what measuring raises."""
    document = session.run("latency", cpu=cpu, fast=True, raw=True, progress=progress)
    beside = store.plain({**found, "environment": None})  # which the document has
    whole = msgspec.structs.replace(document, evidence={**document.evidence, "doctor": beside})
    return gzip.compress(_PATH.sub(b"[path]", store.dumps(whole)), mtime=0)


def examine(cpu: int | None, progress: Callable[[str], None]) -> dict[str, Any]:
    """The JSON document of `doctor`, of this CPU; reports are null where they weren't to be had. Raises `UsageError`
    for a CPU on which this process may not run, and what `host.lock.acquire` raises."""
    environment = read_environment()
    allowed = environment.topology.allowed or environment.topology.online
    if cpu is not None and allowed and cpu not in allowed:
        raise UsageError(f"CPU {cpu} can't be used; choose one of {ranges(allowed)}")
    lock.acquire()  # once for all, as what is refused is not a finding
    try:
        progress("measuring the clock and the pages ...")
        reports = {
            "clock": _measured("selfcheck", "clock_report", cpu=cpu),
            "pages": _measured("selfcheck", "page_report", cpu=cpu),
            "counters": _measured("perf.native_counters", "counter_report"),
        }
    finally:
        lock.release()
    found = checks(environment, cpu, reports)
    known = {name: None if isinstance(each, str) else each for name, each in reports.items()}
    return {"schema": SCHEMA, "machine": "native", "checks": found, "environment": environment, **known}


def checks(environment: Environment, cpu: int | None, reports: dict[str, Any]) -> list[Check]:
    """Every check, in the order in which a person should read them."""
    return [
        *clock_checks(environment, reports["clock"]),
        *cpu_checks(environment, cpu),
        *memory_checks(environment, reports["pages"]),
        *rights_checks(environment, reports["counters"]),
    ]


def _measured(module: str, report: str, **options: Any) -> Any:
    """A report of the measuring part, which is only loaded where it is used; or why there is none."""
    try:
        return getattr(import_module(f"setebench.native.{module}"), report)(**options)
    except SetebenchError as error:
        return str(error)
    except ImportError as error:  # an installation without the extension can still report what the system says
        return f"the measuring part can't be loaded ({error})"


def print_checks(found: Sequence[Check]) -> None:
    """A line for each check's finding, with two below at most."""
    for check in found:
        click.echo(f"{check.name}: {click.style(check.status, COLOURS[check.status])}: {check.found}")
        for text in filter(None, (check.meaning, check.advice and f"Do: {check.advice}")):
            click.echo(f"    {text}")
    counts = Counter(check.status for check in found)
    click.echo(", ".join(f"{counts[status]} {status}" for status in (BAD, NOTE, UNKNOWN, GOOD)))
