"""Run one scenario: check where the findings go, open the machine, measure, make the document, hand it over."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from setebench import session, store
from setebench.cli.output import Output
from setebench.cli.progress import Progress, quieten_matplotlib
from setebench.errors import INTERRUPTED, UsageError
from setebench.report.numbers import interval_text, value_text
from setebench.report.plots import plot
from setebench.results import Document, Finding
from setebench.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    scenario: Scenario
    machine: str = "native"
    cpu: int | None = None
    seed: int = 1
    fast: bool = False
    msr: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    output: Output = field(default_factory=lambda: Output("table", None))
    plot: Path | None = None
    raw: bool = False
    quiet: bool = False
    verbose: bool = False


def run(request: Request) -> Document:
    """Answer the request, and return what was written. Raises `UsageError` before measuring where the findings would
    have nowhere to go.

    Ctrl-C ends with status 130 and a line that says which files were written: whole ones, or none.
    """
    _check_targets(request)
    before = _inodes(request)
    progress = Progress(quiet=request.quiet, verbose=request.verbose)
    try:
        document = measure(request, progress)
        progress.close()
        _deliver(request, document, progress)
        return document
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
    return session.ask(
        request.scenario,
        request.machine,
        request.options,
        noted=progress.detail,
        seed=request.seed,
        cpu=request.cpu,
        fast=request.fast,
        msr=request.msr,
        progress=progress,
        on_finding=lambda finding: report_finding(finding, progress),
        raw=request.raw,
    )


def report_finding(finding: Finding, progress: Progress) -> None:
    """Say a finding as it comes, to those who asked for detail."""
    text = finding.reason or " ".join((value_text(finding), interval_text(finding)))
    progress.detail(f"{finding.parameter}: {text}")


def warn_of_kinds(document: Document, progress: Progress) -> None:
    """Where there are several kinds of core, say that findings hold for one: a note of the machine's."""
    for note in document.machine.facts["notes"] if "kind_of_core" in document.settings else ():
        progress.result(note)


def _deliver(request: Request, document: Document, progress: Progress) -> None:
    warn_of_kinds(document, progress)
    words = request.scenario.words if request.output.path is None and request.output.form == "table" else None
    if words is None or document.findings:
        request.output.deliver(document)
    if words is not None:
        click.echo(words(document.evidence))
    if request.output.path is not None:
        progress.result(f"wrote {len(document.findings)} findings to {request.output.path} ({request.output.form})")
    if request.plot is not None:
        _draw(request, document, request.plot)
        progress.result(f"wrote the plot to {request.plot}")


def _draw(request: Request, document: Document, path: Path) -> None:
    assert request.scenario.plot is not None  # --plot exists only where the scenario can draw
    quieten_matplotlib()
    figure = request.scenario.plot(document.evidence)
    simulated = " (simulated)" if document.machine.kind == "sim" else ""
    plot.add_machine(figure, document.machine.name + simulated)
    plot.save(figure, path, request.output.force)
