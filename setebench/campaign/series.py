"""Runs of one question: how often it is answered, and how often two answers contradict each other.

On silicon no truth can be looked up, but intervals can be held to their word: two honest 95 % intervals of one
quantity, from runs that know nothing of each other, are disjoint in about one of 180 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import NormalDist, median, stdev
from typing import Any

from setebench import store
from setebench.compare import Agreement, agreement
from setebench.results import SCHEMA, Document, Finding, Outcome

_Z = NormalDist().inv_cdf(0.975)

DISJOINT = 2 * (1 - NormalDist().cdf(math.sqrt(2) * _Z))
"""How often two 95 % intervals of one quantity are disjoint, where both errors are normal and of one size: their
middles are then 2 · 1.96 standard errors apart, which is 1.96 · sqrt(2) of those of a difference (Schenker and
Gentleman 2001). 0.56 %."""

FEWEST_FOR_SPREAD = 4
"""Runs of which the standard deviation is worth reporting: of fewer it is off by more than half of itself."""


def document(scenario: str, plan: Mapping[str, Any], files: Sequence[Path]) -> dict[str, Any]:
    """What the results in these files say together, run number k of them with the seed `seed` + k - 1 of the plan: the
    document of `setebench repeat --format json`, schema 1."""
    documents = [store.load(file) for file in files]
    found = parameters(documents)
    lost = dict.fromkeys(("steal_fraction", "others_fraction", "co_runner_fraction"))  # not measured since 0.2
    runs = [
        {
            "file": file.name,
            "seed": plan["seed"] + k,
            "started": document.started,
            "elapsed_seconds": document.elapsed_seconds,
            "answered": sum(finding.value is not None for finding in document.findings),
            "reported": len(document.findings),
            **lost,
        }
        for k, (file, document) in enumerate(zip(files, documents, strict=True))
    ]
    made = {"schema": SCHEMA, "plan": {"schema": SCHEMA, "scenario": scenario, **plan}, "runs": runs}
    return {**made, "parameters": found, "totals": totals(found)}


def parameters(documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
    """Every parameter that any of the runs mentions, in the order in which they come.

    `answered` counts the runs that gave a value, an absence or a bound (`bounds`: these alone) among the `runs`.
    `pairs` are all pairs of answers, `interval_pairs` those of measured numbers that have intervals; `contradictions`
    and `interval_contradictions` say how many of them exclude each other. `spread` is the standard deviation of the
    values in units of the error that their intervals promise: 1 where they are honest, more where they are too narrow;
    None of fewer than four. `values` has one entry a run, None where it didn't answer."""
    tables = [{finding.parameter: finding for finding in document.findings} for document in documents]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _parameter([table.get(name) for table in tables]) for name in names}


def _parameter(findings: list[Finding | None]) -> dict[str, Any]:
    answers = [each for each in findings if each is not None and each.value is not None]
    measured = [each for each in answers if _has_interval(each)]
    pairs, interval_pairs = list(combinations(answers, 2)), list(combinations(measured, 2))
    return {
        "runs": len(findings),
        "answered": len(answers),
        "bounds": sum(each.outcome is Outcome.AT_LEAST for each in answers),
        "pairs": len(pairs),
        "contradictions": _contradictions(pairs),
        "interval_pairs": len(interval_pairs),
        "interval_contradictions": _contradictions(interval_pairs),
        "spread": _spread(measured),
        "unit": next((each.unit for each in answers), ""),
        "values": [None if each is None else each.value for each in findings],
    }


def _contradictions(pairs: Sequence[tuple[Finding, Finding]]) -> int:
    return sum(agreement(*pair) is Agreement.DIFFERS for pair in pairs)


def _has_interval(finding: Finding) -> bool:
    """Whether it is a measured number that says more of its error than that there is none."""
    if finding.outcome is not Outcome.MEASURED or finding.low is None or finding.high is None:
        return False
    return finding.number is not None and finding.high > finding.low


def _spread(findings: list[Finding]) -> float | None:
    if len(findings) < FEWEST_FOR_SPREAD:
        return None
    promised = median((each.high - each.low) / (2 * _Z) for each in findings)  # type: ignore[operator]
    return stdev(float(each.value) for each in findings) / promised  # type: ignore[arg-type]


def totals(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """All parameters together, beside the contradictions that honest intervals would show."""
    names = ("runs", "answered", "bounds", "pairs", "contradictions", "interval_pairs", "interval_contradictions")
    sums = {name: sum(each[name] for each in found.values()) for name in names}
    runs = sums.pop("runs")
    return {
        "asked": runs,
        **sums,
        "answered_fraction": sums["answered"] / runs if runs else None,
        "expected_interval_contradictions": DISJOINT * sums["interval_pairs"],
    }
