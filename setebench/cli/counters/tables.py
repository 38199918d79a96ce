"""`setebench counters tables`: the event tables, their sources, and what sources disagree about."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from setebench import store
from setebench.cli.output import print_for_people, print_text
from setebench.errors import UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree, format_cpu_list

if TYPE_CHECKING:
    from setebench.native.perf.tables import EventSpec, Table

TEXT_WIDTH = 110
"""Columns of the text."""
NOTICE = "No event was ever counted on hardware by this project: the tables say what sources say."


@click.command("tables")
@click.argument("name", metavar="[TABLE]", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the list.",
)
def list_tables(name: str | None, form: str) -> None:
    """List the event tables, or show TABLE: the event of every role, the counters that can hold it, its sources, and
    what sources disagree about.

    TABLE may be 'here', the one of this processor. Nothing is counted.
    """
    chosen = _chosen(name)
    if form == "json":
        document = {"schema": 1, "kind": "counters tables", "tool": store.this_tool(), "tables": chosen}
        print_text(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
        return
    text = "".join(f"{line}\n" for line in (*(_one(*chosen.popitem()) if name else _all(chosen)), f"\n{NOTICE}"))
    print_for_people(lambda **_: text)


def _chosen(name: str | None) -> dict[str, Table]:
    from setebench.native.perf.tables import load_tables, table_for, why_none

    tables = load_tables()
    if name is None:
        return dict(tables)
    processor = read_processor(Tree(Path("/")))
    found = table_for(processor) if name == "here" else (name, tables[name]) if name in tables else None
    if found is None:
        what = why_none(processor) if name == "here" else f"there is no event table {name!r}"
        raise UsageError(f"{what}; there are tables of {', '.join(tables)}, and 'here'")
    return dict([found])


def _all(tables: dict[str, Table]) -> Iterator[str]:
    rows = [("table", "roles", "cross-checked", "processors")]
    for name, table in tables.items():
        checked = sum(spec.status == "cross-checked" for spec in table.roles.values())
        rows.append((name, str(len(table.roles)), str(checked), _processors(table)))
    yield from _columns(rows)


def _one(name: str, table: Table) -> Iterator[str]:
    yield f"{name}: {_processors(table)}\n"
    yield from _columns([(role, spec.status, _place(spec), spec.text) for role, spec in table.roles.items()])
    remarks = [(role, remark) for role, spec in table.roles.items() for remark in _remarks(spec)]
    remarks += [(each.get("about", ""), _said(each)) for each in table.conflicts]
    sources = [(key, ", ".join(each.values())) for key, each in table.sources.items()]
    for title, pairs in (("Remarks", remarks), ("No event for", table.absent.items()), ("Sources", sources)):
        yield f"\n{title}"
        for key, text in pairs:
            yield textwrap.fill(f"  {key}: {text}", TEXT_WIDTH, subsequent_indent="      ", break_on_hyphens=False)


def _processors(table: Table) -> str:
    return f"{table.title} ({'; '.join(match.names for match in table.processors if match.names)})"


def _place(spec: EventSpec) -> str:
    """Counters in short: "0-3, fixed 1"."""
    fixed = f", fixed {spec.fixed}" if spec.fixed is not None else ""
    wide = f", {spec.width} at once" if spec.width > 1 else ""
    return f"counters {format_cpu_list(spec.counters)}{fixed}{wide}"


def _remarks(spec: EventSpec) -> Iterator[str]:
    if spec.notes:
        yield spec.notes
    if spec.errata:
        yield f"errata {', '.join(spec.errata)}"
    if spec.includes_prefetch not in ("yes", "no"):
        yield f"lines that prefetchers request: {spec.includes_prefetch}"
    yield from map(_said, spec.conflicts)


def _said(conflict: Mapping[str, str]) -> str:
    return f"{conflict['source']}: {conflict['value']} {conflict.get('note', '')}".rstrip()


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows in columns; the last one is broken into lines where it is long."""
    widths = [max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1]]
    for row in rows:
        head = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        left = " " * len(head)
        yield textwrap.fill(row[-1], TEXT_WIDTH, initial_indent=head, subsequent_indent=left, break_on_hyphens=False)
