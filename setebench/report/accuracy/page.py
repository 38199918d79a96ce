"""The page of published accuracy: what sealed scores found, by run, scenario, class of noise and parameter, as Markdown
and as a document for programs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from setebench.report.accuracy.twins import twins
from setebench.report.alike import joined

ENOUGH = 300
"""Machines from which on a rate of wrong answers of 0.5 % can be distinguished from one of 2 % for a parameter that all
have; a page that rests on fewer says so."""

WORST = 10
"""Classes of failure that the page describes; the JSON has all."""

MOST_SEEDS = 12
"""Seeds that the page names of a class."""

READING = """\
Machines are random ones of the simulator, whose every parameter is known; *sealed* says that their seeds follow
from a nonce and the hash of the inference, so that nobody had seen them
([score.md](score.md#sealed-runs-seeds-that-nobody-has-seen)). What holds there holds for silicon only as far as
silicon resembles them.

*right* are values that are true, *bounded* true bounds, *open* is what was not answered (unresolved), *wrong*
anything else, also a value for what a machine lacks ([parameters.md](parameters.md#the-score-document)). *coverage*
is the part of the measured 95 % intervals of continuous parameters that hold the truth; *width* the median width of
these intervals relative to the truth. Brackets hold 95 % intervals of rates (Wilson 1927), which take answers for
independent; those of one machine are not quite. *judged* says how many answers a row rests on: of one parameter as
many machines."""
WORST_READING = """\
Wrong answers are grouped by parameter; of {total} classes those {shown} follow whose rate has the highest lower limit.
Where one thing that machines have goes with the failure (Fisher's exact test, one-sided, below 5 % times all things
looked at), it is named by its [machine file's](machine-files.md) field. `accuracy.json` has all classes and seeds."""
BASIS_HEADS = (
    *("run", "scenarios", "machines", "of planned", "noise", "nonce", "inference", "simulator", "begun (UTC)"),
    *("CPU hours", "CPU s a machine"),
)
NOISE_HEADS = ("noise", "machines", "judged", "right", "bounded", "open", "wrong", "measured and wrong", "coverage")
KEPT = ("inference", "simulator", "begun", "planned", "accuracy", "failure_classes", "constant", "never_judged")

Document = Mapping[str, Any]
Figures = Mapping[tuple[str, str], Sequence[tuple[str, str]]]
"""By run and scenario: what each figure shows, and its file as the page links it."""


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


def page(document: Document, figures: Figures) -> str:
    """The document as Markdown. A page without any run says that nothing is claimed."""
    runs = document["runs"]
    lines = ["# How often it was right", "", *_claims(runs), "", READING]
    if runs:
        lines += ["", *_basis(runs)]
        for run in runs:
            for scenario, tables in run["accuracy"].items():
                lines += ["", *_scenario(run, scenario, tables, figures)]
        lines += ["", *_worst(runs)]
    lines += twins(document)
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
    shares = ", ".join(f"{_of(table[key], table)} {key}" for key in ("right", "bounded", "open"))
    return (
        f"`{scenario}`{fast}, run {run['run']}, {table['machines']} sealed machines{few}: "
        f"of {table['judged']} answers {shares}, "
        f"{_fraction(table['wrong'])} wrong ({table['wrong_measured']['hits']} of them as measured); of the 95 % "
        f"intervals of continuous parameters {_fraction(table['calibration']['continuous'])} hold the truth."
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
            f"The same on all machines that have it, so that a constant would be right: {_names(run['constant'])}.",
        )
    if run["never_judged"]:
        yield from ("", f"Reported, but no machine has a truth to judge it by: {_names(run['never_judged'])}.")
    if (run["regret"] or {}).get("all"):
        yield from ("", _regret(run["regret"]))


def _regret(regret: Document) -> str:
    own = regret["all"]
    return (
        f"Prefetch advice stays behind the sweep's best by {own['median']} % in the median of {own['cases']} cases, by "
        f"{own['percentile_95']} % at the 95th percentile, and by {own['worst']} % at worst; "
        f"{regret['slower_than_none']} cases are slower than no prefetch by more than 3 %."
    )


def _names(entries: Sequence[Document]) -> str:
    return ", ".join(f"`{name}`" for name in joined([entry["parameter"] for entry in entries]).split(", "))


# -- one scenario of one run ------------------------------------------------------------------------------------------


def _scenario(run: Document, scenario: str, tables: Document, figures: Figures) -> Iterator[str]:
    yield f"## Run {run['run']}: {scenario}"
    for what, file in figures.get((run["run"], scenario), ()):
        yield from ("", f"![{what}]({file})")
    yield from ("", "By how disturbed the machines were:", "")
    yield from _heads(NOISE_HEADS)
    for name, table in {**tables["noise"], "all": tables["all"]}.items():
        counts = [_of(table[key], table) for key in ("right", "bounded", "open")]
        wrong = [_with_interval(table["wrong"]), _with_interval(table["wrong_measured"])]
        holding = _with_interval(table["calibration"]["continuous"])
        yield _row([name, table["machines"], table["judged"], *counts, *wrong, holding])
    if not tables["noise"]:
        yield from ("", "The simulator has changed since, so that how disturbed each machine was can't be said here.")
    yield from ("", *_parameters(tables))


def _parameters(tables: Document) -> Iterator[str]:
    classes = list(tables["noise"])
    yield f"By parameter{', and the part that is right or bounded / wrong by class of noise' if classes else ''}:"
    yield ""
    heads = ["parameter", "judged", "right", "bounded", "open", "wrong", "coverage", "width", *classes]
    yield from _heads(heads)
    for name, row in tables["all"]["parameters"].items():
        width = "" if row["median_width"] is None else f"{100 * row['median_width']:.1f} %"
        counts = [row[key] for key in ("judged", "right", "bounded", "open")]
        by_class = [_by_class(tables["noise"][each]["parameters"].get(name)) for each in classes]
        holding = _with_interval(row["coverage"])
        yield _row([f"`{name}`", *counts, _with_interval(row["wrong"]), holding, width, *by_class])


def _by_class(row: Document | None) -> str:
    if row is None:
        return ""
    answered, wrong = (100 * count / row["judged"] for count in (row["right"] + row["bounded"], row["wrong"]["hits"]))
    return f"{answered:.0f} / {wrong:.0f} % of {row['judged']}"


# -- failures ---------------------------------------------------------------------------------------------------------


def worst_classes(runs: Sequence[Document]) -> list[tuple[str, Document]]:
    """Run and class of those failures whose rate is surely the largest: by the lower end of its interval."""
    found = [(run["run"], each) for run in runs for each in run["failure_classes"]]
    return sorted(found, key=lambda each: (-each[1]["rate"]["low"], each[0], each[1]["parameter"]))[:WORST]


def _worst(runs: Sequence[Document]) -> Iterator[str]:
    yield "## The worst classes of failure"
    yield ""
    total = sum(len(run["failure_classes"]) for run in runs)
    if not total:
        yield "No answer was wrong."
        return
    yield WORST_READING.format(total=total, shown=min(WORST, total))
    for number, (name, each) in enumerate(worst_classes(runs), 1):
        yield from ("", f"{number}. {_described(name, each)}")


def _described(run: str, each: Document) -> str:
    answers = ", ".join(f"{_cell(how)} ({count})" for how, count in each["answers"].items())
    ratio = "" if each["median_ratio"] is None else f"; the median answer is {each['median_ratio']:.3g} times the truth"
    noise = ", ".join(f"{name} {count}" for name, count in each["noise"].items())
    seeds = ", ".join(map(str, each["seeds"][:MOST_SEEDS])) + (", ..." if len(each["seeds"]) > MOST_SEEDS else "")
    return (
        f"`{each['parameter']}` (run {run}): wrong on {each['wrong']} of {each['judged']} machines, "
        f"{_fraction(each['rate'])}. Answers: {answers}{ratio}. {_where(each)}"
        + (f" Noise: {noise}." if noise else "")
        + f" Seeds: {seeds}."
    )


def _where(each: Document) -> str:
    found = each["where"]
    if found is None:
        return "Nothing that was looked at sets these machines apart."
    return (
        f"{found['wrong']} of them on the {found['machines']} machines with `{found['what']}` "
        f"(corrected chance {found['chance']:.1g})."
    )


# -- cells ------------------------------------------------------------------------------------------------------------


def _heads(heads: Sequence[str]) -> Iterator[str]:
    yield _row(heads)
    yield _row(["---"] * len(heads))


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _of(count: int, table: Document) -> str:
    return f"{100 * count / table['judged']:.1f} %"


def _fraction(part: Document) -> str:
    if not part["trials"]:
        return "none"
    return f"{100 * part['fraction']:.1f} % [{100 * part['low']:.1f}, {100 * part['high']:.1f}]"


def _with_interval(part: Document) -> str:
    return f"{part['hits']} of {part['trials']}: {_fraction(part)}" if part["trials"] else ""
