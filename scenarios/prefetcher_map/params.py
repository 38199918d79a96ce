"""Tunables of the prefetcher-map scenario, which finds hardware prefetchers and their rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """How prefetchers are probed, and which shares of repetitions and which costs count."""

    first_line: int = 4  # line of the page where runs begin: away from its ends, at which some streams start sooner
    most_accesses: int = 24  # accesses of a run at most: streams that start at the 16th still run ahead
    counts: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 16, 24)  # numbers of accesses after which lines are probed
    many_counts: tuple[int, ...] = (*range(1, 17), 20, 24)  # the same for runs that show a trigger
    few_counts: tuple[int, ...] = (1, 2, 3, 4, 8, 16)  # the same for runs that take long, or only confirm
    footprint: tuple[int, ...] = (9, 13, 15, 22, 41)  # lines without a common stride; in 1, 2 and 4 KiB regions
    practice_pages: int = 12  # pages accessed with that footprint before each repetition
    opened: int = 2  # pages that each access opens alone beforehand, where footprints are remembered
    rounds: int = 2  # rounds of all curves, seconds apart; the better one of each curve counts
    first: int = 4  # repetitions of each line at first: more only cost time
    again: int = 14  # further repetitions of lines that some of these found in a cache
    doubt: float = 0.12  # share of repetitions with the line in a cache, above which it is probed again
    came: float = 0.65  # share of repetitions with the line in a cache, from which it counts as prefetched
    slack: float = 0.4  # share by which such a line may be missing: coarse clocks, co-runners
    half: float = 0.6  # share up to which a line that is prefetched now and then needs no rule
    least_gain: float = 1.2  # lines that a family must explain to be added, or a worse value must lose
    screened: int = 6  # curves (those with most unexplained) on which families are first compared; more take time
    unexplained: float = 0.02  # share of the cost without a model, above which a model names nothing
    strange: float = 0.17  # the same, above which the lines are reported as another behaviour without a name
    tried: int = 3  # candidates whose rules are refined at a time; more take time
    mends: int = 3  # families that are removed to see whether others explain more; more take time
    as_good: float = 0.7  # lines that another value of a rule may lose to be as good: less than one clear line
    as_good_part: float = 0.03  # the same as a share of what the best model leaves unexplained
    strides: tuple[int, ...] = (1, 2, 4)  # lines from one access of a practised run to the next
    run_rounds: int = 6  # rounds of practised runs: some are disturbed
    best: float = 0.84  # quantile over these rounds of a line's share that counts: co-runners evict lines
    lead_accesses: int = 16  # accesses of the run whose lead is reported
    lead_share: float = 0.5  # share of repetitions with the line in a cache, from which it counts as ahead of a run
    other_lines: int = 3  # unexplained lines that make another behaviour; one may be an accident
    usual_triggers: int = 4  # first values of a trigger: an absent family (no stream) would show with each of them
    one_level: float = 0.75  # share of a prefetcher's lines that must be in one level, which it then fills
    repeated: int = 16  # repetitions of a single trial
    level_samples: int = 480  # the same where coarse clocks must distinguish L1 from L2: some 0.6 ticks of error
    kind_samples: int = 5  # samples of each other kind of access
    beyond: int = 3  # accesses beyond the trigger at which rules are probed: confidence counters are settled
    most_entries: int = 62  # runs beside one in a table: their instructions differ in their low six bits
    ip_bits: int = 22  # low bits of an instruction address that are flipped one by one
    huge_pages: int = 16  # 2 MiB pages for runs across the ends of 4 KiB
