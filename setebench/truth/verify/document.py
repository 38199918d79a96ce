"""What a check found, as a result document: `verify.FAMILY....` findings, and the worst trials as evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench import store
from setebench.results import Document, Finding, Outcome
from setebench.sim.files.loader import load
from setebench.truth.twin import make_twin
from setebench.truth.verify.check import Row, Verified, answered, labels, latencies
from setebench.truth.verify.families import FAMILIES, Surroundings

SHOWN = 20
"""Worst trials in the evidence."""

RESAMPLES = 1000
AGAIN, THIRD, TWIN = 1, 2, 3
"""Which of a row's answers is compared with the machine's first."""

PREDICTED = ("agreement", "ceiling", "defaults")
"""What predicts levels: the twin, the machine itself, and a table in which nothing was measured."""

GENERIC = "sandybridge"
"""The machine whose prefetchers a table has in which nothing was measured: they are published, and of another CPU."""

GONE = ("scattered.agreement", "hints.agreement", "others.time_error")
"""Names of the first version that nothing measures any more."""

Interval = tuple[float, float, float]
"""A value and the ends of its 95 % interval."""


def as_document(checked: Verified, document: Document, system: Document | None = None) -> Document:
    """The document of a check of a result. `system` is what the operating system says of the machine's caches."""
    baseline = msgspec.structs.replace(document, findings=system.findings if system is not None else [])
    facts = checked.around.facts
    settings = {name: getattr(checked.request, name) for name in ("machine", "seed", "minutes")}
    made = Document(
        tool=store.this_tool(),
        machine=msgspec.structs.replace(document.machine, kind=facts.kind, name=facts.name),
        settings={"scenario": "verify", "cpu": facts.cpu, **settings},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=round(checked.seconds, 1),
        findings=list(findings(checked, baseline)),
        evidence={"verify": evidence(checked)},
    )
    made.evidence["verify"]["headline"] = headline(made)
    return made


# -- figures -------------------------------------------------------------------------------------------------------


def findings(checked: Verified, baseline: Document) -> Iterator[Finding]:
    """Agreement, or errors of times, beside the machine's with itself, family by family; then all together, with what a
    table predicts in which nothing was measured: the `baseline` that others say, and a generic machine for all else."""
    rows = [row for row in checked.rows if row.trial.targets]
    plain = msgspec.structs.replace(make_twin(baseline, of_nothing=True).machine, prefetchers=load(GENERIC).prefetchers)
    other = replace(checked.around, latencies=latencies(plain))
    runs = answered(plain, replace(checked, around=other), {row.number: row.trial for row in rows}) if rows else {}
    tables = {
        name: np.array([_table(row, checked.around, labels(runs[row.number], other)) for row in own])
        for name, every in checked.families.items()
        if (own := [row for row in every if row.number in runs])
    }
    tables = {name: table for name, table in tables.items() if table[:, 0].any()}
    for name, every in checked.families.items():
        if name in tables:
            agreement = _agreement(_resampled(tables[name]))
            for place, kind in enumerate(PREDICTED[:2]):
                yield _finding(f"{name}.{kind}", _interval(agreement[:, place]), every)
        elif every[0].trial.targets:
            why = "no line was where it had been when the machine was asked once more later"
            yield Finding(parameter=f"verify.{name}.agreement", unit="%", outcome=Outcome.UNRESOLVED, reason=why)
        else:
            for end, which in (("", TWIN), (".ceiling", AGAIN)):
                yield _finding(f"{name}.time_error{end}", _error(every, which), every)
    if tables:
        yield from _together(tables, [row for row in rows if row.number in runs])
    yield Finding(
        parameter="verify.contradicted",
        value=checked.contradicted,
        unit="bool",
        method="probes repeated on which they differ: some stay apart as chance would in 1 % of exact twins",
    )
    for name in GONE:
        reason = "not measured since 0.2"
        yield Finding(parameter=f"verify.{name}", unit="%", outcome=Outcome.UNAVAILABLE, reason=reason)


def _together(tables: dict[str, NDArray[np.int64]], rows: list[Row]) -> Iterator[Finding]:
    """The figures of all families of levels, with fixed weights, and what measuring adds to the baseline: the part of
    the way from it to what the machine predicts of itself."""
    drawn = [_resampled(table) for table in tables.values()]
    weights = [FAMILIES[name][1] for name in tables]
    shares = np.average([_agreement(each) for each in drawn], axis=0, weights=weights)
    kappas = np.average([_kappa(each) for each in drawn], axis=0, weights=weights)
    for place, kind in enumerate(PREDICTED):
        yield _finding(f"all.{kind}", _interval(shares[:, place]), rows)
    for place, end in enumerate(("", ".ceiling", ".defaults")):
        yield _finding(f"all.kappa{end}", _interval(kappas[:, place]), rows, "ratio")
    own, ceiling, plain = shares.T
    yield _finding("all.way", _interval((own - plain) / np.maximum(ceiling - plain, 1.0)), rows, "ratio")
    scored = sum(int(table[:, 0].sum()) for table in tables.values())
    part = 100 * scored / max(_lines(rows), 1)
    yield Finding(parameter="verify.all.scored", value=part, unit="%", method="lines that stayed where they were")


