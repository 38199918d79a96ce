"""`setebench counters tables`: what the event tables say, on any machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from setebench.cli.main import setebench
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native.perf.tables import load_tables, table_for


def tables(*arguments: str) -> Result:
    return CliRunner().invoke(setebench, ["counters", "tables", *arguments])


def words(result: Result) -> str:
    """The output on one line, as long texts are broken."""
    return " ".join(result.stdout.split())


def test_every_table_is_listed_and_that_nothing_was_validated() -> None:
    result = tables()
    assert result.exit_code == 0 and "No event was ever counted on hardware" in result.stdout
    for name, table in load_tables().items():
        assert f"\n{name} " in result.stdout and table.title in result.stdout


@pytest.mark.parametrize("name", load_tables())
def test_a_table_shows_every_role_and_every_source(name: str) -> None:
    shown = words(tables(name))
    table = load_tables()[name]
    for role, spec in table.roles.items():
        assert f"{role} {spec.status}" in shown and spec.text in shown and spec.notes in shown
        assert all(erratum in shown for erratum in spec.errata)
    for role, reason in table.absent.items():
        assert f"{role}: {reason}" in shown
    assert all(source.path in shown and source.commit[:12] in shown for source in table.sources.values())


def test_a_name_that_there_is_not_costs_one_line() -> None:
    result = tables("nosuch")
    assert result.exit_code == 2 and result.output.count("\n") == 1 and "zen5" in result.output


def test_the_table_of_this_processor_or_why_there_is_none() -> None:
    result = tables("here")
    found = table_for(read_processor(Tree(Path("/"))))
    if found is None:
        assert result.exit_code == 2 and "no event table for" in result.output and result.output.count("\n") == 1
    else:
        assert result.exit_code == 0 and result.stdout.startswith(f"{found[0]}: ")
