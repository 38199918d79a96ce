"""Curves of counted events: the figures of Helm and Taura 2019 (3, 4, 6, 8 to 11) and of Molka et al. 2017 (3 to 9),
with counts of this machine; and the load-miss latency above which memory bandwidth is saturated.

Counts are shown as they are, right or wrong, uncorrected. The scenario `counters` finds out which can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide

from .experiments import Params, reader, threshold
from .figures import FIGURES, draw

USUAL = "helm-9"
THRESHOLD = "diagnose.saturated.threshold"
METHOD = "between load-miss latencies while more load brings more bandwidth, and while it brings none"


def answer(context: Context) -> Iterable[Finding]:
    """Count the events that a plot needs (the option --figure says which), and keep the counts as evidence. Plots of
    loads with pauses between them, with prefetchers on, also give a finding: the load-miss latency above which memory
    bandwidth is saturated."""
    figure = context.options.get("figure") or USUAL
    experiment = FIGURES[figure].experiment
    params = Params().quicker() if context.fast else Params()
    points = list(experiment(context, params))
    stored: dict[str, Any] = {"figure": figure, "points": points}
    context.evidence["counter_curves"] = stored
    if experiment is not reader:
        return []
    cycles, reason = threshold(points, params)
    stored["threshold_cycles"] = cycles
    if cycles is None:
        return [decide.unresolved(THRESHOLD, "cycles", reason, METHOD)]
    return [Finding(parameter=THRESHOLD, value=cycles, unit="cycles", method=METHOD, evidence="counter_curves")]


SCENARIO = Scenario(
    name="counter-curves",
    summary="Draw what counted events say of load, levels and stalls: figures of papers, on this machine.",
    answer=answer,
    parameters=("diagnose.",),
    options=(Option(name="figure", help="Which figure.", choices=tuple(FIGURES), default=USUAL),),
    plot=draw,
    order=95,
    on_request=True,
)