def _table(row: Row, around: Surroundings, plain: tuple[int, ...]) -> NDArray[np.int64]:
    """Of the lines of a row that the machine places alike in its third run: how many there are, and on how many each of
    `PREDICTED` agrees with its first run; then how many these and that run place in each level. Shape (words,).

    A line that is now here, now there has no level that could be predicted."""
    seen, again, third, twin = (np.array(labels(each, around)) for each in row.answers)
    held, levels = seen == third, np.arange(len(around.latencies))
    given = [np.minimum(each, levels[-1])[held] for each in (twin, again, np.array(plain), seen)]
    same = [(each == given[-1]).sum() for each in given[:-1]]
    return np.array([held.sum(), *same, *np.concatenate([(each[:, None] == levels).sum(axis=0) for each in given])])


def _resampled(table: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums over all rows, then over resampled ones. Shape (1 + resamples, words)."""
    chosen = np.random.default_rng(len(table)).integers(0, len(table), (RESAMPLES, len(table)))
    return np.concatenate([table.sum(axis=0)[None], table[chosen].sum(axis=1)]).astype(float)


def _agreement(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per cent of lines on which each prediction agrees. Shape (1 + resamples, predictions)."""
    agreed: NDArray[np.float64] = 100 * sums[:, 1 : 1 + len(PREDICTED)] / np.maximum(sums[:, :1], 1)
    return agreed


def _kappa(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cohen's kappa of each prediction: agreement beyond what placing as many lines at random in each level has."""
    lines, (*placed, seen) = np.maximum(sums[:, 0], 1), np.split(sums[:, 1 + len(PREDICTED) :], 1 + len(PREDICTED), 1)
    chance = np.stack([(each * seen).sum(axis=1) / lines**2 for each in placed], axis=1)
    kappa: NDArray[np.float64] = (_agreement(sums) / 100 - chance) / np.maximum(1 - chance, 1e-9)
    return kappa


def _interval(figures: NDArray[np.float64]) -> Interval:
    """The figure of all rows, which is the first, and the middle 95 % of the resampled ones."""
    low, high = np.percentile(figures[1:], (2.5, 97.5))
    return float(figures[0]), float(low), float(high)


def _error(rows: list[Row], which: int) -> Interval:
    """The median relative error of times, over the machine's, in per cent."""
    first, other = (np.array([row.answers[each][0] for row in rows]) for each in (0, which))
    relative, rng = 100 * np.abs(other - first) / first, np.random.default_rng(len(rows))
    chosen = relative[rng.integers(0, len(rows), (RESAMPLES, len(rows)))]
    return _interval(np.append(np.median(relative), np.median(chosen, axis=1)))


def _finding(name: str, figure: Interval, rows: list[Row], unit: str = "%") -> Finding:
    method = (f"{_lines(rows)} lines of " if _lines(rows) else "") + f"{len(rows)} probes"
    value, low, high = figure
    return Finding(parameter=f"verify.{name}", value=value, low=low, high=high, unit=unit, method=method)


def _lines(rows: list[Row]) -> int:
    return sum(len(row.answers[0]) for row in rows if row.trial.targets)


def headline(document: Document) -> str:
    """One line for the top of tables: what the result predicts of this machine."""
    figures = {each.parameter: each for each in document.findings}
    own, ceiling, other = (figures.get(f"verify.all.{name}") for name in ("agreement", "ceiling", "defaults"))
    if own is None or ceiling is None:
        return "the twin of this table ran no probe whose level could be compared"
    text = f"predicts {own.value:.0f} % [{own.low:.0f}, {own.high:.0f}] of random accesses on this CPU"
    plain = "" if other is None else f"; what the system says and a generic machine {other.value:.0f} %"
    return f"{text}{plain}; the CPU itself {ceiling.value:.0f} %"


# -- evidence ------------------------------------------------------------------------------------------------------


def evidence(checked: Verified) -> dict[str, Any]:
    """What a table has no room for."""
    staying = checked.staying
    others = sorted((row for row in checked.rows if row.badness and row not in staying), key=lambda row: -row.badness)
    return {
        "families": {name: {"probes": len(rows), "lines": _lines(rows)} for name, rows in checked.families.items()},
        "worst": [_bad(row, row in staying, checked.around) for row in [*staying, *others][:SHOWN]],
    }


def _bad(row: Row, stays: bool, around: Surroundings) -> dict[str, Any]:
    (first, *_, twin), memory = row.answers, len(around.latencies) - 1
    answers = [f"{each[0]:.1f} cycles" for each in (first, twin)]
    if row.trial.targets:
        served = (labels(each, around)[row.worst] for each in (first, twin))
        answers = ["memory" if level == memory else f"l{level + 1}" for level in served]
    record = {"number": row.number, "family": row.trial.family, "stays": stays}
    return {**record, "probe": row.trial.shown(row.worst), "machine": answers[0], "twin": answers[1]}
