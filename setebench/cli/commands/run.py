"""Run one scenario: check where the findings go, open the machine, measure, make the document, hand it over."""

from __future__ import annotations

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


def run(scenario: Scenario, options: dict[str, Any], values: dict[str, Any]) -> Document:
    """Answer the question with its own `options`, where `values` are the common ones by their names, and return what
    was written. Raises `UsageError` before measuring where the findings would have nowhere to go.

    Ctrl-C ends with status 130 and a line that says which files were written: whole ones, or none.
    """
    output, drawn = Output.choose(values["output"], values["form"], values["force"]), values.get("plot")
    _check_targets(output, drawn)
    before = _inodes(output.path, drawn)
    progress = Progress(quiet=values["quiet"], verbose=values["verbose"])
    try:
        document = session.ask(
            scenario,
            values["machine"],
            options,
            noted=progress.detail,
            progress=progress,
            on_finding=lambda finding: report_finding(finding, progress),
            **{name: values[name] for name in ("seed", "cpu", "fast", "msr", "raw")},
        )
        progress.close()
        _deliver(scenario, document, output, progress)
        if drawn is not None:
            _draw(scenario, document, drawn, values["force"])
            progress.result(f"wrote the plot to {drawn}")
        return document
    except KeyboardInterrupt:
        progress.close()
        written = [str(path) for path, inode in _inodes(output.path, drawn).items() if inode != before[path]]
        click.echo(f"\nInterrupted; {' and '.join(written) or 'nothing'} was written.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        progress.close()


def _inodes(*targets: Path | None) -> dict[Path, int | None]:
    """Which file each target is; another one once it has been written, wherever the interrupt came."""
    return {path: path.stat().st_ino if path.exists() else None for path in targets if path is not None}


def _check_targets(output: Output, drawn: Path | None) -> None:
    output.check()
    if drawn is None:
        return
    plot.check_extension(drawn)
    store.check_target(drawn, output.force)
    if output.path is not None and output.path.resolve() == drawn.resolve():
        raise UsageError(f"--output and --plot both name {str(drawn)!r}; name two files")


def report_finding(finding: Finding, progress: Progress) -> None:
    """Say a finding as it comes, to those who asked for detail."""
    text = finding.reason or " ".join((value_text(finding), interval_text(finding)))
    progress.detail(f"{finding.parameter}: {text}")


def warn_of_kinds(document: Document, progress: Progress) -> None:
    """Where there are several kinds of core, say that findings hold for one: a note of the machine's."""
    for note in document.machine.facts["notes"] if "kind_of_core" in document.settings else ():
        progress.result(note)


def _deliver(scenario: Scenario, document: Document, output: Output, progress: Progress) -> None:
    warn_of_kinds(document, progress)
    words = scenario.words if output.path is None and output.form == "table" else None
    if words is None or document.findings:
        output.deliver(document)
    if words is not None:
        click.echo(words(document.evidence))
    if output.path is not None:
        progress.result(f"wrote {len(document.findings)} findings to {output.path} ({output.form})")


def _draw(scenario: Scenario, document: Document, path: Path, force: bool) -> None:
    assert scenario.plot is not None  # --plot exists only where the scenario can draw
    quieten_matplotlib()
    figure = scenario.plot(document.evidence)
    simulated = " (simulated)" if document.machine.kind == "sim" else ""
    plot.add_machine(figure, document.machine.name + simulated)
    plot.save(figure, path, force)
