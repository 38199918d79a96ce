"""The command line: commands that are only imported when they are used, and the one place that prints errors."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import click

from setebench import registry
from setebench.errors import EXTRAS, INTERRUPTED, SetebenchError, UsageError, not_installed
from setebench.text import visible

TOOLS = {
    "characterize": ("characterize:characterize", "Run every scenario and print one table."),
    "compare": ("documents:compare_command", "Compare results, or published values."),
    "counters": ("counters:counters", "Check event counters, and count events of programs."),
    "diagnose": ("diagnose:diagnose", "Run a program and say what limits it, and what to try."),
    "doctor": ("doctor:doctor", "Say what would disturb a measurement here, and what to do."),
    "export": ("documents:export_command", "Write a result as configuration for compilers, libraries or simulators."),
    "fit": ("simulation.simulated:fit_command", "Improve a result's twin where the machine contradicts it."),
    "fleet": ("fleet:fleet", "Measure many nodes that ought to be equal, and find the odd ones."),
    "infer": ("documents:infer", "Run the inference again on recorded answers, without a machine."),
    "repeat": ("fleet:repeat", "Repeat a scenario and compare the answers."),
    "report": ("documents:report", "Make one self-contained HTML page of results."),
    "score": ("simulation.score:score", "Score the inference on simulated machines whose truth is known."),
    "show": ("documents:show", "Print a result file as a table, CSV, Markdown, LaTeX or JSON."),
    "show-asm": ("show_asm:show_asm", "Show the machine code of a probe."),
    "twin": ("simulation.simulated:twin_command", "Make a simulated machine with the parameters of a result."),
    "sim": ("simulation.simulated:sim", "List simulated machines and print their files and true parameters."),
    "verify": ("simulation.simulated:verify_command", "Compare a result's twin with the machine on random probes."),
}
"""Commands that are no scenarios: where each lives below this package, and its line in `--help`."""

LONGEST = 4000
"""Characters of an error's line, which may quote the whole of a damaged file."""


def _failure(error: SetebenchError) -> click.ClickException:
    """An error of ours on its way out: one line on stderr, no traceback."""
    text = visible(" ".join(str(error).split()))
    failure = click.ClickException(text if len(text) <= LONGEST else f"{text[:LONGEST]} ...")
    failure.exit_code = 2 if isinstance(error, UsageError) else 1  # type: ignore[misc]
    return failure


class _Commands(click.Group):
    """Scenarios and tools, imported when they are used; turns errors into exit statuses in one place."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*registry.catalogue(), *TOOLS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in TOOLS:
            module, _, attribute = TOOLS[cmd_name][0].partition(":")
            tool: click.Command = getattr(importlib.import_module(f"setebench.cli.{module}"), attribute)
            return tool
        entry = registry.catalogue().get(cmd_name)
        if entry is None:
            return None
        from setebench.cli.run import scenario_command

        return scenario_command(cmd_name, entry.load())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        scenarios = [(name, entry.summary) for name, entry in registry.catalogue().items() if name not in TOOLS]
        for heading, lines in (
            ("Scenarios", scenarios),
            ("Other commands", [(name, TOOLS[name][1]) for name in TOOLS]),
        ):
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SetebenchError as error:
            raise _failure(error) from error
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            raise _failure(not_installed(error.name)) from error
        except MemoryError as error:
            raise _failure(SetebenchError(f"there is too little memory (or see ulimit -v). {error}")) from error
        except (KeyboardInterrupt, RuntimeError) as error:
            try:
                threading.Thread(target=int).start()
            except RuntimeError:  # linear algebra that can't begin its threads interrupts its own process
                why = "no thread can be begun: raise ulimit -u and -v, let clone3 pass, or set OPENBLAS_NUM_THREADS=1"
                raise _failure(SetebenchError(why)) from error
            if isinstance(error, RuntimeError):
                raise
            click.echo("\nInterrupted.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="setebench", message="%(prog)s %(version)s")
def setebench() -> None:
    """Measure what a memory system does that its vendor doesn't document.

    Each scenario measures one thing on this CPU, on a simulated machine (--machine sim:NAME) or on one of your own
    (--machine module:factory), and reports values with 95 % intervals.

    Exit status: 0 the question was answered, 1 it could not be run, 2 bad use, 3 something differs (--exit-code), 130
    interrupted.
    """
