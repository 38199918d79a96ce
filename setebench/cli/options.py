"""Options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import reduce
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from setebench.host import lock
from setebench.report.table import FORMS

LARGEST_SEED = (1 << 63) - 1
PATH = click.Path(path_type=Path)
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Number(click.FloatRange):
    """A number in a range. One that is NaN is in every range that click checks, and an infinite one is no amount."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuse what is not finite, too."""
        number = float(super().convert(value, param, ctx))
        return number if isfinite(number) else self.fail(f"{value} is no finite number.", param, ctx)


def several(*options: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """One decorator of several."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


machine_option = click.option(
    "--machine",
    metavar="NAME",
    default="native",
    help="native, sim:NAME, sim:random:SEED, sim:FILE.toml or module:factory.",
)
cpu_option = click.option(
    "--cpu", type=click.IntRange(min=0), metavar="N", help="CPU to measure on.  [default: the machine's choice]"
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, LARGEST_SEED), metavar="N", default=1, help="Seed of all random choices."
)
fast_option = click.option("--fast", is_flag=True, help="Take fewer samples: faster, with wider intervals.")
machine_options = several(machine_option, cpu_option, seed_option, fast_option)
register_options = several(
    click.option(
        "--msr",
        is_flag=True,
        help="Let prefetchers be switched off for a while, where that adds something: writes registers (MSRs).",
    ),
    click.option("--no-msr", is_flag=True, hidden=True, expose_value=False),
)
"""--msr, and --no-msr of earlier versions, which changes nothing."""

quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress.")
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")
file_options = several(
    click.option("-o", "--output", metavar="FILE", type=PATH, help="Write to FILE instead of standard output (-)."),
    force_option,
)
"""`output`, a path or None, and `force`, for data that has one form."""


def forms_options(forms: Collection[str]) -> Callable[[Decorated], Decorated]:
    """`file_options`, and `form`, one of these or None."""
    help_text = "Form.  [default: table, or by FILE's extension]"
    return several(click.option("--format", "form", type=click.Choice(tuple(forms)), help=help_text), file_options)


output_options = forms_options(FORMS)
"""Where every command that reports findings writes them."""

form_option = click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="Form.")
folder_option = click.option(
    "-o", "--output", "folder", required=True, metavar="DIR", type=PATH, help="Write the results to DIR."
)
program_options = several(
    click.option(
        "--duration", type=Number(min=0, min_open=True), metavar="SECONDS", help="Stop after this time at the latest."
    ),
    click.option("--child-status", is_flag=True, help="Return the program's exit status instead of 0."),
    click.argument("command", metavar="PROGRAM [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED),
)
"""Of commands that run a program."""

no_wait_option = click.option(
    "--no-wait",
    is_flag=True,
    expose_value=False,
    callback=lambda _context, _option, given: os.environ.update({lock.NO_WAIT: "1"} if given else {}),
    help="Fail if another measurement is running, instead of waiting for its end.",
)
result_argument = click.argument("result", metavar="RESULT", type=PATH)


def is_given(name: str) -> bool:
    """Whether the user gave that option of the present command."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
