"""Hardware data prefetchers: which ones there are, and by which rules they work.

After Fang et al. 2014, 5.3 and section 6. A trial makes accesses to a fresh page, then times one line
(`experiments.presence`). Curves come first (`curves`): which lines of the page are in a cache after 1 to 24 accesses,
for 16 access patterns. Then come the rules of known families that explain the curves (`model`, `fit`), rules that need
further trials (`rules`), and unexplained lines (`findings`). `confirm` switches prefetchers off, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.presence import PAGE_BYTES, PARAMS, Trials
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Option, Scenario

from .confirm import confirmed
from .curves import BY_ONE, Seen, battery, leads_of, levels_ahead, measure, practices, runs
from .findings import OWN_RUN, UNEXPLAINED, named, others
from .fit import Fit
from .params import Params
from .pattern import HELP, ask, parse
from .regions import remembers, report_region
from .rules import Asker, ask_rules, isolated, report_stride


def answer(context: Context) -> Iterator[Finding]:
    """Yield findings on every prefetcher, or on the one access pattern that the user gave."""
    pattern, facts = context.options.get("pattern"), context.machine.facts
    if pattern is not None:  # a wrong pattern must be refused before anything is measured
        parse(pattern, PAGE_BYTES // context.line_size, context.line_size)
    with context.memory(min(PARAMS.pool_bytes, facts.memory_bytes // 4)) as region:
        context.progress("controls")
        trials = Trials(context, region)
        yield from survey(trials) if pattern is None else ask(trials, pattern)


def survey(trials: Trials) -> Iterator[Finding]:
    """Measure all curves, fit families of prefetchers to them, probe further rules, and yield the findings."""
    context, params = trials.context, Params()
    practised = {curve.name: measure(trials, curve, params) for curve in practices(trials, params)}
    opened = params.opened if remembers(practised, params) else 0
    curves: dict[str, Seen] = {}
    for turn in range(params.rounds):
        for curve in battery(trials, params):
            context.progress(f"curve: {curve.name}, round {turn + 1}")
            _keep(curves, measure(trials, curve, params, opened))
    context.progress("rules that explain the curves")
    fit = Fit(curves, trials.line_size, params)
    reports, asker = named(fit), Asker(trials, fit, opened)
    leads, ahead = ({}, {}) if fit.explains else _run_ahead(trials, params)
    rest = [*others(fit, leads, ahead, opened > 0)]
    if fit.strange:
        if fit.explains_own:  # level 2 doesn't see instructions
            rest[-1].open("present", UNEXPLAINED)
        stride = isolated(curves[BY_ONE], leads, trials.line_size, params)
        fit.take({} if stride is None else {"l1.stride": stride})
        if stride is not None:
            report_stride(asker, reports["l1.stride"])
    ask_rules(asker, reports)
    for curve in practices(trials, params) if opened else ():
        _keep(practised, measure(trials, curve, params))
    shown = {**curves, **practised}
    context.evidence["prefetchers"] = {name: seen.evidence(trials.line_size) for name, seen in shown.items()}
    reports["l1.region"] = report_region(Asker(trials, fit, 0), practised)
    findings = [finding for report in (*reports.values(), *rest) for finding in report.findings.values()]
    yield from confirmed(context, asker, findings)


def _run_ahead(trials: Trials, params: Params) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Measure runs that are repeated on many pages (`curves.runs`). Return how many lines ahead prefetches reach, by
    run and number of accesses; and by level all distances in lines at which prefetches lead the run `OWN_RUN`."""
    curves = {curve.name: curve for curve in runs(trials, params)}
    rounds: dict[str, list[Seen]] = {name: [] for name in curves}
    by_round: dict[str, list[list[int]]] = {name: [] for name in curves}

    def came(*seen: Seen) -> NDArray[np.bool_]:
        shares = np.nan_to_num([each.present for each in seen])
        return np.asarray(np.quantile(shares, params.best, axis=0, method="nearest") >= params.came)

    for turn in range(params.run_rounds):
        trials.context.progress(f"runs, round {turn + 1}")
        for name, curve in curves.items():
            rounds[name].append(measure(trials, curve, params))
            by_round[name].append(leads_of(curve, came(rounds[name][-1]), trials.line_size))
        if turn and all(each[-1] == each[-2] for each in by_round.values()):  # nothing disturbs
            break
    leads = {name: leads_of(curves[name], came(*each), trials.line_size) for name, each in rounds.items()}
    trials.context.evidence["prefetcher_runs"] = by_round
    return leads, levels_ahead(rounds[OWN_RUN], came(*rounds[OWN_RUN]), trials.line_size)


def _keep(curves: dict[str, Seen], seen: Seen) -> None:
    """Store a round of a curve in `curves`, unless the stored one shows more lines that were surely prefetched."""
    curves[seen.curve.name] = max(seen, curves.get(seen.curve.name, seen), key=lambda each: each.surely)


def plot(document: dict[str, Any]) -> Any:
    """Return a figure of a result's `document`, a heat map per curve: the level of each line, by number of accesses."""
    from setebench.report.plots.maps import map_figure  # matplotlib is only loaded for a plot

    return map_figure(document)


SCENARIO = Scenario(
    name="prefetcher-map",
    summary="hardware data prefetchers: which there are, what starts them, how far they run",
    answer=answer,
    parameters=("prefetcher.", "pattern."),
    options=(
        PAGE_SIZE,
        Option(name="pattern", help=HELP),
    ),
    plot=plot,
    order=50,
)
