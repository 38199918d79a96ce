"""Prefetchers of this CPU: a random walk wakes none that runs ahead, and what is reported as measured is reported
twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from setebench.scenarios.prefetcher_map.lab import Lab
from setebench.scenarios.prefetcher_map.survey import repeated_survey

from setebench.experiments.levels import working_memory
from setebench.experiments.lines.serving import measure_references
from setebench.experiments.visits import Access, Visit
from setebench.native.machine import NativeMachine
from setebench.results import Outcome, Value
from setebench.scenario import Context

NEAR = 4
"""Lines next to an access that prefetchers of single accesses may bring: next lines, pairs, small blocks."""

MOST_LED, MOST_UNCLEAR = 0.1, 0.5
"""Shares of the far lines that something else on the machine may bring, and that it may disturb."""
MOST_DIFFERENT = 0.1
"""Share of parameters of which two runs may say different things: some CPUs throttle a prefetcher for minutes."""


@pytest.fixture(scope="module")
def laboratory(native: NativeMachine) -> Iterator[Lab]:
    context = Context(machine=native, seed=3, fast=True)
    region = working_memory(context)
    try:
        references = measure_references(context, region)
        if set(references.levels) <= {"memory"}:
            pytest.skip("this machine is too noisy: no cache level can be distinguished from memory")
        yield Lab(context, region, references)
    finally:
        native.release(region)


def test_a_random_walk_is_not_led(laboratory: Lab) -> None:
    rng, lines, size = np.random.default_rng(7), laboratory.page_lines, laboratory.line_size
    led = unclear = asked = 0
    for _ in range(4):
        *before, last = (int(line) for line in rng.integers(0, lines, 8))
        steps = [Access(line * size, page=page) for page, line in enumerate(before, 1)]
        walk = Visit((*steps, Access(last * size)))
        if laboratory.brings(walk, last) is not True:
            pytest.skip("this machine is too noisy: a line just loaded was not seen in a cache")
        far = laboratory.scan(walk, [line for line in range(lines) if abs(line - last) > NEAR])
        led += sum(brought is True for brought in far.values())
        unclear += sum(brought is None for brought in far.values())
        asked += len(far)
    if unclear > MOST_UNCLEAR * asked:
        pytest.skip("this machine is too noisy: most lines were there in some repetitions only")
    assert led <= MOST_LED * asked


def reported(laboratory: Lab, seed: int) -> dict[str, Value]:
    """By surveys at several times, each with references of its own. Where the levels are is known by now: finding that
    takes longer than all surveys."""
    context = replace(laboratory.context, seed=seed, evidence={})
    region = laboratory.region
    _, findings = repeated_survey(context, region, lambda: measure_references(context, region))
    measured = (Outcome.MEASURED, Outcome.ABSENT)
    return {finding.parameter: finding.value for finding in findings if finding.outcome in measured}


def test_what_is_measured_twice_agrees(laboratory: Lab) -> None:
    first, second = reported(laboratory, 4), reported(laboratory, 5)
    both = first.keys() & second.keys()
    different = {name: (first[name], second[name]) for name in both if first[name] != second[name]}
    assert len(different) <= MOST_DIFFERENT * len(both), different
