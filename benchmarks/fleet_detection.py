"""How often a comparison of a fleet finds its odd node, and how often it raises a false alarm: over hundreds of fleets
whose nodes are drawn from recorded runs of equal simulated machines.

    python benchmarks/fleet_detection.py --recorded tests/fixtures/fleet/recorded.json --fleets 300

`setebench fleet simulate` writes such a recording, the runs of up to 50 machines. For each number of runs a node:

- false alarms: fleets of equal nodes with any alarm, as a fraction;
- detection: fleets with one node whose latency of one level (drawn) is larger by --degrade percent, in which that
  node raises an alarm in that parameter;
- the same with the intervals of all findings left out, so that runs repeated are all that is known of errors;
- with --stretch, all that with errors and intervals larger by that factor: those of the latencies in the fixture are
  within 0.5 %, so that 6 makes them 3 %;
- the smallest change that the comparison itself says it finds, as the median over fleets and latencies.

Limits are 95 % intervals of Clopper and Pearson.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from scipy import stats

from setebench.fleet.columns import Columns
from setebench.fleet.comparison import Fleet, of_columns
from setebench.fleet.reading import Reported, Result
from setebench.results import Finding
from setebench.score import fleet as made

LEVELS = ("latency.l1", "latency.l2", "latency.l3", "latency.memory")


def judged(nodes: list[made.Node], bare: bool) -> Fleet:
    """The comparison, without files."""
    columns = Columns()
    for node in nodes:
        for run in node.runs:
            findings = [reported(each, bare) for each in run]
            columns.add(Result(node=node.name, findings=findings, version="", settings={}))
    return of_columns(columns)


def reported(finding: Finding, bare: bool) -> Reported:
    """What a comparison reads of a finding; `bare`: all but a hair of its interval is left out."""
    low, high = finding.low, finding.high
    if bare and low is not None and high is not None:
        hair = 1e-12 * abs(float(finding.value))  # type: ignore[arg-type]
        low, high = float(finding.value) - hair, float(finding.value) + hair  # type: ignore[arg-type]
    return Reported(
        parameter=finding.parameter,
        outcome=str(finding.outcome),
        value=finding.value,
        unit=finding.unit,
        low=low,
        high=high,
        reason=finding.reason,
    )


def stretched(recording: made.Recording, factor: float) -> made.Recording:
    """The recording with each number's distance from the median of its parameter, and its interval, so much larger."""
    values: dict[str, list[float]] = {}
    for run in recording.runs:
        for finding in run.findings:
            if finding.low is not None:
                values.setdefault(finding.parameter, []).append(float(finding.value))  # type: ignore[arg-type]
    centres = {name: median(each) for name, each in values.items()}

    def moved(finding: Finding) -> Finding:
        if finding.low is None or finding.high is None:
            return finding
        centre = centres[finding.parameter]
        value, low, high = (
            centre + factor * (float(each) - centre)  # type: ignore[arg-type]
            for each in (finding.value, finding.low, finding.high)
        )
        return msgspec.structs.replace(finding, value=value, low=low, high=high)

    runs = [msgspec.structs.replace(run, findings=list(map(moved, run.findings))) for run in recording.runs]
    return msgspec.structs.replace(recording, runs=runs)


def degraded(node: made.Node, level: str, factor: float) -> made.Node:
    """The node with one latency moved, in all findings of that level."""
    runs = [
        [made.scaled(each, factor) if each.parameter.startswith(level) else each for each in run] for run in node.runs
    ]
    return msgspec.structs.replace(node, runs=runs)


def trial(recording: made.Recording, plan: made.Plan, bare: bool, by: float) -> tuple[bool, bool, list[float]]:
    """Whether the equal fleet raises an alarm, whether the odd node is found, and the smallest changes."""
    nodes = list(made.nodes(recording, plan))
    equal = judged(nodes, bare)
    rng = np.random.default_rng([plan.seed, 1])
    number, level = int(rng.integers(plan.nodes)), str(rng.choice(LEVELS))
    nodes[number] = degraded(nodes[number], level, 1 + by)
    found = judged(nodes, bare)
    hit = any(mark.node == nodes[number].name and mark.parameter == level for mark in found.alarms)
    changes = [each.smallest_change / each.centre for each in equal.parameters if each.parameter in LEVELS]  # type: ignore[operator]
    return bool(equal.alarms), hit, changes


def rate(times: int, trials: int) -> str:
    """With its 95 % limits."""
    low, high = stats.binomtest(times, trials).proportion_ci(method="exact")
    return f"{times / trials:7.2%}  [{low:.2%}, {high:.2%}]"


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description="Detection and false alarms of setebench fleet compare")
    parser.add_argument("--recorded", type=Path, required=True)
    parser.add_argument("--fleets", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--degrade", type=float, default=10.0, help="percent")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--stretch", type=float, default=1.0, help="make all errors and intervals so much larger")
    arguments = parser.parse_args()
    recording = stretched(made.read_recording(arguments.recorded), arguments.stretch)
    print(f"{arguments.fleets} fleets of {arguments.nodes} nodes, from {len(recording.runs)} recorded runs")
    for bare in (False, True):
        for runs in arguments.runs:
            alarms, hits, changes = 0, 0, []
            for seed in range(1, arguments.fleets + 1):
                plan = made.Plan(nodes=arguments.nodes, odd=0, seed=seed, runs=runs)
                alarm, hit, smallest = trial(recording, plan, bare, arguments.degrade / 100)
                alarms, hits, changes = alarms + alarm, hits + hit, changes + smallest
            print(f"{runs} runs a node, {'no intervals' if bare else 'intervals as reported'}:")
            print(f"  fleets with a false alarm       {rate(alarms, arguments.fleets)}")
            print(f"  found at {arguments.degrade:g} %                   {rate(hits, arguments.fleets)}")
            print(f"  smallest change said to be found {median(changes):.2%}", flush=True)


if __name__ == "__main__":
    main()
