"""`setebench counters list` and `header`: what can be counted, by which events, and in which programs."""

from __future__ import annotations

from importlib.resources import files

import click

from setebench.cli.output import print_text
from setebench.report.text import in_columns


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the events of PMUs that the kernel names.")
def list_roles(everything: bool) -> None:
    """List what can be counted here. Each role has its meaning, unit and event, or why it can't be.

    Nothing is counted. That an event can be counted doesn't say that it counts what its role says.
    """
    from setebench.native.perf.encode import Resolver

    offers = list(Resolver().offers(everything))
    reasons = list(dict.fromkeys(each.reason for each, _ in offers if each.reason))  # below, as most roles share one
    numbers = {reason: f"[{number}]" for number, reason in enumerate(reasons, 1)}
    cells = [(each.name, each.unit, numbers.get(each.reason) or each.event, meaning) for each, meaning in offers]
    below = "".join(f"\n{number} not here: {reason}" for reason, number in numbers.items())
    print_text(f"{in_columns(cells, ('name', 'unit', 'event', 'meaning'))}\n{below}\n")


@click.command()
@click.option("--dir", "folder", is_flag=True, help="Print the folder instead, for the compiler's -I.")
def header(folder: bool) -> None:
    """Print the path of setebench.h. It marks regions of C and C++ programs; there is nothing to link.

    cc -I"$(setebench counters header --dir)" program.c
    """
    place = files("setebench") / "include"
    print_text(f"{place if folder else place / 'setebench.h'}\n")
