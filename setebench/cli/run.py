"""Run one scenario: check where the findings go, open the machine, measure, make the document, hand it over."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from setebench import store
from setebench.cli.output import Output
from setebench.cli.progress import Progress
from setebench.errors import INTERRUPTED, UsageError
from setebench.machine import Facts, open_machine
from setebench.report import plot
from setebench.report.numbers import interval_text, value_text
from setebench.results import Document, Finding, MachineRecord
from setebench.scenario import Context, Scenario


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    scenario: Scenario
    machine: str = "native"
    cpu: int | None = None
    seed: int = 1
    fast: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    output: Output = field(default_factory=lambda: Output("table", None))
    plot: Path | None = None
    quiet: bool = False
    verbose: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What is needed to ask again, as the document keeps it."""
        return {
            "scenario": self.scenario.name,
            "machine": self.machine,
            "seed": self.seed,
            "cpu": self.cpu,
            "fast": self.fast,
            "options": self.options,
        }


def run(request: Request) -> None:
    """Answer the request. Raises `UsageError` before measuring where the findings would have nowhere to go.

    Ctrl-C ends with status 130 and a line that says which files were written: whole ones, or none.
    """
    _check_targets(request)
    before = _inodes(request)
    progress = Progress(quiet=request.quiet, verbose=request.verbose)
    try:
        document = measure(request, progress)
        progress.close()
        _deliver(request, document, progress)
    except KeyboardInterrupt:
        progress.close()
        written = [str(path) for path, inode in _inodes(request).items() if inode != before[path]]
        click.echo(f"\nInterrupted; {' and '.join(written) or 'nothing'} was written.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        progress.close()


def _inodes(request: Request) -> dict[Path, int | None]:
    """Which file each target is; another one once it has been written, wherever the interrupt came."""
    targets = (path for path in (request.output.path, request.plot) if path is not None)
    return {path: path.stat().st_ino if path.exists() else None for path in targets}


def _check_targets(request: Request) -> None:
    request.output.check()
    if request.plot is None:
        return
    plot.check_extension(request.plot)
    store.check_target(request.plot, request.output.force)
    if request.output.path is not None and request.output.path.resolve() == request.plot.resolve():
        raise UsageError(f"--output and --plot both name {str(request.plot)!r}; name two files")


def measure(request: Request, progress: Progress) -> Document:
    """Open the machine, run the scenario on it and return the document. Raises what the machine raises."""
    started, begin = datetime.now(UTC), time.monotonic()
    with closing(open_machine(request.machine, cpu=request.cpu, seed=request.seed)) as machine:
        _check_cpu(machine.facts, request.cpu)
        record = _machine_record(machine.facts)
        for note in machine.facts.notes:
            progress.detail(note)
        context = Context(
            machine=machine,
            seed=request.seed,
            cpu=request.cpu,
            fast=request.fast,
            options=dict(request.options),
            progress=progress,
        )
        findings = _answer(request.scenario, context, progress)
    return Document(
        tool=store.this_tool(),
        machine=record,
        settings=store.plain(request.settings),
        started=started.isoformat(timespec="seconds"),
        elapsed_seconds=round(time.monotonic() - begin, 3),
        findings=findings,
        evidence=store.plain(context.evidence),
    )


def _answer(scenario: Scenario, context: Context, progress: Progress) -> list[Finding]:
    findings = []
    for finding in scenario.answer(context):
        findings.append(finding)
        progress.detail(
            f"{finding.parameter}: {finding.reason or ' '.join((value_text(finding), interval_text(finding)))}"
        )
    return findings


def _check_cpu(facts: Facts, cpu: int | None) -> None:
    if cpu is not None and cpu not in facts.cpus:
        raise UsageError(f"{facts.name} has no CPU {cpu}; choose one of {', '.join(map(str, facts.cpus))}")


def _machine_record(facts: Facts) -> MachineRecord:
    environment: dict[str, Any] = {}
    if facts.kind == "native":
        from setebench.environment import read_environment  # reads /proc and /sys: only of use where those are measured

        environment = store.plain(msgspec.to_builtins(read_environment()))
    return MachineRecord(kind=facts.kind, name=facts.name, facts=store.plain(facts), environment=environment)


def _deliver(request: Request, document: Document, progress: Progress) -> None:
    request.output.deliver(document)
    if request.output.path is not None:
        progress.result(f"wrote {len(document.findings)} findings to {request.output.path} ({request.output.form})")
    if request.plot is not None:
        _draw(request, document, request.plot)
        progress.result(f"wrote the plot to {request.plot}")


def _draw(request: Request, document: Document, path: Path) -> None:
    assert request.scenario.plot is not None  # --plot exists only where the scenario can draw
    figure = request.scenario.plot(document.evidence)
    plot.add_machine(figure, document.machine.name)
    plot.save(figure, path, request.output.force)
