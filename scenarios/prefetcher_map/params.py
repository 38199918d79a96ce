"""The tunables of questions about prefetchers, each with its unit and why it is what it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """How prefetchers are probed."""

    first_line: int = 4  # of the page, where runs begin: off the page's ends, at which some streams start sooner
    most_accesses: int = 24  # of a run: streams that start at the 16th are seen to run ahead
    counts: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 16, 24)  # accesses after which lines are looked at
    many_counts: tuple[int, ...] = (*range(1, 17), 20, 24)  # the same of runs by which a trigger is found
    few_counts: tuple[int, ...] = (1, 2, 3, 4, 8, 16)  # the same of what takes long, or only confirms
    footprint: tuple[int, ...] = (9, 13, 15, 22, 41)  # lines of a page without a stride; in 1, 2 and 4 KiB regions
    practice_pages: int = 12  # pages with that footprint before each repetition
    opened: int = 2  # pages opened by each access alone where footprints are remembered
    rounds: int = 2  # of all curves, seconds apart, of which each curve's better one counts
    first: int = 4  # repetitions of each line at first, for those in doubt; more cost time alone
    again: int = 14
    doubt: float = 0.12  # fraction of repetitions beyond which a line is looked at again
    came: float = 0.65  # fraction of repetitions in which a line comes that a rule brings
    slack: float = 0.4  # of a fraction, by which a line that a rule brings may miss: controls blur, others disturb
    half: float = 0.6  # fraction up to which a line that comes at times needs no rule that brings it
    least_gain: float = 1.2  # lines' worth that a family has to explain, or another value to lose, to count
    screened: int = 6  # curves, of which most is unexplained, by which families are compared at first; more take time
    unexplained: float = 0.02  # fraction of all that came, by cost, of which a model may leave more and name nothing
    strange: float = 0.17  # fraction of which it leaves more where what comes is another behaviour, without a name
    tried: int = 3  # families that are compared at a time with their rules adapted; more take time
    as_good: float = 0.7  # the same that another value of a rule may lose to be as good: less than one clear line
    as_good_part: float = 0.03  # the same as a part of what the best model leaves unexplained
    strides: tuple[int, ...] = (1, 2, 4)  # lines from one access of a practised run to the next
    run_rounds: int = 6  # of practised runs: some are disturbed
    best: float = 0.84  # quantile of a line's shares in these rounds that counts: a co-runner takes lines away
    lead_accesses: int = 16  # of the run whose lead is reported
    lead_share: float = 0.5  # fraction of repetitions in which a line comes that counts as ahead of a run
    other_lines: int = 3  # lines that no family explains, for there to be something else; one may be an accident
    usual_triggers: int = 4  # first values of a trigger with which a family has to show to be absent
    one_level: float = 0.75  # fraction of a family's lines in one level, which it then fills
    repeated: int = 16  # repetitions of a single question
    kind_samples: int = 5  # times that another kind of access is tried
    beyond: int = 3  # accesses more than the trigger at which rules are probed: confidence is settled there
    most_entries: int = 62  # of a table: other runs whose instructions differ in their low six bits
    ip_bits: int = 22  # low bits of an instruction address that are flipped one by one
    huge_pages: int = 16  # 2 MiB pages in which runs are made past 4 KiB
