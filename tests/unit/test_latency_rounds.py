"""Which rounds of `setebench latency` count for what."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.chains import Chained
from setebench.infer.latency_samples import Samples
from setebench.measure.calibrate import Ruler
from setebench.measure.rounds import Rounds

ROUNDS = 12
STEP, PER_TICK, BRACKET = 26.0, 1.42, 60.0


def test_vector_loads_count_in_rounds_whose_lines_were_lost() -> None:
    """They are timed in the first few rounds alone: with these left out, nothing could be told of them."""
    rounds = Rounds(("l1", "l3", "memory"), 1.0)
    rounds.rulers = [Ruler(40.0, 1.4)] * ROUNDS
    for name, cycles in (("l1", 4.0), ("l3", 50.0), ("memory", 400.0)):
        own = rounds.samples[name]
        own.single, own.all_singles, own.all_chains, own.chain = ([cycles] * ROUNDS for _ in range(4))
        own.share, own.excess = [1.0] * ROUNDS, [0.0] * ROUNDS
        own.longer = {16: [1.0, 1.1, 0.9]}
    rounds.samples["l3"].share[:3] = [0.4] * 3
    chosen = rounds.calm_samples()["l3"]
    assert len(chosen.single) == ROUNDS - 3
    assert chosen.longer == {16: [1.0, 1.1, 0.9]}


def disturbed(level: float, elsewhere: float, shares: list[float], seed: int) -> Samples:
    """Rounds of a level read on a clock of `STEP` ticks; in round n a share of `shares[n]` of the lines answers from
    `elsewhere`, for single loads and for chains of 2, 4 and 8 alike."""
    rng = np.random.default_rng(seed)
    own = Samples(share=[1.0] * len(shares))

    def read(steps: int, share: float, count: int) -> list[float]:
        lost = rng.binomial(steps, share, count)
        ticks = BRACKET + (steps * level + lost * (elsewhere - level)) / PER_TICK
        return list(np.floor(ticks / STEP + rng.random(count)) * STEP)

    for share in shares:
        chains = {steps: np.array(read(steps, share, 64)) for steps in (2, 4, 8)}
        single = (float(np.mean(read(1, share, 1000))) - BRACKET) * PER_TICK
        own.chained.append(Chained(chains, PER_TICK, BRACKET + level / PER_TICK, level))
        step = (chains[8].mean() - chains[2].mean()) / 6 * PER_TICK
        for values, value in (
            (own.single, single),
            (own.all_singles, single),
            (own.chain, step),
            (own.all_chains, step),
            (own.excess, 0.0),
            (own.single_excess_cycles2, 0.0),
        ):
            values.append(value)
    return own


def test_rounds_in_which_somebody_took_lines_are_left_out_though_no_load_shows_it() -> None:
    """The way to the next level is as long as a clock step."""
    shares = [0.15 if n // 5 % 2 else 0.0 for n in range(96)]
    calm = [disturbed(14.0, 50.0, shares, seed).without_bursts(STEP).with_whole_chains(STEP) for seed in range(4)]
    for values in ([own.single for own in calm], [own.chain for own in calm]):
        assert np.mean([np.mean(each) for each in values]) == pytest.approx(14.0, abs=0.6)
    assert np.mean(disturbed(14.0, 50.0, shares, 1).all_chains) > 16.0


def test_rounds_with_lines_of_a_nearer_level_are_not_preferred_for_being_fast() -> None:
    shares = [0.15 if n // 5 % 2 else 0.0 for n in range(96)]
    own = disturbed(50.0, 14.0, shares, 1)
    assert len(own.without_bursts(STEP).single) == len(own.without_bursts(STEP).chain) == len(shares)


def test_a_third_level_is_not_told_from_the_rounds_in_which_the_second_held_most_of_its_lines() -> None:
    """Somebody gave way, and now and then two thirds of the lines answered from the second level."""
    shares = [0.35 if n // 5 % 2 else 1.0 for n in range(96)]
    rounds = Rounds(("l1", "l2", "l3", "memory"), STEP)
    rounds.rulers = [Ruler(40.0, PER_TICK)] * len(shares)
    for name, cycles in (("l1", 4.0), ("l2", 14.0), ("memory", 500.0)):
        rounds.samples[name] = disturbed(cycles, cycles, [0.0] * len(shares), 1)
    rounds.samples["l3"] = disturbed(14.0, 50.0, shares, 2)
    assert len(rounds.calm_samples()["l3"].single) == len(shares)
    assert len(rounds.samples["l3"].without_bursts(STEP).single) < len(shares)
