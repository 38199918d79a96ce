"""Prefetch distances of the compiled loops, all of them, on this CPU: the figures of the documentation.

    python benchmarks/prefetch_sweep.py [--loop NAME ...] [--rounds N] [--epochs N] [--curves FILE.csv] [--figure FILE]

Every round runs every policy once, in an order drawn anew: no software prefetch, with hardware prefetchers (and without
them where they can be switched off), the compiler's own prefetches, every distance of one stage (to L1, to L2), and
every pair of distances of two. A name may have a size, as in hash_join@256K: what the loop goes through in all.

The best policy of a strategy is *chosen* by one half of the rounds and *timed* by the other. Rounds come in epochs, and
a speed-up is the mean of epochs' ratios, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.loops import LOOP_NAMES, Loop, Policy
from setebench.native.machine import NativeMachine
from setebench.stats.estimate import Estimate, over_epochs

DISTANCES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
NEAR, FAR = (1, 2, 4, 8, 16, 32), (8, 16, 32, 64, 128, 256)
FOLKLORE = (8, 16, 64)
"""Lines ahead: distances that code has without a reason given."""

COLUMNS = 4
TICKS = (0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.2, 1.4, 2.0)

Ticks = NDArray[np.int64]


def strategies() -> dict[str, list[Policy]]:
    """Policies to choose from, by the strategies' names in Fang et al. 2014, section 7, and some more."""
    return {
        "hardware": [Policy()],
        "none": [Policy(hardware=False)],
        "compiler": [Policy(compiler=True)],
        "l1_sw, 8, 16 or 64 lines": [Policy(l1_distance=distance) for distance in FOLKLORE],
        "l1_sw": [Policy(l1_distance=distance) for distance in DISTANCES],
        "l2_sw": [Policy(l2_distance=distance) for distance in DISTANCES],
        "two_stage_sw": [Policy(l1_distance=near, l2_distance=far) for near in NEAR for far in FAR if near < far],
    }


def offered(machine: NativeMachine, name: str) -> tuple[dict[str, list[Policy]], dict[str, str]]:
    """The strategies that this machine has, and for the others why not."""
    possible, missing = {}, {}
    for strategy, policies in strategies().items():
        try:
            machine.run_loop(name, policies[:1], 1)
            possible[strategy] = policies
        except UnsupportedError as error:
            missing[strategy] = str(error)
    return possible, missing


