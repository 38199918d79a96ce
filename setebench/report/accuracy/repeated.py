"""What many runs of one question say together, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from setebench.report.text import in_columns, value_text
from setebench.results import Finding
from setebench.text import shortened


def render(document: Mapping[str, Any]) -> str:
    """A row for each run and one for each parameter, those that contradict themselves first; then the totals."""
    runs = [
        [run["file"], str(run["answered"]), str(run["reported"]), f"{run['elapsed_seconds']:.0f}"]
        for run in document["runs"]
    ]
    ordered = sorted(document["parameters"].items(), key=lambda entry: -entry[1]["contradictions"])
    first, *numbers = ["run", "answered", "reported", "seconds"]
    counts = ["answered", "bounds", "contradict", "spread"]
    totals = document["totals"]
    fraction = "" if totals["answered_fraction"] is None else f" ({totals['answered_fraction']:.1%})"
    exact = totals["contradictions"] - totals["interval_contradictions"]
    return (
        f"{in_columns(runs, [first, *numbers], numbers)}\n\n"
        f"{in_columns([[name, *_cells(each)] for name, each in ordered], ['parameter', *counts, 'values'], counts)}\n\n"
        f"{totals['answered']} of {totals['asked']} answered{fraction}\n"
        f"{totals['interval_contradictions']} of {totals['interval_pairs']} pairs of intervals are apart; of honest "
        f"95 % intervals {totals['expected_interval_contradictions']:.1f} would be\n"
        f"{exact} of {totals['pairs'] - totals['interval_pairs']} pairs of other answers contradict each other\n"
    )


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
    return "; ".join(shortened([f"{text} ({times})" if len(counted) > 1 else text for text, times in counted]))
