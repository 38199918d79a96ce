"""What a check found, as a result document: `verify.FAMILY....` findings, and the worst trials as evidence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import store
from setebench.results import Document, Finding, MachineRecord, Outcome
from setebench.sim.files.origins import field_name
from setebench.truth.twin import make_twin
from setebench.truth.verify.agreement import Compared, Interval, error, share
from setebench.truth.verify.check import Verified, answered
from setebench.truth.verify.families import FAMILIES
from setebench.truth.verify.rows import MEMORY, Row, labels
from setebench.truth.verify.trials import Levels

SHOWN = 20
"""Worst trials in the evidence."""

ENDS = ("value", "low", "high")
GONE = ("scattered.agreement", "hints.agreement", "others.time_error", "all.kappa", "all.kappa.ceiling")
"""Names of the first version that nothing measures any more."""


def as_document(checked: Verified, document: Document, said: Document | None = None) -> Document:
    """The document of a check of a result. `said` is what the operating system says of the machine's caches."""
    settings = {name: getattr(checked.request, name) for name in ("machine", "seed", "minutes")}
    found = list(findings(checked))
    plain = defaults(checked, msgspec.structs.replace(document, findings=said.findings if said is not None else []))
    found += [plain] if plain is not None else []
    made = Document(
        tool=store.this_tool(),
        machine=MachineRecord(
            kind=str(checked.facts.get("kind", "")),
            name=str(checked.facts.get("name", "")),
            facts=document.machine.facts,
            environment=document.machine.environment,
        ),
        settings={"scenario": "verify", "cpu": checked.facts.get("cpu"), **settings},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=round(checked.seconds, 1),
        findings=found,
        evidence={"verify": evidence(checked)},
    )
    made.evidence["verify"]["headline"] = headline(made)
    return made


def findings(checked: Verified) -> Iterator[Finding]:
    """Agreement, or errors of times, beside the machine's with itself, family by family; then all together."""
    for name, rows in checked.families.items():
        compared = [row.compared for row in rows]
        figure, what = (share, "agreement") if rows[0].by_level else (error, "time_error")
        ceiling = f"{name}.ceiling" if rows[0].by_level else f"{name}.time_error.ceiling"
        yield _finding(f"{name}.{what}", figure(compared, "twin"), rows)
        yield _finding(ceiling, figure(compared, "again"), rows)
    by_level = {name: rows for name, rows in checked.families.items() if rows[0].by_level}
    for name, which in (("agreement", "twin"), ("ceiling", "again")) if by_level else ():
        parts = {family: share([row.compared for row in rows], which) for family, rows in by_level.items()}
        yield _finding(f"all.{name}", _together(parts), [row for rows in by_level.values() for row in rows])
    yield Finding(
        parameter="verify.contradicted",
        value=checked.contradicted,
        unit="bool",
        method="probes repeated on which they differ: some stay apart as chance would in 1 % of exact twins",
    )
    for name in GONE:
        unit = "ratio" if "kappa" in name else "%"
        yield Finding(
            parameter=f"verify.{name}", unit=unit, outcome=Outcome.UNAVAILABLE, reason="not measured since 0.2"
        )


def _finding(name: str, figure: Interval, rows: list[Row]) -> Finding:
    lines = sum(len(row.compared.first) for row in rows)
    method = f"{lines} lines of {len(rows)} probes" if rows[0].by_level else f"{len(rows)} probes"
    ends = {end: getattr(figure, end) for end in ENDS}
    return Finding(parameter=f"verify.{name}", unit="%", method=method, **ends)


def _together(parts: dict[str, Interval]) -> Interval:
    """The average over families of levels, by their weights."""
    weights = {family.name: family.weight for family in FAMILIES if family.name in parts}
    total = sum(weights.values())
    return Interval(*(sum(weights[name] * getattr(parts[name], end) for name in parts) / total for end in ENDS))


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


def defaults(checked: Verified, baseline: Document) -> Finding | None:
    """How much a table in which nothing was measured predicts: what others say of the machine, and defaults of machine
    files. None where no levels were measured."""
    rows = {row.number: row for row in checked.rows if row.by_level}
    machine = make_twin(baseline, of_nothing=True).machine
    given = answered(machine, checked, {number: row.trial for number, row in rows.items()})
    families: dict[str, list[Compared]] = {}
    for number, answer in given.items():
        first, again = rows[number].compared.first, rows[number].compared.again
        compared = Compared(first, again, labels(answer, machine))
        families.setdefault(rows[number].trial.family, []).append(compared)
    if not families:
        return None
    parts = {name: share(own, "twin") for name, own in families.items()}
    return _finding("all.defaults", _together(parts), list(rows.values()))


# -- evidence -----------------------------------------------------------------------------------------------------


def evidence(checked: Verified) -> dict[str, Any]:
    """What a table has no room for."""
    staying = checked.staying
    others = sorted((row for row in checked.rows if row.badness and row not in staying), key=lambda row: -row.badness)
    return {
        "families": {
            name: {
                "probes": len(rows),
                "lines": sum(len(row.compared.first) for row in rows if row.by_level),
                "p_value": checked.family_doubt(rows),
            }
            for name, rows in checked.families.items()
        },
        "worst": [_bad(row, row in staying) for row in [*staying, *others][:SHOWN]],
        "assumed": [field_name(path) for path, each in checked.twin.origins.items() if each.origin == "assumed"],
    }


def _bad(row: Row, stays: bool) -> dict[str, Any]:
    trial, compared = row.trial, row.compared
    record: dict[str, Any] = {"number": row.number, "family": trial.family, "stays": stays}
    if isinstance(trial, Levels):
        target, answers = row.worst, (compared.first[row.worst], compared.twin[row.worst])
        machine, twin = ("memory" if label == MEMORY else f"l{int(label)}" for label in answers)
        return {**record, "probe": trial.shown(trial.targets[target]), "machine": machine, "twin": twin}
    machine, twin = (f"{answer.cycles[0]:.1f} cycles" for answer in (row.first, row.twin))
    return {**record, "probe": trial.shown(), "machine": machine, "twin": twin}
