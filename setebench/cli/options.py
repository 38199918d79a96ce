"""The options of commands; those of a scenario come from its own declaration."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from setebench.errors import SetebenchError, UsageError
from setebench.host import lock

if TYPE_CHECKING:
    from setebench.results import Document
    from setebench.scenario import Option, Scenario

FORMS = ("table", "overview", "json", "csv", "markdown", "latex")
_LARGEST_SEED = (1 << 63) - 1
_Function = TypeVar("_Function", bound=Callable[..., Any])


folder_option = click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the results to DIR.",
)
duration_option = click.option(
    "--duration",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time at the latest.",
)
child_status_option = click.option(
    "--child-status", is_flag=True, help="Return the program's exit status instead of 0."
)
no_wait_option = click.option(
    "--no-wait",
    is_flag=True,
    expose_value=False,
    callback=lambda _context, _option, given: os.environ.update({lock.NO_WAIT: "1"} if given else {}),
    help="Fail if another measurement is running, instead of waiting for its end.",
)
program_argument = click.argument("command", metavar="PROGRAM [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
"""What several commands have alike, as decorators."""


def is_given(name: str) -> bool:
    """Whether the user gave that option of the present command."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def file_options(function: _Function) -> _Function:
    """Decorator that gives a command -o and --force as `output`, a path or None, and `force`, for data that has forms
    of its own."""
    output = click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write to FILE instead of standard output (-).",
    )
    return output(click.option("--force", is_flag=True, help="Replace FILE if it exists.")(function))


def output_parameters() -> list[click.Option]:
    """--format, -o and --force: where every command that reports findings writes them."""
    return [
        click.Option(
            ["--format", "form"],
            type=click.Choice(FORMS),
            help="Form of the findings.  [default: table, or by FILE's extension]",
        ),
        click.Option(["-o", "--output"], metavar="FILE", help="Write to FILE instead of standard output (-)."),
        click.Option(["--force"], is_flag=True, help="Replace files that exist."),
    ]


def output_options(function: _Function) -> _Function:
    """Decorator that gives a command the options of `output_parameters` as `form`, `output` and `force`."""
    parameters = list(reversed(output_parameters()))
    function.__click_params__ = [*getattr(function, "__click_params__", []), *parameters]  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class Further:
    """Options that a command has beside those of its scenario, and what is done with the document and their values."""

    parameters: tuple[click.Option, ...]
    then: Callable[[Document, dict[str, Any]], None]


def scenario_command(name: str, scenario: Scenario, more: Further | None = None) -> click.Command:
    """The command that runs `scenario`. Raises `SetebenchError` where its options clash with the common ones."""
    own = {f"own_{index}": option for index, option in enumerate(scenario.options)}
    parameters = [*(_own_parameter(key, option) for key, option in own.items()), *_common_parameters(scenario)]
    parameters += more.parameters if more else ()
    _refuse_clashes(name, parameters)

    def callback(**values: Any) -> None:
        from setebench.cli.commands.run import run

        if values["quiet"] and values["verbose"]:
            raise UsageError("--quiet and --verbose exclude each other")
        document = run(scenario, {option.name: values.pop(key) for key, option in own.items()}, values)
        if more is not None:
            more.then(document, values)

    reported = ", ".join(f"{prefix}*" for prefix in scenario.parameters)
    command = click.Command(
        name,
        callback=callback,
        params=list(parameters),
        help=scenario.summary,
        short_help=scenario.summary,
        epilog=f"May report: {reported}" if reported else None,
    )
    return no_wait_option(command)


def _common_parameters(scenario: Scenario) -> list[click.Option]:
    plot = (
        [
            click.Option(
                ["--plot"],
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="Draw the findings into FILE (.png, .svg or .pdf).",
            )
        ]
        if scenario.plot
        else []
    )
    raw = click.Option(["--raw"], is_flag=True, help="Record the machine's answers in the JSON, for setebench infer.")
    return [*machine_parameters(), *register_parameters(), *output_parameters(), raw, *plot, *talk_parameters()]


def machine_parameters() -> list[click.Option]:
    """--machine, --cpu, --seed and --fast: what to measure, and how carefully."""
    return [
        click.Option(
            ["--machine"],
            metavar="NAME",
            default="native",
            show_default=True,
            help="native, sim:NAME, sim:random:SEED, sim:FILE.toml or module:factory.",
        ),
        click.Option(
            ["--cpu"],
            type=click.IntRange(min=0),
            metavar="N",
            help="CPU to measure on.  [default: the machine's choice]",
        ),
        click.Option(
            ["--seed"],
            type=click.IntRange(min=0, max=_LARGEST_SEED),
            metavar="N",
            default=1,
            show_default=True,
            help="Seed of all random choices.",
        ),
        click.Option(["--fast"], is_flag=True, help="Take fewer samples: faster, with wider intervals."),
    ]


def register_parameters() -> list[click.Option]:
    """--msr, and --no-msr of earlier versions, which changes nothing."""
    wanted = "Let prefetchers be switched off for a while, where that adds something: writes registers (MSRs)."
    old = click.Option(["--no-msr"], is_flag=True, hidden=True, expose_value=False)
    return [click.Option(["--msr"], is_flag=True, help=wanted), old]


def talk_parameters() -> list[click.Option]:
    """--quiet and --verbose."""
    return [
        click.Option(["-q", "--quiet"], is_flag=True, help="No progress."),
        click.Option(
            ["-v", "--verbose"], is_flag=True, help="Progress with times, findings as they come, notes on the machine."
        ),
    ]


def _own_parameter(key: str, option: Option) -> click.Option:
    declaration = [f"--{option.name.replace('_', '-')}", key]
    if option.flag:
        return click.Option(declaration, is_flag=True, default=bool(option.default), help=option.help)
    kind: Any = click.Choice(option.choices) if option.choices else option.type
    shown = option.default not in (None, (), [])
    if option.multiple:
        return click.Option(
            declaration, type=kind, multiple=True, default=option.default or (), show_default=shown, help=option.help
        )
    return click.Option(declaration, type=kind, default=option.default, show_default=shown, help=option.help)


def _refuse_clashes(name: str, parameters: list[click.Option]) -> None:
    seen = {"--help"}
    for parameter in parameters:
        for option in parameter.opts:
            if option in seen:
                raise SetebenchError(
                    f"scenario {name!r} declares the option {option}, which there is already; rename it"
                )
            seen.add(option)
