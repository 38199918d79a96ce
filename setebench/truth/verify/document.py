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
AGAIN, TWIN = 1, 3
"""Which of a row's answers is compared with the machine's first."""

GENERIC = "sandybridge"
"""The machine whose prefetchers a table has in which nothing was measured: they are published, and of another CPU."""

GONE = ("scattered.agreement", "hints.agreement", "others.time_error")
"""Names of the first version that nothing measures any more."""


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
    known = {name: [row for row in every if row.number in runs] for name, every in checked.families.items()}
    placed = {
        name: np.hstack([_placed(row, checked.around, labels(runs[row.number], other)) for row in own])
        for name, own in known.items()
        if own
    }
    shares = {name: _shares(table, len(known[name])) for name, table in placed.items() if table.size}
    for name, every in checked.families.items():
        if name in shares:
            for place, end in enumerate(("agreement", "ceiling")):
                yield _finding(f"{name}.{end}", shares[name][0, place], every)
        elif every[0].trial.targets:
            why = "no line was where it had been when the machine was asked once more later"
            yield Finding(parameter=f"verify.{name}.agreement", unit="%", outcome=Outcome.UNRESOLVED, reason=why)
        else:
            for end, which in (("", TWIN), (".ceiling", AGAIN)):
                yield _finding(f"{name}.time_error{end}", _errors(every, which), every)
    if shares:
        weights, own = [FAMILIES[name][1] for name in shares], [row for row in rows if row.number in runs]
        agreement, kappa = np.average([*shares.values()], axis=0, weights=weights)
        for place, (name, end) in enumerate((("agreement", ""), ("ceiling", ".ceiling"), ("defaults", ".defaults"))):
            yield _finding(f"all.{name}", agreement[place], own)
            yield _finding(f"all.kappa{end}", kappa[place], own, "ratio")
        twin, ceiling, least = agreement
        yield _finding("all.way", (twin - least) / np.maximum(ceiling - least, 1.0), own, "ratio")
        part = 100 * sum(table.shape[1] for table in placed.values()) / max(_lines(own), 1)
        yield Finding(parameter="verify.all.scored", value=part, unit="%", method="lines that stayed where they were")
    yield Finding(
        parameter="verify.contradicted",
        value=checked.contradicted,
        unit="bool",
        method="probes repeated on which they differ: some stay apart as chance would in 1 % of exact twins",
    )
    for name in GONE:
        reason = "not measured since 0.2"
        yield Finding(parameter=f"verify.{name}", unit="%", outcome=Outcome.UNAVAILABLE, reason=reason)


def _placed(row: Row, around: Surroundings, plain: tuple[int, ...]) -> NDArray[np.int64]:
    """The lines of a row that the machine places alike in its third run, by the row's number and the level that each
    has in the machine's first run, by the twin, in the machine again and in the plain table. Shape (5, lines).

    A line that is now here, now there has no level that could be predicted."""
    seen, again, third, twin = (labels(each, around) for each in row.answers)
    every = np.array([[row.number] * len(seen), seen, twin, again, np.minimum(plain, len(around.latencies) - 1)])
    return every[:, np.equal(seen, third)]


def _shares(placed: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Of the levels of `_placed`, over all rows and then over resampled ones: per cent of lines on which each
    prediction agrees with the machine's first run, and Cohen's kappa, agreement beyond what placing as many lines at
    random in each level has. Shape (2, predictions, 1 + resamples)."""
    weights = np.random.default_rng(rows).multinomial(rows, np.full(rows, 1 / rows), RESAMPLES)
    every = np.concatenate([np.ones((1, rows)), weights])[:, np.unique(placed[0], return_inverse=True)[1]]
    lines, levels = np.maximum(every.sum(axis=1), 1), range(placed[1:].max() + 1)
    held = np.array([[every @ (each == level) for level in levels] for each in placed[1:]]) / lines
    same = np.array([every @ (each == placed[1]) for each in placed[2:]]) / lines
    chance = (held[0] * held[1:]).sum(axis=1)
    return np.array([100 * same, (same - chance) / np.maximum(1 - chance, 1e-9)])


def _errors(rows: list[Row], which: int) -> NDArray[np.float64]:
    """The median relative error of times, over the machine's, in per cent: of all rows, then of resampled ones. Shape
    (1 + resamples,)."""
    first, other = (np.array([row.answers[each][0] for row in rows]) for each in (0, which))
    relative, rng = 100 * np.abs(other - first) / first, np.random.default_rng(len(rows))
    chosen = relative[rng.integers(0, len(rows), (RESAMPLES, len(rows)))]
    return np.append(np.median(relative), np.median(chosen, axis=1))


def _finding(name: str, figures: NDArray[np.float64], rows: list[Row], unit: str = "%") -> Finding:
    """The figure of all rows, which is the first, with the middle 95 % of the resampled ones."""
    method = (f"{_lines(rows)} lines of " if _lines(rows) else "") + f"{len(rows)} probes"
    value, low, high = float(figures[0]), *map(float, np.percentile(figures[1:], (2.5, 97.5)))
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
    """The worst trials, those first on which the twin stays wrong."""
    order = sorted(checked.rows, key=lambda row: (checked.doubts.get(row.number, 1.0), -row.badness))
    return {"worst": [_bad(row, checked) for row in order if row.badness][:SHOWN]}


def _bad(row: Row, checked: Verified) -> dict[str, Any]:
    own, *_, twin = [f"{each[0]:.1f} cycles" for each in row.answers]
    if row.trial.targets:
        names = [*(f"l{level}" for level in range(1, len(checked.around.latencies))), "memory"]
        own, *_, twin = [names[labels(each, checked.around)[row.worst]] for each in row.answers]
    record = {"number": row.number, "family": row.trial.family, "stays": row in checked.staying}
    return {**record, "probe": row.trial.shown(row.worst), "machine": own, "twin": twin}
