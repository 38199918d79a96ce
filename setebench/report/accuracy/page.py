"""The page of published accuracy, one screen of Markdown: what silicon answered, then what a sealed score found by
scenario, then the parameters whose answers were wrong or whose intervals don't hold what they promise."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from setebench.report.accuracy.scored import SHARES, Document, by_scenario, failures, fraction
from setebench.report.text import in_columns
from setebench.text import visible

READING = """\
Machines are random ones of the simulator, whose every parameter is known. Their seeds follow from the hash of the
inference alone, so that nobody had seen or chosen them ([score.md](score.md#sealed-runs-seeds-that-nobody-has-seen));
what is not drawn is [named](score.md#what-the-machines-are-like). *right* are measured values that are true, *bounded*
true bounds within 20 % of the truth, *open* is what was not answered and bounds further off, *wrong* anything else,
also a value for what a machine lacks. *coverage* is the part of the 95 % intervals of measured latencies, penalties and
rates that hold the truth. Brackets hold 95 % intervals over machines."""
NOTHING = "No sealed run of this inference is published yet. `make accuracy` makes one and writes this page."
HEADS = ("machines", "without a wrong row", "rows", *SHARES, "coverage")


def page(runs: Sequence[Document], before: Sequence[str]) -> str:
    """Score documents of sealed runs as Markdown, behind lines about silicon."""
    lines = ["# How often it was right", "", *before]
    for run in runs:
        lines += ["", f"    {_command(run)}", "", *_overview(run), "", *_about(run)]
    return "\n".join([*lines, "", READING if runs else NOTHING]) + "\n"


def _command(run: Document) -> str:
    settings = run["settings"]
    words = ["setebench", "score", "--sealed", "--machines", str(len(run["machines"]))]
    words += [word for name in settings["scenarios"] for word in ("--scenario", name)]
    words += ["--noise", settings["noise"]] if settings["noise"] != "drawn" else []
    words += [f"--{name.replace('_', '-')}" for name in ("fast", "from_findings") if settings.get(name)]
    return shlex.join(words)


def _overview(run: Document) -> Iterator[str]:
    """A line for each scenario and one for all together; then those parameters that something is wrong with."""
    together = {**run["by_machine"], "calibration": run["calibration"]}
    rows = [[name, *_cells(table)] for name, table in [*run["accuracy"].items(), ("all together", together)]]
    yield in_columns(rows, ["scenario", *HEADS], markdown=True)
    every = [entry for each in run["accuracy"].values() for entry in each["parameters"].items()]
    bad = [name for name, row in every if row["wrong"] or row["miscalibrated"]]
    named = [[f"`{row[0]}`", *row[1:-1]] for _, rows in by_scenario(run["accuracy"]) for row in rows if row[0] in bad]
    if named:
        yield f"\n{in_columns(named, ['wrong or miscalibrated', 'rows', *SHARES, 'coverage'], markdown=True)}"


def _cells(table: Document) -> list[str]:
    shares = [fraction(table[name], name == "wrong") for name in SHARES]
    coverage = fraction(table["calibration"]["continuous"])
    return [str(table["machines"]), fraction(table["without_wrong"]), str(table["rows"]), *shares, coverage]


def _about(run: Document) -> Iterator[str]:
    count, seconds = len(run["machines"]), sum(run["cpu_seconds"])
    yield (
        f"All {count} machines that were planned answered, in {seconds / count:.0f} CPU seconds each (begun "
        f"{run['begun']}); inference `{run['inference'][:16]}`, simulator `{run['simulator'][:16]}`. The second table "
        "holds each parameter with a wrong row or with a coverage that differs from 95 % (after Holm's correction). "
        f"{len(run['constant'])} parameters are nearly the same on all machines: right answers to them count nowhere."
    )
    yield from (f"* {visible(remark)}" for remark in failures(run))
