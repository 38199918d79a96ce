"""The page of published accuracy: what sealed scores found, by run, scenario and parameter, as Markdown and as a
document for programs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
SHARES = ("right", "bounded", "open", "wrong")
KEPT = ("inference", "simulator", "begun", "planned", "accuracy", "by_machine", "constant", "never_judged", "regret")

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
        **{name: settings[name] for name in ("scenarios", "noise", "fast")},
        "nonce": score["sealed"]["nonce"],
        "machines": len(score["machines"]) - len(score["lost"]),
        "lost": len(score["lost"]),
        "cpu_seconds": round(sum(score["cpu_seconds"]), 1),
        "not_run": dict(Counter(f"{each['scenario']}: {each['reason']}" for each in failures).most_common()),
        **{name: score.get(name) for name in KEPT},
    }


def page(document: Document) -> str:
    """The document as Markdown. A page without any run says that nothing is claimed."""
    runs = document["runs"]
    lines = ["# How often it was right", "", *(_overview(runs) if runs else [NOTHING]), "", READING]
    for run in runs:
        lines += ["", f"## Run {run['run']}", "", f"    {run['command']}", "", *_basis(run)]
        for scenario, tables in run["accuracy"].items():
            lines += ["", f"### {scenario}", "", *_heads(["parameter", "rows", *SHARES, "coverage", "width"])]
            for name, row in tables["all"]["parameters"].items():
                width = "" if row["median_width"] is None else f"{100 * row['median_width']:.1f} %"
                shares = [*(row[key]["hits"] for key in SHARES[:-1]), _counted(row["wrong"]), _counted(row["coverage"])]
                lines.append(_row([f"`{name}`", row["rows"], *shares, width]))
    return "\n".join(lines) + "\n"


def _overview(runs: Sequence[Document]) -> Iterator[str]:
    """A line for each scenario of each run."""
    yield from _heads(["scenario", "run", "machines", "without a wrong row", "rows", *SHARES, "coverage"])
    for run in runs:
        for scenario, tables in run["accuracy"].items():
            table = tables["all"]
            shares = [_fraction(table[key]) for key in ("without_wrong", *SHARES)]
            own = [shares[0], table["rows"], *shares[1:], _fraction(table["calibration"]["continuous"])]
            yield _row([scenario + " (`--fast`)" * run["fast"], run["run"], table["machines"], *own])


def _basis(run: Document) -> Iterator[str]:
    """What a run rests on, and what doesn't count in it."""
    each = run["cpu_seconds"] / max(run["machines"], 1)
    yield (
        f"{run['machines']} of {run['planned']} machines answered ({run['lost']} lost), {each:.0f} s of CPU time each; "
        f"begun {run['begun'] or 'at an unknown time'}; inference `{run['inference'][:16]}`, simulator "
        f"`{run['simulator'][:16]}`. The same nonce gives the same machines only with the same inference."
    )
    if run["not_run"]:
        reasons = "; ".join(f"{_cell(what)} ({count})" for what, count in run["not_run"].items())
        yield from ("", f"Scenarios that didn't go through: {reasons}.")
    for key, what in (
        ("constant", "Nearly the same on all machines that have it, so a constant would be right"),
        ("never_judged", "Reported, but no machine has a truth to judge it by"),
    ):
        if run[key]:
            yield from ("", f"{what}: {', '.join('`' + entry['parameter'] + '`' for entry in run[key])}.")
    if own := (run["regret"] or {}).get("all"):
        yield from (
            "",
            f"Advice stays behind the sweep's best by {own['median']} % in the median of {own['cases']} cases, by "
            f"{own['percentile_95']} % at the 95th percentile; {run['regret']['slower_than_none']} cases are slower "
            "than no prefetch by more than 3 %.",
        )


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


def _counted(part: Document) -> str:
    return f"{part['hits']} of {part['trials']}: {_fraction(part)}" if part["trials"] else ""
