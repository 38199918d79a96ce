"""How many entries a table has, from synthetic costs of tables that are known."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats.entries import Samples, find_steps, gone, samples, table

ALL = 65536
"""Entries that others are drawn from, for a table that sets are chosen of by bits."""


def lost(counts: np.ndarray, sets: int, ways: int, rng: np.random.Generator) -> np.ndarray:
    """The chance that one is gone, found by drawing the others and counting those of its set."""
    chances = []
    for count in counts:
        drawn = rng.integers(0, sets, (200, int(count))) if sets > 1 else np.zeros((1, int(count)))
        chances.append(float(((drawn == 0).sum(axis=1) >= ways).mean()))
    return np.array(chances)


def noisy(counts: np.ndarray, means: np.ndarray, error: float, rng: np.random.Generator) -> Samples:
    return Samples(
        counts=counts.astype(float),
        means=means + rng.normal(0, error, len(counts)),
        errors=np.full(len(counts), error),
        fractions=np.zeros(len(counts)),
    )


@pytest.mark.parametrize(("sets", "ways"), [(16, 4), (128, 5), (128, 12), (128, 24)])
def test_the_chance_to_be_gone_is_that_of_sets_that_replace_their_oldest(sets: int, ways: int) -> None:
    counts = np.round(sets * ways * np.array([0.5, 0.8, 1.0, 1.3, 2.0]))
    drawn = lost(counts, sets, ways, np.random.default_rng(1))
    assert gone(counts, float(sets * ways), float(ways))[0] == pytest.approx(drawn, abs=0.12)


def test_others_of_few_to_choose_from_fall_into_sets_more_evenly() -> None:
    """Half of all pages: each set gets its part with half the variance (hypergeometric)."""
    rng, sets, ways = np.random.default_rng(2), 64, 8
    drawn = [(rng.permutation(1024)[:512] % sets == 0).sum() >= ways for _ in range(4000)]
    assert gone(512.0, float(sets * ways), float(ways), 0.5)[0, 0] == pytest.approx(np.mean(drawn), abs=0.03)


@pytest.mark.parametrize("error", [0.5, 2.0])
def test_entries_that_are_probable_are_true(error: float) -> None:
    """Steps of 40 cycles; of 60 tables of any shape, what has 95 % is true in 57 or more."""
    rng = np.random.default_rng(3)
    right = reported = 0
    for _ in range(60):
        sets, ways = int(2 ** rng.integers(3, 9)), int(rng.choice([4, 5, 6, 8, 12, 16, 24]))
        entries = float(sets * ways)
        counts = np.unique(np.round(entries * np.geomspace(0.3, 3.0, 24)))
        means = 10 + 40 * gone(counts, entries, float(ways))[0]
        found = table(noisy(counts, means, error, rng), entries * rng.uniform(0.8, 1.25), counts)
        if found.posterior.certainty >= 0.95:
            reported += 1
            right += found.posterior.value == sets * ways
    assert reported >= 40 * (error < 1)
    assert right >= 0.95 * reported


@pytest.mark.parametrize("entries", [48, 64, 72, 96, 160])
def test_a_table_of_one_set_may_have_any_number(entries: int) -> None:
    rng = np.random.default_rng(entries)
    counts = np.arange(0.5 * entries, 2 * entries, 1.0)
    means = np.where(counts >= entries, 7.0, 0.0)
    found = table(noisy(counts, means, 0.5, rng), 1.2 * entries, counts)
    assert found.posterior.value == entries
    assert found.sharp > 0.95


def test_two_tables_are_two_steps() -> None:
    counts = np.unique(np.round(np.geomspace(8, 8000, 26)))
    means = 7.0 * (counts >= 64) + 33.0 * gone(counts, 1536.0, 12.0)[0]
    steps = find_steps(noisy(counts, means, 0.5, np.random.default_rng(4)), (3.0, 8.0))
    assert len(steps) == 2
    assert [step.entries for step in steps] == pytest.approx([64, 1536], rel=0.3)
    assert [step.height for step in steps] == pytest.approx([7, 33], rel=0.1)


def test_noise_is_no_step() -> None:
    counts = np.unique(np.round(np.geomspace(8, 4000, 22)))
    assert not find_steps(noisy(counts, 0 * counts, 1.0, np.random.default_rng(5)), (3.0, 8.0))


def test_scatter_is_pooled_with_near_counts() -> None:
    """A count that two draws happen to agree on isn't surer than those beside it."""
    found = samples({10: [1.0, 1.0], 20: [0.0, 2.0, 1.0], 30: [3.0, 1.0]}, 8, lambda _count: 0.25)
    assert found.errors[0] > 0.3
    assert found.counts.tolist() == [18, 28, 38]


def test_without_a_sample_every_number_is_as_probable_as_before() -> None:
    none = Samples(counts=np.zeros(0), means=np.zeros(0), errors=np.zeros(0), fractions=np.zeros(0))
    found = table(none, 64.0, [32.0, 128.0]).posterior
    assert found.probability.sum() == pytest.approx(1.0)
    assert {48, 64, 96} <= set(found.numbers[found.probability > 0].tolist())
