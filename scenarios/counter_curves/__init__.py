"""Curves of counted events: the figures of Helm and Taura 2019 (3, 4, 6, 8 to 11) and Molka et al. 2017 (3 to 9), drawn
from whatever this machine counts; and the load-miss latency above which its memory is saturated.

Nothing is corrected or gated here: a curve shows what events say, right or wrong. Whether they may be believed is the
scenario `counters`' question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats import decide

from .experiments import LINE_ROLES, STALL_ROLES, curves, stalls, streams_of, threshold, volumes
from .params import Params
from .plot import NAMES, draw

USUAL = "helm-9"
THRESHOLD = "diagnose.saturated.threshold"
METHOD = "between load-miss latencies while more load brings more bandwidth, and while it brings none"

EXPERIMENTS: dict[str, Callable[[Context, Params], list[dict[str, Any]]]] = {
    **dict.fromkeys(("helm-3", "helm-4", "helm-8", "helm-9", "helm-10", "helm-11"), curves),
    "helm-6": volumes,
    **dict.fromkeys(("molka-3", "molka-4", "molka-5", "molka-6"), streams_of(LINE_ROLES)),
    **dict.fromkeys(("molka-7", "molka-8"), stalls),
    "molka-9": streams_of(STALL_ROLES),
}
"""What is counted for each figure."""


def answer(context: Context) -> Iterable[Finding]:
    """Count what the figure needs; the throttled reader's gives the threshold of saturation."""
    figure = context.options.get("figure") or USUAL
    params = Params().quicker() if context.fast else Params()
    params = params.within(context.machine.facts.lines_per_second)
    points = EXPERIMENTS[figure](context, params)
    kept = context.evidence["counter_curves"] = {"figure": figure, "points": points}
    if EXPERIMENTS[figure] is not curves:
        return []
    kept["threshold_cycles"], reason = threshold(points, params)
    if kept["threshold_cycles"] is None:
        return [decide.unresolved(THRESHOLD, "cycles", reason, METHOD)]
    return [
        Finding(
            parameter=THRESHOLD,
            value=kept["threshold_cycles"],
            unit="cycles",
            method=METHOD,
            evidence="counter_curves",
        )
    ]


SCENARIO = Scenario(
    name="counter-curves",
    summary="Draw what counted events say of load, levels and stalls: figures of papers, on this machine.",
    answer=answer,
    parameters=("diagnose.",),
    options=(Option(name="figure", help="Which figure.", choices=NAMES, default=USUAL),),
    plot=draw,
    order=95,
    seconds=20.0,
    on_request=True,
)
