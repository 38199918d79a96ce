"""Plots of the accuracy page: coverage of intervals, and how answers stand, a line for each parameter. Readable in
grey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.report.plots.plot import literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STANDINGS = (
    ("right", "right", "0.85", ""),
    ("bounded", "bounded", "0.6", "///"),
    ("open", "open", "1.0", "..."),
    ("wrong", "wrong", "0.0", ""),
)
"""How an answer stands, its label, grey and hatching: each differs from its neighbours by both or by much grey."""

PROMISED = 95.0
LINE_INCHES = 0.15
FRAME_INCHES = 1.1
ALL = "all parameters"

Table = Mapping[str, Any]


def outcomes_figure(title: str, table: Table) -> Figure:
    """For each parameter of a table of `judge.accuracy` the parts of the machines on which it was right, bounded, open
    and wrong, in per cent."""
    rows = {ALL: table, **table["parameters"]}
    figure, axes = _lines(title, list(rows))
    left = [0.0] * len(rows)
    for key, label, grey, hatch in STANDINGS:
        shares = [100 * _number(row[key]) / row["judged"] for row in rows.values()]
        axes.barh(
            range(len(rows)),
            shares,
            left=left,
            height=0.8,
            color=grey,
            hatch=hatch,
            edgecolor="0.2",
            linewidth=0.3,
            label=label,
        )
        left = [begin + share for begin, share in zip(left, shares, strict=True)]
    axes.set(xlabel="machines that have the parameter (%)", xlim=(0, 100))
    figure.legend(loc="outside upper right", ncols=len(STANDINGS), fontsize=7, frameon=False)
    return figure


def _number(value: Any) -> int:
    """A count, or the hits of a proportion."""
    return int(value["hits"] if isinstance(value, Mapping) else value)


def has_coverage(table: Table) -> bool:
    """Whether any interval of a continuous parameter was measured."""
    return any(row["coverage"]["trials"] for row in table["parameters"].values())


def coverage_figure(title: str, table: Table) -> Figure | None:
    """For each continuous parameter the part of its measured 95 % intervals that hold the truth, in per cent, with the
    95 % interval of that part; None where there is none."""
    if not has_coverage(table):
        return None
    parts = {name: row["coverage"] for name, row in table["parameters"].items() if row["coverage"]["trials"]}
    rows = {ALL: table["calibration"]["continuous"], **parts}
    figure, axes = _lines(title, [f"{name} ({part['trials']})" for name, part in rows.items()])
    middles = [100 * part["fraction"] for part in rows.values()]
    errors = [
        [100 * (part["fraction"] - part["low"]) for part in rows.values()],
        [100 * (part["high"] - part["fraction"]) for part in rows.values()],
    ]
    axes.errorbar(middles, range(len(rows)), xerr=errors, fmt="o", color="0.0", markersize=3, elinewidth=0.8, capsize=2)
    axes.axvline(PROMISED, color="0.4", linestyle="--", linewidth=0.8, label="as promised")
    axes.set(xlabel="95 % intervals that hold the truth (%), with the interval of that part", xlim=(0, 101))
    figure.legend(loc="outside upper right", fontsize=7, frameon=False)
    return figure


def _lines(title: str, names: list[str]) -> tuple[Figure, Axes]:
    """A figure as tall as it needs to be for a line of each name, the first one on top."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, FRAME_INCHES + LINE_INCHES * len(names)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_yticks(range(len(names)), [literal(name) for name in names], fontsize=6)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title(literal(title), fontsize=9, loc="left")
    axes.grid(True, axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes
