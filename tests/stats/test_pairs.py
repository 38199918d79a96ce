"""Core cycles from paired samples: without bias on any clock, beside interrupts, and blind to the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_ticks import QUIET, REFERENCE_CYCLES, Core

from setebench.stats.pairs import Paired, PairsParams, cycles_per_tick, located, ticks, undisturbed

STEPS = (1.0, 2.0, 26.0, 36.0)


@pytest.mark.parametrize("step", STEPS)
def test_a_chase_is_located_within_two_hundredths_of_a_cycle_a_load(step: float) -> None:
    core = Core(step=step)
    found = [
        located(core.paired(np.random.default_rng(run), (512 * 5.0,), 24, accesses=512)) / 512 for run in range(40)
    ]
    assert np.mean(found) == pytest.approx(5.0, abs=0.005)
    assert np.quantile(np.abs(np.array(found) - 5.0), 0.9) < 0.02


@pytest.mark.parametrize("step", STEPS)
def test_a_single_load_of_a_tenth_of_a_clock_step_is_located_by_its_mean(step: float) -> None:
    core = Core(step=step)
    ticks_of_it, pace = 2.8, core.cycles_per_us / core.ticks_per_us
    samples = 200_000
    found = located(core.paired(np.random.default_rng(1), (ticks_of_it * pace,), samples)) / pace
    error = (2 * (core.jitter**2 + step**2 / 4) / samples) ** 0.5
    assert found == pytest.approx(ticks_of_it, abs=4 * error)


@given(st.sampled_from(STEPS), st.floats(0.0, 5e4), st.integers(0, 1 << 30))
def test_a_quiet_core_answers_what_it_does(step: float, cycles: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    paired = replace(QUIET, step=step).paired(rng, (0.0, cycles), 400, accesses=64)
    error = 6 * (QUIET.jitter**2 + step**2 / 4) ** 0.5 / 400**0.5 * 2 + 0.01 * cycles
    assert located(paired, 1) == pytest.approx(cycles, abs=error)
    assert ticks(paired, 1) == pytest.approx(cycles / 2500 * 2100, abs=error)
    assert cycles_per_tick(paired) == pytest.approx(2500 / 2100, rel=0.02)


@given(st.data(), st.sampled_from(STEPS), st.integers(0, 1 << 30))
def test_no_answer_that_accesses_can_cost_decides_which_samples_count(
    data: st.DataObject, step: float, seed: int
) -> None:
    """Not by being short, not by being long: the references alone do."""
    rng = np.random.default_rng(seed)
    base = Core(step=step, excursions=20.0).paired(rng, (0.0,), 64)
    most = PairsParams().ceiling_cycles * np.median(base.ticks[:, 0]) / REFERENCE_CYCLES
    answers = data.draw(st.lists(st.floats(0.0, 0.9 * float(most)), min_size=64, max_size=64))
    changed = base.ticks.copy()
    changed[:, 2] = changed[:, 1] + np.array(answers)
    same = Paired(ticks=changed, step_ticks=step, reference_cycles=REFERENCE_CYCLES)
    bare = Paired(ticks=base.ticks[:, (0, 1, 3)], step_ticks=step, reference_cycles=REFERENCE_CYCLES)
    assert (undisturbed(same, PairsParams()) == undisturbed(bare, PairsParams())).all()


def test_what_an_interrupt_fell_into_does_not_count() -> None:
    paired = QUIET.paired(np.random.default_rng(1), (100.0,), 64)
    changed = paired.ticks.copy()
    for sample, interval in ((3, 0), (5, 2), (7, 3)):
        changed[sample, interval] += 20_000
    changed[9, (0, 3)] += 20_000  # both alike: no agreement
    hit = Paired(ticks=changed, step_ticks=2.0, reference_cycles=REFERENCE_CYCLES)
    lost = undisturbed(paired, PairsParams()) & ~undisturbed(hit, PairsParams())
    assert np.flatnonzero(lost).tolist() == [3, 5, 7, 9]


def test_too_few_samples_say_nothing() -> None:
    paired = QUIET.paired(np.random.default_rng(1), (100.0,), 7)
    assert np.isnan(located(paired)) and np.isnan(ticks(paired))
