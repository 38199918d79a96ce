"""What a score document says: rows and sentences, for a terminal and for the accuracy page, and the document as text: a
table of parameters, and below it what qualifies the totals.

The page is one screen of Markdown: what silicon answered, then what a sealed score found by scenario, then the
parameters whose answers were wrong or whose intervals don't hold what they promise.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from setebench.report.text import in_columns
from setebench.text import shortened, visible

SHARES = {
    "right": "right",
    "bounded": "bounded within 20 % of the truth",
    "open": "open (also bounds further off)",
    "wrong": "wrong",
}
"""Shares of rows, and what they are called."""

HEADS = ("rows", *SHARES, "coverage", "width")
Document = Mapping[str, Any]


def by_scenario(accuracy: Document) -> Iterator[tuple[str, list[list[str]]]]:
    """For each scenario the rows of its parameters: how many there are and how they stand, which part of the measured
    intervals holds the truth, and how wide they are relative to it."""
    for scenario, tables in accuracy.items():
        rows = []
        for name, row in tables["parameters"].items():
            width = "" if row["median_width"] is None else f"{row['median_width']:.1%}"
            coverage = "{} of {}".format(*row["coverage"]) if row["coverage"] else ""
            rows.append([name, *(str(row[key]) for key in ("rows", *SHARES)), coverage, width])
        yield scenario, rows


def proportion(part: Document) -> str:
    """`3 of 4 (75.0 % [30.1, 95.4])`."""
    return f"{part['hits']} of {part['trials']} ({fraction(part)})" if part["trials"] else "none"


def fraction(part: Document, limited: bool = True) -> str:
    """In per cent, with its interval if that is wanted; nothing where there is nothing."""
    if not part["trials"]:
        return ""
    limits = "" if part["low"] is None or not limited else f" [{100 * part['low']:.1f}, {100 * part['high']:.1f}]"
    return f"{100 * part['fraction']:.1f} %{limits}"


def failures(score: Document) -> Iterator[str]:
    """Scenarios that did not go through, by their reason."""
    reasons = Counter(f"{each['scenario']}: {each['reason']}" for each in score["failures"])
    for reason, number in reasons.most_common():
        yield f"not run on {number} machines: {reason}"


def render(document: Document) -> str:
    """A table for each scenario; shares and remarks; every wrong answer with its seed."""
    tables = (in_columns(rows, [scenario, *HEADS], HEADS) for scenario, rows in by_scenario(document["accuracy"]))
    return "\n\n".join([*tables, "\n".join(_lines(document))]) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"{len(document['machines'])} machines, seed {document['seed']}:"
    yield from _by_machine(document["by_machine"])
    if (held := document["calibration"]["continuous"])["trials"]:
        yield f"measured 95 % intervals of latencies, penalties and rates that hold the truth: {proportion(held)}"
    if names := [entry["parameter"] for entry in document["constant"]]:
        what = "nearly the same on all machines, so that right answers count nowhere"
        yield f"{len(names)} parameters {what}: {', '.join(shortened(names))}"
    yield from failures(document)
    yield from (f"lost: {item['machine']}: {item['reason']}" for item in document["lost"])
    for item in document["wrong"]:
        yield (
            f"wrong: --machine sim:{item['machine']} --seed {item['seed']}: {item['parameter']} reported "
            f"{item['value']!r} ({item['outcome']}), truth {item['truth']!r}"
        )
    if document.get("against"):
        yield from _against(document["against"])
    if sealed := document.get("sealed"):
        seeds = ", ".join(shortened([*map(str, sealed["seeds"])]))
        nonce = f"nonce {sealed['nonce']!r}, " if sealed["nonce"] else ""
        yield f"sealed: {nonce}inference {sealed['inference'][:16]}, seeds {seeds}"
        yield f"sealed runs are logged in {sealed['log']}"


def _by_machine(own: Document) -> Iterator[str]:
    """Shares of machines and rows; brackets hold 95 % intervals over machines."""
    yield f"machines without a wrong row: {proportion(own['without_wrong'])}"
    yield from (f"rows {what}: {proportion(own[name])}" for name, what in SHARES.items())


def _against(against: Document) -> Iterator[str]:
    difference = against["difference"]
    yield f"against {against['file']} (inference {against['inference'][:12]}), which has:"
    yield from (f"  {line}" for line in _by_machine(against["by_machine"]))
    yield f"  more than that, on {difference['machines']} machines, of {difference['rows']} rows:"
    for name, shift in difference["points"].items():
        if shift["difference"] is not None:
            limits = "" if shift["low"] is None else f" [{100 * shift['low']:+.2f}, {100 * shift['high']:+.2f}]"
            yield f"  {SHARES[name]}: {100 * shift['difference']:+.2f} points{limits}"
    if not against["same_simulator"]:
        yield "  it was run on another simulator than this one"
    for parameter, steps in difference["parameters"].items():
        yield f"  {parameter}: " + ", ".join(f"{step} {machines}" for step, machines in steps.items())


# -- the accuracy page ------------------------------------------------------------------------------------------------


READING = """\
Machines are random ones of the simulator, whose every parameter is known. Their seeds follow from the hash of the
inference alone, so that nobody had seen or chosen them ([score.md](score.md#sealed-runs-seeds-that-nobody-has-seen));
what is not drawn is [named](score.md#what-the-machines-are-like). *right* are measured values that are true, *bounded*
true bounds within 20 % of the truth, *open* is what was not answered and bounds further off, *wrong* anything else,
also a value for what a machine lacks. *coverage* is the part of the 95 % intervals of measured latencies, penalties and
rates that hold the truth. Brackets hold 95 % intervals over machines."""
NOTHING = "No sealed run of this inference is published yet. `make accuracy` makes one and writes this page."
COLUMNS = ("machines", "without a wrong row", "rows", *SHARES, "coverage")


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
    yield in_columns(rows, ["scenario", *COLUMNS], markdown=True)
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
        "holds each parameter with a wrong row or with a coverage whose own interval leaves out 95 %. "
        f"{len(run['constant'])} parameters are nearly the same on all machines: right answers to them count nowhere."
    )
    yield from (f"* {visible(remark)}" for remark in failures(run))
