"""What a check found, as a result document: `verify.FAMILY....` findings, and the worst trials as evidence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import store
from setebench.results import Document, Finding, MachineRecord
from setebench.sim.files.origins import field_name
from setebench.truth.twin import make_twin
from setebench.truth.verify.agreement import Compared, Interval, errors, kappa, percentile, share
from setebench.truth.verify.check import Verified
from setebench.truth.verify.explain import Explanation, answered, worst
from setebench.truth.verify.families import FAMILIES
from setebench.truth.verify.rows import MEMORY, Row, labels
from setebench.truth.verify.trials import Levels

SHOWN = 5
METHOD = "random probes on the machine, on the machine again, and on the twin"


def as_document(
    checked: Verified, explained: list[Explanation], document: Document, said: Document | None = None
) -> Document:
    """The document of a check of a result. `said` is what the operating system says of the machine's caches."""
    asked = {name: getattr(checked.request, name) for name in ("machine", "seed", "minutes")}
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
        settings={"scenario": "verify", "cpu": checked.facts.get("cpu"), **asked},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=round(checked.seconds, 1),
        findings=found,
        evidence={"verify": evidence(checked, explained)},
    )
    made.evidence["verify"]["headline"] = headline(made)
    return made


def findings(checked: Verified) -> Iterator[Finding]:
    """Agreement beside its ceiling, chance-corrected too, and errors of times, family by family; then all together."""
    for name, rows in checked.families.items():
        compared = [row.compared for row in rows]
        if rows[0].by_level:
            yield _finding(f"{name}.agreement", share(compared, "twin"), "%", rows)
            yield _finding(f"{name}.ceiling", share(compared, "again"), "%", rows)
            yield _finding(f"{name}.kappa", kappa(compared, "twin"), "ratio", rows)
            yield _finding(f"{name}.kappa.ceiling", kappa(compared, "again"), "ratio", rows)
        else:
            twin, again = errors(compared, "twin"), errors(compared, "again")
            yield _finding(f"{name}.time_error", percentile(twin, 50), "%", rows)
            yield _finding(f"{name}.time_error.ceiling", percentile(again, 50), "%", rows)
            yield _finding(f"{name}.time_error_90", percentile(twin, 90), "%", rows)
            yield _finding(f"{name}.time_error_90.ceiling", percentile(again, 90), "%", rows)
    yield from _together(checked)


def _finding(name: str, figure: Interval, unit: str, rows: list[Row]) -> Finding:
    asked = sum(len(row.compared.first) for row in rows)
    method = f"{asked} lines of {len(rows)} probes" if rows[0].by_level else f"{len(rows)} probes"
    return Finding(
        parameter=f"verify.{name}", value=figure.value, unit=unit, low=figure.low, high=figure.high, method=method
    )


def _together(checked: Verified) -> Iterator[Finding]:
    """Averages over the families of levels, by their frozen weights."""
    weights = {family.name: family.weight for family in FAMILIES}
    by_level = {name: rows for name, rows in checked.families.items() if rows[0].by_level}
    if by_level:
        total = sum(weights[name] for name in by_level)
        for name, which, figure, unit in (
            ("agreement", "twin", share, "%"),
            ("ceiling", "again", share, "%"),
            ("kappa", "twin", kappa, "ratio"),
            ("kappa.ceiling", "again", kappa, "ratio"),
        ):
            compared = {each: [row.compared for row in rows] for each, rows in by_level.items()}
            parts = [(weights[each] / total, figure(rows, which)) for each, rows in compared.items()]
            mean = Interval(*(sum(w * getattr(part, end) for w, part in parts) for end in ("value", "low", "high")))
            yield _finding(f"all.{name}", mean, unit, [row for rows in by_level.values() for row in rows])
    yield Finding(
        parameter="verify.contradicted",
        value=checked.contradicted,
        unit="bool",
        method="probes asked again on which they differ: some stay apart as chance would in 1 % of exact twins",
    )


def headline(document: Document) -> str:
    """One line for the top of tables: what the result predicts of this machine."""
    figures = {each.parameter: each for each in document.findings}
    own, ceiling, other = (figures.get(f"verify.all.{name}") for name in ("agreement", "ceiling", "defaults"))
    if own is None or ceiling is None:
        return "the twin of this table was asked no probe whose level could be compared"
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
    files. None where no levels were asked."""
    rows = {row.number: row for row in checked.rows if row.by_level}
    machine = make_twin(baseline, of_nothing=True).machine
    said = answered(machine, checked, {number: row.trial for number, row in rows.items()})
    weights = {family.name: family.weight for family in FAMILIES}
    shares: dict[str, list[Compared]] = {}
    for number, answer in said.items():
        row = rows[number]
        label = Compared(row.compared.first, row.compared.again, labels(answer, machine))
        shares.setdefault(row.trial.family, []).append(label)
    if not shares:
        return None
    total = sum(weights[name] for name in shares)
    parts = [(weights[name] / total, share(each, "twin")) for name, each in shares.items()]
    mean = Interval(*(sum(w * getattr(part, end) for w, part in parts) for end in ("value", "low", "high")))
    return _finding("all.defaults", mean, "%", list(rows.values()))


# -- evidence -----------------------------------------------------------------------------------------------------


def evidence(checked: Verified, explained: list[Explanation]) -> dict[str, Any]:
    """What a table has no room for."""
    return {
        "families": {name: _family(rows, checked.family_doubt(rows)) for name, rows in checked.families.items()},
        "worst": [_bad(row, row.number in checked.staying) for row in worst(checked)],
        "explanations": [_explanation(each) for each in explained[:SHOWN]],
        "assumed": [field_name(path) for path, each in checked.twin.origins.items() if each.origin == "assumed"],
    }


def _family(rows: list[Row], doubt: float) -> dict[str, Any]:
    lines = sum(len(row.compared.first) for row in rows) if rows[0].by_level else 0
    return {"probes": len(rows), "lines": lines, "p_value": doubt}


def _bad(row: Row, stays: bool) -> dict[str, Any]:
    trial = row.trial
    if isinstance(trial, Levels):
        wrong = [
            {"probe": trial.shown(target), "machine": _level(one), "twin": _level(other)}
            for target, one, two, other in zip(
                trial.targets, row.compared.first, row.compared.again, row.compared.twin, strict=True
            )
            if one == two != other
        ]
        return {"number": row.number, "family": trial.family, "lines": wrong, "stays": stays}
    cycles = {"machine": row.first.cycles[0], "again": row.again.cycles[0], "twin": row.twin.cycles[0]}
    return {"number": row.number, "family": trial.family, "probe": trial.shown(), "cycles": cycles, "stays": stays}


def _level(label: float) -> str:
    return "memory" if label == MEMORY else f"l{int(label)}"


def _explanation(each: Explanation) -> dict[str, Any]:
    return {
        "field": each.field,
        "value": each.value,
        "instead_of": each.instead_of,
        "explains": each.explains,
        "spoils": each.spoils,
        "of": each.of,
        "posterior": each.posterior,
    }
