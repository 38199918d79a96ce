"""What a check found, as a result document: `verify.FAMILY....` findings, and the worst trials as evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench import store
from setebench.results import Document, Finding, Outcome
from setebench.truth.twin import make_twin
from setebench.truth.verify.check import Row, Verified, answered, labels, latencies
from setebench.truth.verify.families import FAMILIES, Surroundings

SHOWN = 20
"""Worst trials in the evidence."""

RESAMPLES = 1000
AGAIN, TWIN = 1, 2
"""Which of a row's answers is compared with the machine's first."""

GONE = ("scattered.agreement", "hints.agreement", "others.time_error", "all.kappa", "all.kappa.ceiling")
"""Names of the first version that nothing measures any more."""

Interval = tuple[float, float, float]
"""A value in per cent and the ends of its 95 % interval."""


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
    table predicts in which nothing was measured: the `baseline` that others say, and defaults of machine files."""
    around, levels = checked.around, [row for row in checked.rows if row.trial.targets]
    plain = make_twin(baseline, of_nothing=True).machine
    other = replace(around, latencies=latencies(plain))
    runs = answered(plain, replace(checked, around=other), {row.number: row.trial for row in levels}) if levels else {}
    predicted = {
        "agreement": {row.number: labels(row.answers[TWIN], around) for row in levels},
        "ceiling": {row.number: labels(row.answers[AGAIN], around) for row in levels},
        "defaults": {number: labels(cycles, other) for number, cycles in runs.items()},
    }
    parts: dict[str, dict[str, Interval]] = {kind: {} for kind in predicted}
    for name, rows in checked.families.items():
        for kind, given in predicted.items() if rows[0].trial.targets else ():
            pairs = [(labels(row.answers[0], around), given[row.number]) for row in rows if row.number in given]
            if pairs:
                parts[kind][name] = found = _share(pairs)
                if kind != "defaults":
                    yield _finding(f"{name}.{kind}", found, rows)
        for end, which in () if rows[0].trial.targets else (("", TWIN), (".ceiling", AGAIN)):
            yield _finding(f"{name}.time_error{end}", _error(rows, which), rows)
    for kind, own in parts.items():
        if own:
            value, low, high = np.average(list(own.values()), axis=0, weights=[FAMILIES[n][1] for n in own]).tolist()
            yield _finding(f"all.{kind}", (value, low, high), levels)
    yield Finding(
        parameter="verify.contradicted",
        value=checked.contradicted,
        unit="bool",
        method="probes repeated on which they differ: some stay apart as chance would in 1 % of exact twins",
    )
    for name in GONE:
        unit = "ratio" if "kappa" in name else "%"
        reason = "not measured since 0.2"
        yield Finding(parameter=f"verify.{name}", unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason)


def _share(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Interval:
    """Lines on which the two answers of each trial agree, in per cent."""
    same, count = np.array([(np.equal(*pair).sum(), len(pair[0])) for pair in pairs]).T
    return _resampled(lambda chosen: 100 * float(same[chosen].sum() / count[chosen].sum()), len(pairs))


def _error(rows: list[Row], which: int) -> Interval:
    """The median relative error of times, over the machine's, in per cent."""
    first, other = (np.array([row.answers[each][0] for row in rows]) for each in (0, which))
    relative = 100 * np.abs(other - first) / first
    return _resampled(lambda chosen: float(np.median(relative[chosen])), len(rows))


def _resampled(figure: Callable[[NDArray[np.int64]], float], count: int) -> Interval:
    """The figure of all trials, and its bootstrap interval over trials."""
    rng = np.random.default_rng(count)
    draws = [figure(rng.integers(0, count, count)) for _ in range(RESAMPLES if count > 1 else 1)]
    low, high = np.percentile(draws, (2.5, 97.5))
    return figure(np.arange(count)), float(low), float(high)


def _finding(name: str, figure: Interval, rows: list[Row]) -> Finding:
    method = (f"{_lines(rows)} lines of " if _lines(rows) else "") + f"{len(rows)} probes"
    value, low, high = figure
    return Finding(parameter=f"verify.{name}", value=value, low=low, high=high, unit="%", method=method)


def _lines(rows: list[Row]) -> int:
    return sum(len(row.answers[0]) for row in rows if row.trial.targets)


def headline(document: Document) -> str:
    """One line for the top of tables: what the result predicts of this machine."""
    figures = {each.parameter: each for each in document.findings}
    own, ceiling, other = (figures.get(f"verify.all.{name}") for name in ("agreement", "ceiling", "defaults"))
    if own is None or ceiling is None:
        return "the twin of this table ran no probe whose level could be compared"
    lines = sum(family["lines"] for family in document.evidence["verify"]["families"].values())
    interval = f"[{own.low:.1f}, {own.high:.1f}]"
    parts = [
        f"this table predicts {own.value:.1f} % {interval} of {lines:,} lines after random accesses",
        f"the machine predicts itself to {ceiling.value:.1f} %",
    ]
    if other is not None:
        parts.append(f"a table of what the operating system says and defaults, {other.value:.1f} %")
    return "; ".join(parts)


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
    (first, _, twin), memory = row.answers, len(around.latencies) - 1
    answers = [f"{each[0]:.1f} cycles" for each in (first, twin)]
    if row.trial.targets:
        served = (labels(each, around)[row.worst] for each in (first, twin))
        answers = ["memory" if level == memory else f"l{level + 1}" for level in served]
    record = {"number": row.number, "family": row.trial.family, "stays": stays}
    return {**record, "probe": row.trial.shown(row.worst), "machine": answers[0], "twin": answers[1]}
