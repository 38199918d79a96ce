"""Prefetchers of this CPU: a random walk wakes none that runs ahead, and what is reported as measured is reported
twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, starmap

import numpy as np
import pytest
from setebench.scenarios.prefetcher_map import SCENARIO
from setebench.scenarios.prefetcher_map.curves import shares_of

from setebench.experiments.presence import PARAMS, Access, Trial, Trials
from setebench.native.machine import NativeMachine
from setebench.results import Outcome, Value
from setebench.scenario import Context

NEAR = 4
"""Lines next to an access that prefetchers of single accesses may bring: next lines, pairs, small blocks."""

MOST_LED = 0.1
"""Share of the far lines that something else on the machine may bring."""
MOST_DIFFERENT = 0.1
"""Share of parameters of which two runs may say different things: some CPUs throttle a prefetcher for minutes."""


@pytest.fixture(scope="module")
def trials(native: NativeMachine) -> Iterator[Trials]:
    context = Context(machine=native, seed=3)
    with context.memory(PARAMS.pool_bytes) as region:
        yield Trials(context, region)


def test_a_random_walk_is_not_led(trials: Trials) -> None:
    rng, lines, size = np.random.default_rng(7), trials.page_lines, trials.line_size
    led = asked = 0
    for _ in range(4):
        *before, last = (int(line) for line in rng.integers(0, lines, 8))
        steps = [Access(line * size, page=page) for page, line in enumerate(before, 1)]
        walk = Trial((*steps, Access(last * size)))
        shares = shares_of(trials.sample(walk, [(line, 8) for line in range(lines)], 16))
        if shares[last, 8][0] < 0.5:
            pytest.skip("this machine is too noisy: a line just loaded was not seen in a cache")
        far = [shares[line, 8][0] > 0.5 for line in range(lines) if abs(line - last) > NEAR]
        led += sum(far)
        asked += len(far)
    assert led <= MOST_LED * asked


def reported(native: NativeMachine, seed: int) -> dict[str, Value]:
    """What is measured or absent."""
    found = SCENARIO.answer(Context(machine=native, seed=seed))
    return {each.parameter: each.value for each in found if each.outcome in (Outcome.MEASURED, Outcome.ABSENT)}


def alike(one: Value, other: Value) -> bool:
    """Whether two values are equal; lines ahead may differ by two, and by more for a quarter of the accesses."""
    if isinstance(one, list) and isinstance(other, list) and one and isinstance(one[0], int):
        return len(one) == len(other) and bool(np.mean(np.abs(np.subtract(one, other)) <= 2) >= 0.75)
    return one == other


def test_two_of_three_runs_agree(native: NativeMachine) -> None:
    """What all measure; a third is asked only where two differ, as a co-runner may have been there in one of them."""
    runs = [reported(native, 4)]
    for seed in (5, 6):
        runs.append(reported(native, seed))
        every = set.intersection(*map(set, runs))
        values = {name: [run[name] for run in runs] for name in every}
        different = {name: each for name, each in values.items() if not any(starmap(alike, combinations(each, 2)))}
        if every and len(different) <= MOST_DIFFERENT * len(every):
            return
    pytest.fail(f"of {len(every)} parameters these differ: {different}")
