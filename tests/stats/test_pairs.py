"""Core cycles from paired samples: without bias on any clock, beside interrupts, and blind to the answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quiet_machines import quiet

from setebench.probe import Probe
from setebench.sim import spec
from setebench.stats.pairs import Paired, PairsParams, cycles_per_tick, located, ticks, undisturbed

STEPS = (1.0, 2.0, 26.0, 36.0)
TICKS_PER_CYCLE, REFERENCE_CYCLES = 0.84, 3000
DISTURBED = spec.Noise(recorded="emerald-rapids-guest", interrupt_interval_cycles=1e6, interrupt_cycles=9500.0)
"""The pace wanders and jumps as it was recorded on a guest, and 2,500 interrupts a second take 4 us each."""


def paired(
    step: float, question: Probe, samples: int, accesses: int = 1, seed: int = 1, *, noise: spec.Noise = DISTURBED
) -> Paired:
    """Samples of a question on a simulated core whose clock has such steps, in ticks."""
    clock = spec.Clock(step_ticks=step, ticks_per_cycle=TICKS_PER_CYCLE, jitter_cycles=9.0, brackets={"lfence": 80.0})
    probe = Probe().paired(Probe().wait(REFERENCE_CYCLES), question)
    return Paired(
        ticks=quiet(seed, clock=clock, noise=noise).run(probe, samples),
        step_ticks=step,
        reference_cycles=REFERENCE_CYCLES,
        accesses=accesses,
    )


@pytest.mark.parametrize("step", STEPS)
def test_a_chase_is_located_within_two_hundredths_of_a_cycle_a_load(step: float) -> None:
    found = np.array([located(paired(step, Probe().wait(512 * 5), 48, 512, seed)) for seed in range(40)]) / 512
    assert np.mean(found) == pytest.approx(5.0, abs=0.01)
    assert np.quantile(np.abs(found - 5.0), 0.9) < 0.02


@pytest.mark.parametrize("step", STEPS)
def test_a_single_load_of_a_tenth_of_a_clock_step_is_located_by_its_mean(step: float) -> None:
    samples = 100_000
    error = (2 * (9.0**2 + (step / TICKS_PER_CYCLE) ** 2 / 4) / samples) ** 0.5
    assert located(paired(step, Probe().add(3), samples)) == pytest.approx(3.0, abs=4 * error)


@pytest.mark.parametrize("cycles", [0, 40, 7000, 50_000])
@pytest.mark.parametrize("step", STEPS)
def test_a_quiet_core_answers_what_it_does(step: float, cycles: int) -> None:
    question = Probe().wait(cycles) if cycles else Probe()
    found = paired(step, question, 400, accesses=64, noise=spec.Noise())
    error = 0.6 * (9.0**2 + (step / TICKS_PER_CYCLE) ** 2 / 4) ** 0.5 + 0.005 * cycles
    assert located(found) == pytest.approx(cycles, abs=error)
    assert ticks(found) == pytest.approx(cycles * TICKS_PER_CYCLE, abs=error)
    assert cycles_per_tick(found) == pytest.approx(1 / TICKS_PER_CYCLE, rel=0.02)


@settings(max_examples=40)
@given(st.lists(st.floats(0.0, 0.9), min_size=64, max_size=64), st.sampled_from(STEPS))
def test_no_answer_that_accesses_can_cost_decides_which_samples_count(answers: list[float], step: float) -> None:
    """Not by being short, not by being long: the references alone do. Answers are parts of the most."""
    base = paired(step, Probe(), 64)
    most = PairsParams().ceiling_cycles * np.median(base.ticks[:, 0]) / REFERENCE_CYCLES
    changed = base.ticks.copy()
    changed[:, 2] = changed[:, 1] + np.array(answers) * most
    same = Paired(ticks=changed, step_ticks=step, reference_cycles=REFERENCE_CYCLES)
    bare = Paired(ticks=base.ticks[:, (0, 1, 3)], step_ticks=step, reference_cycles=REFERENCE_CYCLES)
    assert (undisturbed(same, PairsParams()) == undisturbed(bare, PairsParams())).all()


def test_what_an_interrupt_fell_into_does_not_count() -> None:
    quiet_run = paired(2.0, Probe().wait(100), 64, noise=spec.Noise())
    changed = quiet_run.ticks.copy()
    for sample, interval in ((3, 0), (5, 2), (7, 3)):
        changed[sample, interval] += 20_000
    changed[9, (0, 3)] += 20_000  # both alike: no agreement
    hit = Paired(ticks=changed, step_ticks=2.0, reference_cycles=REFERENCE_CYCLES)
    lost = undisturbed(quiet_run, PairsParams()) & ~undisturbed(hit, PairsParams())
    assert np.flatnonzero(lost).tolist() == [3, 5, 7, 9]


def test_too_few_samples_say_nothing() -> None:
    few = paired(2.0, Probe().wait(100), 7)
    assert np.isnan(located(few)) and np.isnan(ticks(few))
