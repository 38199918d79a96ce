"""What many runs of one question say together, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from statistics import median
from typing import Any

from setebench.report.numbers import value_text
from setebench.results import Finding

MOST_VALUES = 3
"""Different values of a parameter that a row shows, the most frequent first."""


def render(document: Mapping[str, Any], width: int | None = None) -> str:
    """A row for each run and one for each parameter, those that contradict themselves first; then the totals."""
    runs = [
        [run["file"], str(run["answered"]), str(run["reported"]), f"{run['elapsed_seconds']:.0f}"]
        for run in document["runs"]
    ]
    ordered = sorted(document["parameters"].items(), key=lambda entry: -entry[1]["contradictions"])
    parameters = [[name, *_cells(each)] for name, each in ordered]
    heads = ["parameter", "answered", "bounds", "contradict", "spread", "values"]
    tables = printed([(["run", "answered", "reported", "seconds"], runs), (heads, parameters)], width)
    totals = document["totals"]
    fraction = "" if totals["answered_fraction"] is None else f" ({totals['answered_fraction']:.1%})"
    exact = totals["contradictions"] - totals["interval_contradictions"]
    return (
        f"{tables}{totals['answered']} of {totals['asked']} answered{fraction}\n"
        f"{totals['interval_contradictions']} of {totals['interval_pairs']} pairs of intervals are apart; of honest "
        f"95 % intervals {totals['expected_interval_contradictions']:.1f} would be\n"
        f"{exact} of {totals['pairs'] - totals['interval_pairs']} pairs of other answers contradict each other\n"
    )


def printed(tables: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]], width: int | None) -> str:
    """Heads and rows as plain tables; the first column is never folded, and all but `values` are to the right."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=StringIO(), width=width or 110, highlight=False, color_system=None)
    with console.capture() as capture:
        for (first, *heads), rows in tables:
            table = Table(box=None, pad_edge=False)
            table.add_column(first, no_wrap=True)
            for head in heads:
                table.add_column(head, justify="left" if head == "values" else "right")
            for row in rows:
                table.add_row(*row)
            console.print(table)
    return capture.get()


def _cells(each: Mapping[str, Any]) -> list[str]:
    counts = [f"{each['answered']} of {each['runs']}", str(each["bounds"])]
    contradict, spread = f"{each['contradictions']} of {each['pairs']}", each["spread"]
    return [*counts, contradict, "" if spread is None else f"{spread:.2f}", _values(each)]


def _values(parameter: Mapping[str, Any]) -> str:
    """The median of numbers with intervals, which hardly ever are the same; else the different values."""
    values = [each for each in parameter["values"] if each is not None]
    if parameter["interval_pairs"] and all(isinstance(each, (int, float)) for each in values):
        values = [median(values)]
    texts = (value_text(Finding(parameter="", value=each, unit=parameter["unit"])) for each in values)
    counted = Counter(texts).most_common()
    shown = [f"{text} ({times})" if len(counted) > 1 else text for text, times in counted[:MOST_VALUES]]
    return "; ".join(shown) + ("; ..." if len(counted) > MOST_VALUES else "")
