"""What rounds of single loads and chains gave of a level, in cycles per load."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from setebench.infer.bursts import calm_rounds
from setebench.infer.chains import Chained, steps_alone

LEAST_ROUNDS = 4
"""Rounds that chains without lost lines should come from."""

SURE_ERRORS = 2.0
"""Chains surely had lines from further out if their third moment grows by so many standard errors."""


@dataclass
class Samples:
    """What one level's rounds gave, in cycles per load, a value per round.

    `single` is the mean of the single loads' largest group (of the fastest lines, where lines are timed again and
    again), `share` how much of them that is; `all_singles` is the mean of all, lines that were pushed out of the level
    included. `chain` and `all_chains` are the same of a chain's steps.
    `excess` is by how much the variance of a chain grows with each step (cycles squared): steps that all take the same
    leave it alone, a mixture of levels does not. `longer` is what vector loads of a size take longer than 8-byte loads,
    fenced; `chase_longer` what a step of a vector chase takes longer, the way back to an integer register included.
    `upwards` says that it is lines from further out that make it grow.
    `chained` are the chains' own ticks (see `infer.chains`), none in L1, and of memory none of whole rounds;
    `first_ticks` is what single loads of the largest group read in the last round, brackets included;
    `lines` is of how many lines a round's share is. `single_excess_cycles2` is by how much single loads of the largest
    group spread further than additions do (variance, cycles squared; 0 on a clock too coarse to show it)."""

    single: list[float] = field(default_factory=list)
    all_singles: list[float] = field(default_factory=list)
    single_excess_cycles2: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    all_chains: list[float] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)
    chain: list[float] = field(default_factory=list)
    longer: dict[int, list[float]] = field(default_factory=dict)
    chase_longer: dict[int, list[float]] = field(default_factory=dict)
    chained: list[Chained] = field(default_factory=list)
    upwards: bool = False
    first_ticks: float = 0.0
    lines: int = 0
    raw: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def add_mean(self, parts: Samples) -> None:
        """Add one round that was measured in parts, each of which weighs the same."""
        for name in ("single", "all_singles", "single_excess_cycles2", "share", "all_chains", "excess", "chain"):
            getattr(self, name).append(float(np.mean(getattr(parts, name))))
        self.raw = parts.raw

    def of(self, rounds: NDArray[np.int64], of_chains: NDArray[np.int64] | None = None) -> Samples:
        """The samples of some rounds, by number, those of chains of other rounds if given; vector loads are measured in
        the first few only."""
        of_chains = rounds if of_chains is None else of_chains

        def chosen(values: list[float], of_rounds: NDArray[np.int64] = rounds) -> list[float]:
            return [values[n] for n in of_rounds if n < len(values)]

        return Samples(
            single=chosen(self.single),
            all_singles=chosen(self.all_singles),
            single_excess_cycles2=chosen(self.single_excess_cycles2),
            share=chosen(self.share),
            all_chains=chosen(self.all_chains, of_chains),
            excess=chosen(self.excess, of_chains),
            chain=chosen(self.chain, of_chains),
            longer={size: chosen(values) for size, values in self.longer.items()},
            chase_longer={size: chosen(values) for size, values in self.chase_longer.items()},
            chained=[self.chained[n] for n in of_chains if n < len(self.chained)],
            raw=self.raw,
        )

    def without_bursts(self, step_ticks: float) -> Samples:
        """Without the rounds in which lines were pushed out, if chains say that some were. Single loads are judged by
        chains, chains by single loads (`infer.bursts`)."""
        alone = steps_alone(self.chained, step_ticks) if self.chained else None
        if alone is None or alone.upwards_errors < SURE_ERRORS:
            return self  # what is mixed in isn't slower: the lowest rounds would have the most lines of a nearer level
        return self.of(calm_rounds(self.single, self.all_chains), calm_rounds(self.chain, self.all_singles))

    def with_whole_chains(self, step_ticks: float) -> Samples:
        """The same, with steps of chains that lost no line, which all rounds together tell better than each."""
        alone = steps_alone(self.chained, step_ticks) if self.chained else None
        if alone is None or len(alone.cycles) < LEAST_ROUNDS:
            return self
        return replace(self, chain=alone.cycles, excess=[alone.excess], upwards=alone.upwards)