def sweep(machine: NativeMachine, name: str, policies: Sequence[Policy], rounds: int, epochs: int) -> Ticks:
    """Ticks of every policy in every round, shape (epochs, rounds of an epoch, policies)."""
    each = -(-rounds // epochs)
    return np.array([machine.run_loop(name, policies, each, seed=epoch + 1) for epoch in range(epochs)])


def best(ticks: Ticks, members: Sequence[int]) -> int:
    """The policy among these with the lowest median, by every second round."""
    return min(members, key=lambda which: float(np.median(ticks[:, ::2, which])))


def speed_up(ticks: Ticks, base: int, which: int) -> Estimate:
    """How many times faster than the base, by the rounds that weren't chosen by."""
    medians = np.median(ticks[:, 1::2], axis=1)
    return over_epochs(medians[:, base] / medians[:, which])


def distances(policy: Policy) -> str:
    """In words."""
    named = {"L1": policy.l1_distance, "L2": policy.l2_distance}
    return ", ".join(f"{level} {distance}" for level, distance in named.items() if distance) or "-"


def show(machine: NativeMachine, loop: Loop, ticks: Ticks, groups: Mapping[str, Sequence[Policy]]) -> None:
    """A table of the strategies' best."""
    policies = [policy for group in groups.values() for policy in group]
    plain = float(np.median(ticks[:, :, policies.index(Policy())]))
    nanoseconds = plain / loop.iterations / machine.facts.ticks_per_second * 1e9
    print(
        f"\n{loop.name}: {loop.working_set_bytes / (1 << 20):.1f} MiB, work {loop.cycles_per_iteration:.1f} cycles, "
        f"now {loop.measured_cycles:.1f} cycles or {nanoseconds:.2f} ns an iteration ({loop.unit})\n"
    )
    print("| strategy | distances | speed-up | 95 % interval |\n| --- | --- | ---: | --- |")
    begin = 0
    for strategy, group in groups.items():
        chosen = best(ticks, range(begin, begin + len(group)))
        gain = speed_up(ticks, policies.index(Policy()), chosen)
        print(
            f"| {strategy} | {distances(policies[chosen])} | {gain.value:.3f} | {gain.low:.3f} to {gain.high:.3f} |",
            flush=True,
        )
        begin += len(group)


def curves(path: Path, loop: Loop, policies: Sequence[Policy], ticks: Ticks) -> None:
    """Append the medians of all policies, in ticks an iteration, for plots."""
    medians = np.median(ticks, axis=(0, 1)) / loop.iterations
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        for policy, value in zip(policies, medians, strict=True):
            kind = "compiler" if policy.compiler else "hardware" if policy.hardware else "none"
            writer.writerow([loop.name, kind, policy.l1_distance, policy.l2_distance, f"{value:.3f}"])


def draw(axes: Any, name: str, policies: Sequence[Policy], relative: NDArray[np.float64]) -> None:
    """Time over distance, 1 without software prefetches; of two stages the best L1 distance to each L2 distance."""
    from matplotlib.ticker import NullLocator

    families: dict[str, dict[int, float]] = {"L1": {}, "L2": {}, "both": {}}
    for policy, value in zip(policies, relative, strict=True):
        if policy.stages:
            family = families["both" if policy.stages == 2 else "L1" if policy.l1_distance else "L2"]
            distance = policy.l2_distance or policy.l1_distance
            family[distance] = min(value, family.get(distance, np.inf))
    for (label, values), marker in zip(families.items(), "ovs", strict=True):
        found = sorted(values.items())
        axes.plot([each for each, _ in found], [value for _, value in found], marker=marker, ms=3, lw=1, label=label)
    axes.axhline(1, color="0.5", lw=1, ls=":")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_yticks([tick for tick in TICKS if low <= tick <= high])
    axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_title(name, fontsize="medium")


def figure(path: Path, swept: Mapping[str, tuple[Sequence[Policy], NDArray[np.float64]]]) -> None:
    """All loops, four beside each other."""
    from matplotlib.figure import Figure

    rows = -(-len(swept) // COLUMNS)
    drawn = Figure(figsize=(10, 2.5 * rows), layout="constrained")
    grid = drawn.subplots(rows, COLUMNS, squeeze=False).ravel()
    for axes, (name, (policies, relative)) in zip(grid, swept.items(), strict=False):
        draw(axes, name, policies, relative)
    for axes in grid[len(swept) :]:
        axes.set_axis_off()
    grid[0].legend(fontsize="small")
    drawn.supxlabel("distance of the furthest stage, iterations")
    drawn.supylabel("time over that without software prefetches")
    drawn.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loop", nargs="+", default=LOOP_NAMES, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    with closing(NativeMachine()) as machine:
        print(machine.facts.name)
        swept = {}
        for name in options.loop:
            groups, missing = offered(machine, name)
            loop = machine.describe_loop(name)
            policies = [policy for group in groups.values() for policy in group]
            ticks = sweep(machine, name, policies, options.rounds, options.epochs)
            show(machine, loop, ticks, groups)
            for strategy, reason in missing.items():
                print(f"| {strategy} | | unavailable | {reason} |")
            if options.curves:
                curves(options.curves, loop, policies, ticks)
            medians = np.median(ticks, axis=(0, 1))
            swept[name] = (policies, medians / medians[policies.index(Policy())])
    if options.figure:
        figure(options.figure, swept)


if __name__ == "__main__":
    main()
