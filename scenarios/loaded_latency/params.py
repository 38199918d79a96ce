"""All that can be set about latency under load."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """Load points are numbers of loading threads, of no-operations between four lines, and of written lines."""

    delays: tuple[int, ...] = (
        0,
        4,
        8,
        16,
        24,
        32,
        48,
        64,
        96,
        128,
        192,
        256,
        512,
        1024,
        2048,
    )  # full load to a percent
    fast_delays: tuple[int, ...] = (0, 16, 64, 256, 1024)  # the same with --fast, and for mixes with writes
    threads: int = 64  # that load at most unless more are asked for: each point takes longer the more there are
    fast_threads: int = 16  # the same with --fast
    fewest_points: int = 9  # measured whatever the budget: those of --fast, and full load by fewer threads

    fewest_rounds: int = 4  # whatever the budget; fewer leave no quantile of quiet ones
    seconds: float = 4.0  # of `Budget`, for all rounds
    samples: int = 32  # chases of a point in a round; a mean of so many is good to some percent
    fewest_samples: int = 12  # the same where the machine takes long: eight must be undisturbed
    point_fraction: float = 0.005  # of the budget that a point may take in a round: 27 points six times

    chased_bytes: int = 32 << 20  # that chased lines are drawn from
    stream_bytes: int = 1 << 20  # of each of the four streams of a loading thread
    stagger_lines: int = 5  # streams at one place of a page each would fight for the same sets of the caches
    lag_lines: int = 16  # behind which a stored line is written back: its store is done, the flush waits for nothing
    first_steps: int = 128  # of a loading thread, before its pace is known
    spare: float = 1.5  # a load's time over that of the chase beside it, which slows down as the load grows
    tries: int = 3  # to make a load last: the chase takes longer the higher it is
    least_lasting: float = 0.6  # part of a point's samples in which the load must last as long as the chase
    ceiling_cycles: float = 32000.0  # most that an access can cost: as many threads as load wait before it
    least_rounds: int = 2  # in which a point must have lasted, or it is no figure

    precise: float = 0.1  # half width up to which latency without load is a value and no bound
    run_to_run: float = 0.03  # of latency: 1.9 times what it differs by between runs, of two seconds, that lie apart


PARAMS = Params()
