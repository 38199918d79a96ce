"""The page of published accuracy: what sealed scores found, by run, scenario and parameter, as Markdown and as a
document for programs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from setebench.report.accuracy.scored import HEADS, SHARES, Document, by_scenario, fraction, remarks
from setebench.report.text import in_columns
from setebench.text import visible

READING = """\
Machines are random ones of the simulator, whose every parameter is known; *sealed* says that their seeds follow
from a nonce and the hash of the inference, so that nobody had seen them
([score.md](score.md#sealed-runs-seeds-that-nobody-has-seen)). What holds there holds for silicon only as far as
silicon resembles them.

*right* are values that are true, *bounded* true bounds within 20 % of the truth, *open* is what was not answered and
bounds further off, *wrong* anything else, also a value for what a machine lacks
([parameters.md](parameters.md#the-score-document)). What a constant would get right counts only where it is wrong.
*coverage* is the part of the measured 95 % intervals of continuous parameters that hold the truth; *width* the median
width of these intervals relative to the truth. Brackets hold 95 % intervals over machines. *rows* says how many answers
a line rests on: of one parameter as many machines, of all pairs of cores and of lines' sizes one a machine."""
NOTHING = (
    "No sealed run has been published here yet, so nothing is claimed about how often answers are right. "
    "`make accuracy` writes this page."
)


def published(scores: Sequence[Document]) -> dict[str, Any]:
    """The document of the accuracy page, schema 1: the score documents, named A, B, ... in this order, without single
    answers and with the command that repeats each."""
    runs = [
        {"run": chr(ord("A") + number), "command": _command(score), **score, "parameters": None, "wrong": None}
        for number, score in enumerate(scores)
    ]
    return {"schema": 1, "runs": runs}


def _command(score: Document) -> str:
    settings = score["settings"]
    words = ["setebench", "score", "--sealed", score["sealed"]["nonce"], "--machines", str(score["planned"])]
    words += [word for name in settings["scenarios"] for word in ("--scenario", name)]
    words += ["--noise", settings["noise"]] if settings["noise"] != "drawn" else []
    words += [f"--{name.replace('_', '-')}" for name in ("fast", "from_findings") if settings.get(name)]
    return shlex.join(words)


def page(document: Document) -> str:
    """The document as Markdown. A page without any run says that nothing is claimed."""
    runs = document["runs"]
    lines = ["# How often it was right", "", _overview(runs) if runs else NOTHING, "", READING]
    for run in runs:
        answered = len(run["machines"]) - len(run["lost"])
        lines += ["", f"## Run {run['run']}", "", f"    {run['command']}", ""]
        lines.append(
            f"{answered} of {run['planned']} machines answered, {sum(run['cpu_seconds']) / max(answered, 1):.0f} s of "
            f"CPU time each; begun {run['begun'] or 'at an unknown time'}; inference `{run['inference'][:16]}`, "
            f"simulator `{run['simulator'][:16]}`. The same nonce gives the same machines only with the same inference."
        )
        lines += ["", *(f"* {visible(remark)}" for remark in remarks(run))]
        for scenario, rows in by_scenario(run["accuracy"]):
            named = [[f"`{name}`", *cells] for name, *cells in rows]
            lines += ["", f"### {scenario}", "", in_columns(named, ["parameter", *HEADS], markdown=True)]
    return "\n".join(lines) + "\n"


def _overview(runs: Sequence[Document]) -> str:
    """A line for each scenario of each run."""
    rows = []
    for run in runs:
        for scenario, table in run["accuracy"].items():
            first, *shares = (fraction(table[key]) for key in ("without_wrong", *SHARES))
            counts = [first, str(table["rows"]), *shares, fraction(table["calibration"]["continuous"])]
            name = scenario + " (`--fast`)" * run["settings"]["fast"]
            rows.append([name, run["run"], str(table["machines"]), *counts])
    heads = ["scenario", "run", "machines", "without a wrong row", "rows", *SHARES, "coverage"]
    return in_columns(rows, heads, markdown=True)
