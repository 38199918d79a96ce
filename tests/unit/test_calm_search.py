"""How many entries fit while somebody on a sibling thread uses the same TLB in spells, from synthetic curves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from setebench.infer.calm import SETTLED_LOOKS, CalmSearch
from setebench.infer.capacity import Capacity

THRESHOLD, PENALTY, NOISE = 0.2, 7.0, 0.03


@dataclass
class Shared:
    """A curve of a table that replaces its oldest entry: all miss from one too many on. A sibling thread comes and goes
    after so many looks on average; while it is there each look finds up to `taken` entries fewer, but for a share of
    the looks that meet it idle."""

    entries: int = 72
    seed: int = 1
    spell_looks: float = 400.0
    taken: int = 20
    idle_share: float = 0.05
    busy: bool = True
    looks: int = 0
    rng: np.random.Generator = field(init=False)
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.left = self.rng.exponential(self.spell_looks)

    def __call__(self, n: int) -> float:
        self.looks += 1
        self.left -= 1
        if self.left < 0:
            self.busy, self.left = not self.busy, self.rng.exponential(self.spell_looks)
        gone = self.rng.integers(0, self.taken + 1) if self.busy and self.rng.random() > self.idle_share else 0
        return float(PENALTY * (n > self.entries - gone) + NOISE * self.rng.standard_normal())


def found(curve: Shared, patience: int = 3000) -> Capacity | None:
    return CalmSearch(curve, THRESHOLD, patience).capacity(6, 300)


@pytest.mark.parametrize("entries", [16, 48, 63, 64, 72, 96, 299])
def test_a_calm_machine_needs_few_looks(entries: int) -> None:
    curve = Shared(entries, busy=False, spell_looks=1e9)
    assert found(curve, patience=0) == Capacity(entries, entries + 1)
    assert curve.looks < 120


@pytest.mark.parametrize("taken", [2, 8, 30])
def test_spells_in_which_somebody_takes_entries_are_waited_out(taken: int) -> None:
    """A search that believes two raised looks tells anything from 72 less `taken` on."""
    told = [found(Shared(seed=seed, taken=taken)) for seed in range(12)]
    assert told == [Capacity(72, 73)] * 12


def test_a_spell_that_outlasts_patience_leaves_a_bound() -> None:
    for seed in range(12):
        told = found(Shared(seed=seed, spell_looks=1e9, idle_share=0.0), patience=100)
        assert told is not None
        assert told.fits <= 72
        assert not told.exact


def test_patience_bounds_the_looks_of_all_searches_together() -> None:
    curve = Shared(spell_looks=1e9, idle_share=0.0)
    search = CalmSearch(curve, THRESHOLD, 100)
    search.capacity(6, 300)
    begun = curve.looks
    for _ in range(2):
        search.settled(71, 72)
    assert begun < 2 * 100 + 120
    further = 8  # numbers that a bound goes down by until one surely fits
    assert curve.looks - begun <= 2 * (2 + 2 * further) * (SETTLED_LOOKS + 1)


def test_what_seemed_not_to_fit_is_found_to_fit_later() -> None:
    search = CalmSearch(Shared(busy=False, spell_looks=1e9), THRESHOLD, 0)
    assert search.settled(59, 300) == Capacity(72, 73)


def test_a_step_of_few_misses_is_told_from_a_slow_control() -> None:
    """One page too many in one set of four ways, and now and then a control that a stall hit: a low look in twenty."""
    rng = np.random.default_rng(5)

    def excess(n: int) -> float:
        slow = rng.exponential() if rng.random() < 0.05 else 0.0
        return float(5 * 6.0 / n * (n > 64) + 0.02 * rng.standard_normal() - slow)

    told = [CalmSearch(excess, THRESHOLD, 600).capacity(6, 300) for _ in range(40)]
    assert all(each is not None and each.fits == 64 for each in told)


def test_no_step_and_no_start() -> None:
    assert CalmSearch(lambda _n: 0.0, THRESHOLD, 100).capacity(6, 200) == Capacity(200, None)
    assert CalmSearch(lambda _n: 1.0, THRESHOLD, 100).capacity(6, 200) is None


@pytest.mark.parametrize("noise", [0.3, 0.5])
def test_noise_of_every_look_doesnt_walk_a_bound_beyond_the_entries(noise: float) -> None:
    """One entry too many costs little more than the threshold where a table doesn't replace its oldest."""

    def told(seed: int) -> int:
        rng = np.random.default_rng(seed)

        def excess(n: int) -> float:
            return float((0.4 + 0.35 * (n - 65)) * (n > 64) + noise * rng.standard_normal())

        search = CalmSearch(excess, THRESHOLD, 600).capacity(12, 400)
        return 0 if search is None else search.fits

    assert np.mean([told(seed) > 64 for seed in range(60)]) < 0.05
