"""Latency under load with prefetchers switched off, where the machine lets them be and where it only says so."""

from __future__ import annotations

from typing import Any

import pytest
from asked import findings
from quiet_machines import MEMORY, quiet
from test_prefetcher_confirm import Refusing, WithoutEffect

from setebench.report.loaded_latency import loaded_latency_figure
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec

OFF = "loaded_latency.prefetchers_off"
STREAM = spec.Streamer(level=2, trigger=3, degree=4, max_distance=16)


def machine(switches: bool = True, cores: int = 2) -> Any:
    return quiet(
        memory=spec.Memory(latency_cycles=MEMORY, interval_cycles=30.0),
        core=spec.Core(cores=cores, prefetcher_switches=switches),
        prefetchers=(STREAM,),
    )


def found(opened: Any, **options: Any) -> tuple[dict[str, Finding], dict[str, Any]]:
    context = Context(machine=opened, fast=True, options=options)
    return findings("loaded-latency", context), context.evidence


def test_a_second_curve_is_measured_without_prefetchers() -> None:
    opened = machine(cores=3)
    reported, evidence = found(opened, mix=["4:0"])
    per_ns = opened.facts.ticks_per_second / 1e9
    assert reported[f"{OFF}.idle"].value == pytest.approx(MEMORY / per_ns, rel=0.02)
    assert reported[f"{OFF}.peak_bandwidth"].value == pytest.approx(64 / 30.0 * per_ns, rel=0.05)
    points = evidence["loaded_latency"]["points"]
    assert {point.get("prefetchers", True) for point in points} == {True, False}
    figure = loaded_latency_figure(evidence)
    labels = [line.get_label() for line in figure.axes[0].get_lines()]
    assert sum(str(label).endswith(", prefetchers off") for label in labels) == len(labels) // 2


def test_switches_without_effect_are_not_believed() -> None:
    reported, evidence = found(WithoutEffect(machine()))
    assert {reported[f"{OFF}.{name}"].outcome for name in ("idle", "at_peak", "peak_bandwidth")} == {Outcome.UNRESOLVED}
    assert "was not slower" in str(reported[f"{OFF}.idle"].reason)
    assert not [point for point in evidence["loaded_latency"]["points"] if "prefetchers" in point]


def test_a_refusal_is_reported_with_its_reason() -> None:
    reported, _ = found(Refusing(machine()))
    assert reported[f"{OFF}.at_peak"].outcome is Outcome.UNAVAILABLE
    assert reported[f"{OFF}.at_peak"].reason == "prefetchers can't be switched off: a reason"
