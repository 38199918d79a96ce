"""The command of a scenario, with its own options and the common ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from setebench import session, store
from setebench.cli.options import (
    PATH,
    Number,
    machine_options,
    no_wait_option,
    output_options,
    quiet_option,
    register_options,
    several,
)
from setebench.cli.output import Output, Progress, quieten_matplotlib
from setebench.errors import SetebenchError, UsageError
from setebench.report.plots import plot
from setebench.results import Document
from setebench.scenario import Option, Scenario

Values = dict[str, Any]


def scenario_command(
    name: str, scenario: Scenario, then: Callable[[Document, Values], None] | None = None
) -> click.Command:
    """The command that runs `scenario`; `then` gets the document and the values of the other options. Raises
    `SetebenchError` where the scenario's options clash with those."""
    own = {f"own_{index}": option for index, option in enumerate(scenario.options)}

    def callback(**values: Any) -> None:
        document = run(scenario, {option.name: values.pop(key) for key, option in own.items()}, values)
        if then is not None:
            then(document, values)

    reported = ", ".join(f"{prefix}*" for prefix in scenario.parameters)
    drawing = "Draw the findings into FILE (.png, .svg or .pdf)."
    options = [
        *(_option(key, option) for key, option in own.items()),
        *(machine_options, register_options, output_options),
        click.option("--raw", is_flag=True, help="Record the machine's answers in the JSON, for setebench infer."),
        *([click.option("--plot", metavar="FILE", type=PATH, help=drawing)] if scenario.plot else []),
        *(quiet_option, no_wait_option),
    ]
    epilog = f"May report: {reported}" if reported else None
    summary = scenario.summary
    command = click.command(name, help=summary, short_help=summary, epilog=epilog)(several(*options)(callback))
    names = ["--help", *(each for parameter in command.params for each in parameter.opts)]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise SetebenchError(f"scenario {name!r} declares the option {twice}, which there is already; rename it")
    return command


def _option(key: str, option: Option) -> Callable[[Any], Any]:
    kind: Any = click.Choice(option.choices) if option.choices else Number() if option.type is float else option.type
    default = bool(option.default) if option.flag else option.default or () if option.multiple else option.default
    how: Values = {"is_flag": True} if option.flag else {"type": kind, "multiple": option.multiple}
    name = f"--{option.name.replace('_', '-')}"
    return click.option(name, key, default=default, help=option.help, **how)


def run(scenario: Scenario, options: Values, values: Values) -> Document:
    """Run the scenario with its own `options`, where `values` are the common ones by their names, and return what was
    written. Raises `UsageError` before measuring where the findings would have nowhere to go.

    Ctrl-C ends with status 130 and a line that says which files were written: whole ones, or none."""
    output, drawn = Output.choose(values), values.get("plot")
    if drawn is not None:
        plot.check_extension(drawn)
        store.check_target(drawn, output.force)
        if output.path is not None and output.path.resolve() == drawn.resolve():
            raise UsageError(f"--output and --plot both name {str(drawn)!r}; name two files")
    written: list[str] = []
    how = {name: values[name] for name in ("seed", "cpu", "fast", "msr", "raw")}
    with Progress(values["quiet"], lambda: f"{' and '.join(written) or 'nothing'} was written.") as progress:
        document = session.run(scenario, values["machine"], progress=progress, **how, **options)
        progress.close()
        warn_of_kinds(document, progress)
        words = scenario.words if output.path is None and output.form == "table" else None
        if words is None or document.findings:
            output.deliver(document)
        if words is not None:
            click.echo(words(document.evidence))
        if output.path is not None:
            written.append(str(output.path))
            progress.result(f"wrote {len(document.findings)} findings to {output.path} ({output.form})")
        if drawn is not None and scenario.plot is not None:
            draw(scenario.plot, document, drawn, output.force)
            written.append(str(drawn))
            progress.result(f"wrote the plot to {drawn}")
    return document


def warn_of_kinds(document: Document, progress: Progress) -> None:
    """Where there are several kinds of core, say that findings hold for one: a note of the machine's."""
    for note in document.machine.facts["notes"] if "kind_of_core" in document.settings else ():
        progress.result(note)


def draw(plotted: Callable[[dict[str, Any]], Any], document: Document, path: Path, force: bool) -> None:
    """Draw the evidence of a document into a file."""
    quieten_matplotlib()
    figure = plotted(document.evidence)
    if not figure.get_suptitle():
        name = document.machine.name + (" (simulated)" if document.machine.kind == "sim" else "")
        figure.suptitle(plot.literal(name), fontsize=9, color="0.3")
    plot.save(figure, path, force)
