"""`setebench counters tables`: the event tables, their sources, and what sources disagree about."""

from __future__ import annotations

from pathlib import Path

import click

from setebench.cli.output import print_text
from setebench.errors import UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.report.text import in_columns

NOTICE = "No event was ever counted on hardware by this project: the tables say what sources say."


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
