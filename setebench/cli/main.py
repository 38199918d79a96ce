"""The command line: a group whose commands are only imported when they are used."""

from __future__ import annotations

import os
import threading
from typing import Any

import click
from click.shell_completion import CompletionItem

from setebench import registry
from setebench.cli.lazy import LazyCommands
from setebench.errors import INTERRUPTED, SetebenchError, UsageError
from setebench.text import visible

TOOLS = {
    "characterize": (
        "setebench.cli.commands.characterize:characterize",
        "Run every scenario and print one table.",
    ),
    "compare": ("setebench.cli.commands.compare:compare_command", "Compare results, or published values."),
    "counters": ("setebench.cli.counters:counters", "Check event counters, and count events of programs."),
    "diagnose": ("setebench.cli.commands.diagnose:diagnose", "Run a program and say what limits it, and what to try."),
    "doctor": (
        "setebench.cli.commands.doctor:doctor",
        "Say what would disturb a measurement here, and what to do.",
    ),
    "export": (
        "setebench.cli.commands.export:export_command",
        "Write a result as configuration for compilers, libraries or simulators.",
    ),
    "fit": ("setebench.cli.simulated.fit:fit_command", "Improve a result's twin where the machine contradicts it."),
    "fleet": ("setebench.cli.fleet:fleet", "Measure many nodes that ought to be equal, and find the odd ones."),
    "infer": (
        "setebench.cli.commands.infer:infer",
        "Run the inference again on recorded answers, without a machine.",
    ),
    "repeat": ("setebench.cli.commands.repeat:repeat", "Repeat a scenario and compare the answers."),
    "report": ("setebench.cli.commands.report:report", "Make one self-contained HTML page, or a table, of results."),
    "score": ("setebench.cli.simulated.score:score", "Score the inference on simulated machines whose truth is known."),
    "show": ("setebench.cli.commands.show:show", "Print a result file as a table, CSV, Markdown, LaTeX or JSON."),
    "show-asm": ("setebench.cli.commands.show_asm:show_asm", "Show the machine code of a probe or a snippet."),
    "twin": (
        "setebench.cli.simulated.twin:twin_command",
        "Make a simulated machine with the parameters of a result.",
    ),
    "sim": ("setebench.cli.simulated.sim:sim", "List simulated machines and print their files and true parameters."),
    "verify": (
        "setebench.cli.simulated.verify:verify_command",
        "Compare a result's twin with the machine on random probes.",
    ),
}
"""Commands that are no scenarios: where each lives, and its line in `--help`."""


class _CouldNotRun(click.ClickException):
    """A `SetebenchError` on its way out: one line on stderr, no traceback."""

    exit_code = 1


class _BadUse(click.ClickException):
    """A `UsageError` on its way out."""

    exit_code = 2


class LazyGroup(LazyCommands):
    """Lists scenarios and tools without importing them, and turns errors into exit statuses in one place."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*registry.catalogue(), *TOOLS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in TOOLS:
            return super().get_command(ctx, cmd_name)
        entry = registry.catalogue().get(cmd_name)
        if entry is None:
            return None
        from setebench.cli.options import scenario_command

        return scenario_command(cmd_name, entry.load())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names with their lines, again without importing: this runs at every press of the tab key."""
        lines = {name: entry.summary for name, entry in registry.catalogue().items()}
        lines |= {name: line for name, (_, line) in TOOLS.items()}
        commands = [CompletionItem(name, help=lines[name]) for name in sorted(lines) if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 20
        scenarios = [
            (name, _clipped(entry.summary, limit)) for name, entry in registry.catalogue().items() if name not in TOOLS
        ]
        for heading, rows in (
            ("Scenarios", scenarios),
            ("Other commands", [(name, line) for name, (_, line) in TOOLS.items()]),
        ):
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SetebenchError as error:
            failure = _BadUse if isinstance(error, UsageError) else _CouldNotRun
            raise failure(visible(" ".join(str(error).split()))) from error
        except (KeyboardInterrupt, RuntimeError) as error:
            try:
                threading.Thread(target=int).start()
            except RuntimeError:  # linear algebra that can't begin its threads interrupts its own process
                why = "no thread can be begun: raise ulimit -u and -v, let clone3 pass, or set OPENBLAS_NUM_THREADS=1"
                raise _CouldNotRun(why) from error
            if isinstance(error, RuntimeError):
                raise
            click.echo("\nInterrupted.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def _clipped(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * limit else line[: 2 * limit - 1].rstrip() + "…"


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from setebench.store import this_tool

    click.echo(f"setebench {this_tool().version}")
    ctx.exit()


def _add_folders(ctx: click.Context, _parameter: click.Parameter, folders: tuple[str, ...]) -> None:
    if not folders:
        return
    for folder in folders:
        if not os.path.isdir(folder):
            raise click.BadParameter(f"{folder!r} is no directory", ctx, _parameter)
    known = os.environ.get(registry.PATH_VARIABLE)
    os.environ[registry.PATH_VARIABLE] = os.pathsep.join([*folders, *([known] if known else [])])
    registry.catalogue.cache_clear()


@click.group(cls=LazyGroup, commands_at=TOOLS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--scenario-path",
    metavar="DIR",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_add_folders,
    help=f"Take the scenario files in DIR too (also by the environment variable {registry.PATH_VARIABLE}).",
)
def setebench() -> None:
    """Measure what a memory system does that its vendor doesn't document.

    Each scenario measures one thing on this CPU, on a simulated machine (--machine sim:NAME) or on one of your own
    (--machine module:factory), and reports values with 95 % intervals.

    Exit status: 0 the question was answered, 1 it could not be run, 2 bad use, 130 interrupted.
    """
