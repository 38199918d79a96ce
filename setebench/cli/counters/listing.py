"""`setebench counters list`, `tables` and `header`: what can be counted, by which events, and in which programs."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from setebench.cli.output import print_text
from setebench.errors import UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.report.text import in_columns

NOTICE = "No event was ever counted on hardware by this project: the tables say what sources say."


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


@click.command("tables")
@click.argument("name", metavar="[TABLE]", required=False)
def list_tables(name: str | None) -> None:
    """List the event tables, or print one. TABLE is a TOML file: the event of every role, the counters that can hold
    it, its sources, and what sources disagree about.

    TABLE may be 'here', the one of this processor. Nothing is counted.
    """
    from setebench.native.perf.tables import FOLDER, load_tables, table_for, why_none

    tables = load_tables()
    if name is None:
        rows = []
        for key, table in tables.items():
            named = "; ".join(match.names for match in table.processors if match.names)
            rows.append((key, str(len(table.roles)), table.title, named))
        print_text(f"{in_columns(rows, ('table', 'roles', 'processors', 'named'))}\n\n{NOTICE}\n")
        return
    here = read_processor(Tree(Path("/"))) if name == "here" else None
    found = (table_for(here) or ("",))[0] if here is not None else name
    if found not in tables:
        what = f"there is no event table {name!r}" if here is None else why_none(here)
        raise UsageError(f"{what}; there are tables of {', '.join(tables)}, and 'here'")
    print_text((FOLDER / f"{found}.toml").read_bytes())


@click.command()
@click.option("--dir", "folder", is_flag=True, help="Print the folder instead, for the compiler's -I.")
def header(folder: bool) -> None:
    """Print the path of setebench.h. It marks regions of C and C++ programs; there is nothing to link.

    cc -I"$(setebench counters header --dir)" program.c
    """
    place = files("setebench") / "include"
    print_text(f"{place if folder else place / 'setebench.h'}\n")
