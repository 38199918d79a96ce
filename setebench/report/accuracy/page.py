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
BASIS_HEADS = (
    *("run", "scenarios", "machines", "of planned", "noise", "nonce", "inference", "simulator", "begun (UTC)"),
    *("CPU hours", "CPU s a machine"),
)
KEPT = ("inference", "simulator", "begun", "planned", "accuracy", "by_machine", "constant", "never_judged")

Document = Mapping[str, Any]


def published(scores: Sequence[Document], kept: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The document of the accuracy page, schema 1: the runs `kept` of an earlier page, then one for each score
    document, named A, B, ... in this order."""
    runs = [*kept, *(_run(score) for score in scores)]
    return {"schema": 1, "runs": [{**run, "run": _letter(number)} for number, run in enumerate(runs)]}


def _letter(number: int) -> str:
    head, last = divmod(number, 26)
    return (_letter(head - 1) if head else "") + chr(ord("A") + last)


def _run(score: Document) -> dict[str, Any]:
    settings, sealed = score["settings"], score["sealed"]
    made = {
        "run": "",
        "command": _command(score),
        "scenarios": settings["scenarios"],
        "noise": settings["noise"],
        "fast": settings["fast"],
        "nonce": sealed["nonce"],
        "machines": len(score["machines"]) - len(score["lost"]),
        "lost": len(score["lost"]),
        "cpu_seconds": round(sum(score["cpu_seconds"]), 1),
        "not_run": dict(Counter(f"{each['scenario']}: {each['reason']}" for each in score["failures"]).most_common()),
        "crashed": sum(each["crashed"] for each in score["failures"]),
    }
    return made | {key: score.get(key) for key in KEPT} | {"regret": score.get("regret")}


def _command(score: Document) -> str:
    settings = score["settings"]
    words = ["setebench", "score", "--sealed", score["sealed"]["nonce"], "--machines", str(score["planned"])]
    for name in settings["scenarios"]:
        words += ["--scenario", name]
    if settings["noise"] != "drawn":
        words += ["--noise", settings["noise"]]
    words += ["--fast"] if settings["fast"] else []
    words += ["--from-findings"] if settings.get("from_findings") else []
    return shlex.join(words)


# -- the page ---------------------------------------------------------------------------------------------------------


def page(document: Document) -> str:
    """The document as Markdown. A page without any run says that nothing is claimed."""
    runs = document["runs"]
    lines = ["# How often it was right", "", *_claims(runs), "", READING]
    if runs:
        lines += ["", *_basis(runs)]
        for run in runs:
            for scenario, tables in run["accuracy"].items():
                lines += ["", *_scenario(run, scenario, tables)]
    if document.get("twins"):
        lines += _twins(document["twins"])
    return "\n".join(lines) + "\n"


def _claims(runs: Sequence[Document]) -> Iterator[str]:
    if not runs:
        yield (
            "No sealed run has been published here yet, so nothing is claimed about how often answers are right. "
            "`make accuracy` writes this page."
        )
    for run in runs:
        for scenario, tables in run["accuracy"].items():
            yield f"* {_claim(run, scenario, tables['all'])}"


def _claim(run: Document, scenario: str, table: Document) -> str:
    fast = " with `--fast`" if run["fast"] else ""
    few = "" if table["machines"] >= ENOUGH else f" (fewer than the {ENOUGH} that this page is meant to rest on)"
    shares = ", ".join(f"{_fraction(table[key])} {key}" for key in SHARES)
    holding = table["calibration"]["continuous"]
    intervals = (
        f"of the 95 % intervals of continuous parameters {_fraction(holding)} hold the truth"
        if holding["trials"]
        else "no continuous parameter has an interval"
    )
    return (
        f"`{scenario}`{fast}, run {run['run']}, {table['machines']} sealed machines{few}: "
        f"{_fraction(table['without_wrong'])} of the machines have no wrong row; of {table['rows']} rows {shares}; "
        f"{intervals}."
    )


def _basis(runs: Sequence[Document]) -> Iterator[str]:
    yield "## What the tables rest on"
    yield ""
    yield from _heads(BASIS_HEADS)
    for run in runs:
        each = run["cpu_seconds"] / run["machines"] if run["machines"] else 0.0
        cells = [
            run["run"],
            ", ".join(run["scenarios"]) + (" (`--fast`)" if run["fast"] else ""),
            run["machines"],
            run["planned"],
            run["noise"],
            f"`{run['nonce']}`",
            f"`{run['inference'][:16]}`",
            f"`{run['simulator'][:16]}`",
            run["begun"] or "not recorded",
            f"{run['cpu_seconds'] / 3600:.1f}",
            f"{each:.0f}",
        ]
        yield _row(cells)
    for run in runs:
        yield from ("", f"Run {run['run']}:", "", f"    {run['command']}")
        yield from _remarks(run)
    yield ""
    yield "The same nonce gives the same machines only with the same inference (its whole hash is in `accuracy.json`)."


def _remarks(run: Document) -> Iterator[str]:
    missing = run["planned"] - run["machines"] - run["lost"]
    if missing:
        yield from (
            "",
            f"{missing} of its {run['planned']} machines had not answered when this page was made. Among those that "
            "are being asked at such a moment, machines that take long are more frequent.",
        )
    if run["lost"]:
        yield from ("", f"{run['lost']} machines were lost with the process that asked them, and are not judged.")
    if run["not_run"]:
        reasons = "; ".join(f"{_cell(what)} ({count})" for what, count in run["not_run"].items())
        yield from ("", f"Scenarios that didn't go through ({run['crashed']} by a defect): {reasons}.")
    if run["constant"]:
        yield from (
            "",
            f"Nearly the same on all machines that have it, so a constant would be right: {_names(run['constant'])}.",
        )
    if run["never_judged"]:
        yield from ("", f"Reported, but no machine has a truth to judge it by: {_names(run['never_judged'])}.")
    if own := (run["regret"] or {}).get("all"):
        yield ""
        yield (
            f"Advice stays behind the sweep's best by {own['median']} % in the median of {own['cases']} cases, "
            f"by {own['percentile_95']} % at the 95th percentile, and by {own['worst']} % at worst; "
            f"{run['regret']['slower_than_none']} cases are slower than no prefetch by more than 3 %."
        )


def _names(entries: Sequence[Document]) -> str:
    return ", ".join(f"`{entry['parameter']}`" for entry in entries)


# -- one scenario of one run ------------------------------------------------------------------------------------------


def _scenario(run: Document, scenario: str, tables: Document) -> Iterator[str]:
    yield from (f"## Run {run['run']}: {scenario}", "")
    yield from _heads(["parameter", "rows", *SHARES, "coverage", "width"])
    for name, row in tables["all"]["parameters"].items():
        width = "" if row["median_width"] is None else f"{100 * row['median_width']:.1f} %"
        counts = [row["rows"], *(row[key]["hits"] for key in SHARES[:-1])]
        yield _row([f"`{name}`", *counts, _with_interval(row["wrong"]), _with_interval(row["coverage"]), width])


def _twins(found: Document) -> Iterator[str]:
    """How well twins of what was found predict their machines, relative to how often those agree with themselves."""
    yield from ("", "## Twins", "", "[Twins](twin.md) of results, [verified](verify.md) on random probes; levels")
    yield "predicted are relative to how often the machine agrees with itself:"
    yield from ("", *(f"    {line}" for line in found["commands"]), "")
    yield from _heads(["twins of what is", "machines", "least", "median", "at 99 % or more", "contradicted"])
    for of, each in found["of"].items():
        quantiles = [f"{each['quantiles'][key]:.1f} %" for key in ("0", "50")]
        shares = (_with_interval(_share(each[key])) for key in ("at_goal", "contradicted"))
        yield _row([of, found["machines"], *quantiles, *shares])


def _share(part: Document) -> Document:
    return {**part, "fraction": part["hits"] / part["trials"] if part["trials"] else 0.0}


# -- cells ------------------------------------------------------------------------------------------------------------


def _heads(heads: Sequence[str]) -> Iterator[str]:
    yield _row(heads)
    yield _row(["---"] * len(heads))


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
