"""What is set about lines of other cores, with what each number is and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Rounds of reads, traversals that make a reader lose a line, and what is a measurement of one thing.

    Up to `cores_in_pairs` cores every ordered pair is measured; beyond, reads by one core (as in the paper's Figure 3).
    Reads that differ by `same_cycles` at most come from equally far.

    A round has `repetitions` of a probe, and there are `rounds` at least, `most_rounds` at most, until half the
    interval is `narrow` of the value or `narrow_cycles`, and drift leaves no more than `precise` of it open; where
    the reader traverses many lines in each, after `lost_rounds` until it is just narrow enough to be reported.
    Threads are started `starts` times for the spread of their starts. Chases beside the core's other thread are
    `turns` long, behind `warm_turns`; in a round cycles per tick are known to `pace`.

    Where a traversal seems to push lines out of every cache, up to `shorter_walks` shorter ones are tried, each
    `shorter` times shorter than the one before, until two in a row show the same within `same`. On a clock too coarse
    to distinguish levels load by load (they are less than `apart_steps` of its steps apart: each is read as one of two
    steps, or one more where it differs a little) `alike_walks` in a row: what is mixed from two levels grows with the
    traversal, under random replacement no faster than its length, so behind the shortest of these, by a third less than
    the longest, less than a tenth of a read can be memory's doing.

    A largest group with less than `least_group` of the samples, or half an interval of more than `steady` of the value,
    is no measurement of one thing. Other cores' answers take `own` times as long as the second cache's at least, as a
    question to others goes through it; by less they can't be distinguished from memory's. Half the interval of such an
    answer is `precise` of it, or `precise_cycles`, at most, as rounds show it, and what is reported is `quiet_cycles`
    at least, or what drift leaves open: it crosses an interconnect that has a clock and users of its own. It depends on
    the line's past from `past_cycles` on, or half of `steady`."""

    cores_in_pairs: int = 8
    same_cycles: float = 1.0
    rounds: int = 6
    lost_rounds: int = 12
    most_rounds: int = 48
    repetitions: int = 4
    narrow: float = 0.02
    narrow_cycles: float = 0.5
    starts: int = 40
    warm_turns: int = 3
    turns: int = 8
    pace: float = 0.005
    shorter: float = 1.25
    shorter_walks: int = 5
    apart_steps: float = 4.0
    same: float = 0.03
    alike_walks: int = 3
    least_group: float = 0.6
    steady: float = 0.1
    own: float = 1.25
    precise: float = 0.05
    precise_cycles: float = 1.0
    quiet_cycles: float = 0.3
    past_cycles: float = 2.0


PARAMS = Params()
