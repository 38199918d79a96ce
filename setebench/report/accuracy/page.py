"""The page of published accuracy: what sealed scores found, by run, scenario and parameter, as Markdown and as a
document for programs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ENOUGH = 300
"""Machines from which on a rate of wrong answers of 0.5 % can be distinguished from one of 2 % for a parameter that all
have; a page that rests on fewer says so."""

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
SHARES = ("right", "bounded", "open", "wrong")
NAMES = ("inference", "simulator", "begun", "planned", "accuracy", "by_machine", "constant", "never_judged", "regret")
BASIS = (
    "run",
    "scenarios",
    "machines",
    "planned",
    "noise",
    "nonce",
    "inference",
    "simulator",
    "begun",
    "CPU s a machine",
)

Document = Mapping[str, Any]


def published(scores: Sequence[Document]) -> dict[str, Any]:
    """The document of the accuracy page, schema 1: one run for each score document, named A, B, ... in this order."""
    return {"schema": 1, "runs": [_run(chr(ord("A") + number), score) for number, score in enumerate(scores)]}


def _run(letter: str, score: Document) -> dict[str, Any]:
    settings, failures = score["settings"], score["failures"]
    words = ["setebench", "score", "--sealed", score["sealed"]["nonce"], "--machines", str(score["planned"])]
    words += [word for name in settings["scenarios"] for word in ("--scenario", name)]
    words += ["--noise", settings["noise"]] if settings["noise"] != "drawn" else []
    words += [f"--{name.replace('_', '-')}" for name in ("fast", "from_findings") if settings.get(name)]
    return {
        "run": letter,
        "command": shlex.join(words),
        "scenarios": settings["scenarios"],
        "noise": settings["noise"],
        "fast": settings["fast"],
        "nonce": score["sealed"]["nonce"],
        "machines": len(score["machines"]) - len(score["lost"]),
        "lost": len(score["lost"]),
        "cpu_seconds": round(sum(score["cpu_seconds"]), 1),
        "not_run": dict(Counter(f"{each['scenario']}: {each['reason']}" for each in failures).most_common()),
        "crashed": sum(each["crashed"] for each in failures),
        **{name: score.get(name) for name in NAMES},
    }


# -- the page ---------------------------------------------------------------------------------------------------------


def page(document: Document) -> str:
    """The document as Markdown. A page without any run says that nothing is claimed."""
    runs = document["runs"]
    nothing = (
        "No sealed run has been published here yet, so nothing is claimed about how often answers are right. "
        "`make accuracy` writes this page."
    )
    tables = [(run, name, tables["all"]) for run in runs for name, tables in run["accuracy"].items()]
    lines = ["# How often it was right", "", *([_claim(*each) for each in tables] or [nothing]), "", READING]
    if runs:
        lines += ["", *_basis(runs)]
    for run, scenario, table in tables:
        lines += [
            "",
            f"## Run {run['run']}: {scenario}",
            "",
            *_heads(["parameter", "rows", *SHARES, "coverage", "width"]),
        ]
        for name, row in table["parameters"].items():
            width = "" if row["median_width"] is None else f"{100 * row['median_width']:.1f} %"
            shares = [row[key]["hits"] for key in SHARES[:-1]] + [_with_interval(row["wrong"])]
            lines.append(_row([f"`{name}`", row["rows"], *shares, _with_interval(row["coverage"]), width]))
    return "\n".join(lines) + "\n"


def _claim(run: Document, scenario: str, table: Document) -> str:
    fast = " with `--fast`" if run["fast"] else ""
    few = "" if table["machines"] >= ENOUGH else f" (fewer than the {ENOUGH} that this page is meant to rest on)"
    shares = ", ".join(f"{_fraction(table[key])} {key}" for key in SHARES)
    held = _fraction(table["calibration"]["continuous"])
    return (
        f"* `{scenario}`{fast}, run {run['run']}, {table['machines']} sealed machines{few}: "
        f"{_fraction(table['without_wrong'])} of the machines have no wrong row; of {table['rows']} rows {shares}; "
        f"of the 95 % intervals of continuous parameters {held} hold the truth."
    )


def _basis(runs: Sequence[Document]) -> Iterator[str]:
    yield from ("## What the tables rest on", "", *_heads(BASIS))
    for run in runs:
        scenarios = ", ".join(run["scenarios"]) + (" (`--fast`)" if run["fast"] else "")
        hashes = (f"`{run[name][:16]}`" for name in ("inference", "simulator"))
        cost = f"{run['cpu_seconds'] / max(run['machines'], 1):.0f}"
        own = (run["machines"], run["planned"], run["noise"], f"`{run['nonce']}`")
        yield _row([run["run"], scenarios, *own, *hashes, run["begun"] or "not recorded", cost])
    for run in runs:
        yield from ("", f"Run {run['run']}:", "", f"    {run['command']}")
        for remark in _remarks(run):
            yield from ("", remark)
    yield ""
    yield "The same nonce gives the same machines only with the same inference."


def _remarks(run: Document) -> Iterator[str]:
    missing = run["planned"] - run["machines"] - run["lost"]
    if missing:
        yield (
            f"{missing} of its {run['planned']} machines had not answered when this page was made. Among those that "
            "are running at such a moment, machines that take long are more frequent."
        )
    if run["lost"]:
        yield f"{run['lost']} machines were lost with the process that ran them, and are not judged."
    if run["not_run"]:
        reasons = "; ".join(f"{_cell(what)} ({count})" for what, count in run["not_run"].items())
        yield f"Scenarios that didn't go through ({run['crashed']} by a defect): {reasons}."
    for key, what in (
        ("constant", "Nearly the same on all machines that have it, so a constant would be right"),
        ("never_judged", "Reported, but no machine has a truth to judge it by"),
    ):
        if run[key]:
            yield f"{what}: {', '.join('`' + each['parameter'] + '`' for each in run[key])}."
    if own := (run["regret"] or {}).get("all"):
        yield (
            f"Advice stays behind the sweep's best by {own['median']} % in the median of {own['cases']} cases, "
            f"by {own['percentile_95']} % at the 95th percentile, and by {own['worst']} % at worst; "
            f"{run['regret']['slower_than_none']} cases are slower than no prefetch by more than 3 %."
        )


# -- cells ------------------------------------------------------------------------------------------------------------


def _heads(heads: Sequence[str]) -> list[str]:
    return [_row(heads), _row(["---"] * len(heads))]


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _fraction(part: Document) -> str:
    if not part["trials"]:
        return "none"
    limits = "" if part["low"] is None else f" [{100 * part['low']:.1f}, {100 * part['high']:.1f}]"
    return f"{100 * part['fraction']:.1f} %{limits}"


def _with_interval(part: Document) -> str:
    return f"{part['hits']} of {part['trials']}: {_fraction(part)}" if part["trials"] else ""
