"""Levels from sweeps that the latency scenario made of real CPUs, all rounds disturbed in one way or another.

Two files come from KVM guests on an Intel Emerald Rapids (family 6, model 207). `emerald-rapids-two-cpus.npz` had two
programs to run on its two virtual CPUs meanwhile; `emerald-rapids-sixteen-cpus.npz` had SMT co-runners on all its
cores, which took most of the first level and made the last one slower: 85 to 150 cycles. Plain C says 5.005 to 5.07
cycles of the first level and 15.98 of the second, in both. The other three come from a KVM guest on an AMD Zen 4
(family 25, model 17), beside co-runners that took most of the second level in some rounds: plain C says 4.00 and 14.08
cycles. In the last one they delayed a fifth of its loads, to 21 cycles, and single ones by four.
`ticks` are of all samples of a working set behind those of another one, `samples` of each; infinite ones are flushed
lines.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from setebench.calibration import Levels
from setebench.experiments.levels import levels_of
from setebench.experiments.size_sweep import Sized
from setebench.stats.pairs import Paired

FILES = (
    "emerald-rapids-two-cpus",
    "emerald-rapids-sixteen-cpus",
    "zen4-two-cpus",
    "zen4-two-cpus-disturbed",
    "zen4-two-cpus-delayed",
)


@cache
def inferred(name: str, sizes: int | None = None) -> Levels:
    """The levels of a sweep, of which the first round may have ended after that many sizes."""
    with np.load(Path(__file__).with_name(f"{name}.npz")) as file:
        parts = np.split(file["ticks"].astype(np.int64), np.cumsum(file["samples"])[:-1])
        common = {"step_ticks": float(file["step_ticks"]), "reference_cycles": float(file["reference_cycles"])}
        rounds: list[list[Sized]] = [[] for _ in range(int(file["round"].max()) + 1)]
        for at, size, loads, ticks in zip(file["round"], file["size_bytes"], file["loads"], parts, strict=True):
            samples = Paired(ticks=ticks, accesses=int(loads), **common)
            rounds[at].append(Sized(size_bytes=float(size), samples=samples))
        return levels_of([rounds[0][:sizes], *rounds[1:]], float(file["ticks_per_second"]))


@pytest.mark.parametrize("name", FILES)
def test_three_caches_and_no_fourth(name: str) -> None:
    found = inferred(name)
    assert found.caches == ("l1", "l2", "l3")
    low, high = (45.0, 55.0) if name.startswith("zen4") else (85.0, 125.0)
    assert low <= found.cycles["l3"] <= high


@pytest.mark.parametrize(("name", "low", "high"), [(FILES[0], 250.0, 400.0), (FILES[2], 480.0, 560.0)])
def test_memory(name: str, low: float, high: float) -> None:
    assert low <= inferred(name).cycles["memory"] <= high


@pytest.mark.parametrize(
    ("name", "first", "second", "error"),
    [
        (FILES[0], 5.005, 15.98, 0.2),
        (FILES[1], 5.005, 15.98, 1.0),
        (FILES[2], 4.002, 14.08, 1.3),
        (FILES[3], 4.002, 14.08, 2.2),
    ],
)
def test_near_levels_take_what_plain_c_says(name: str, first: float, second: float, error: float) -> None:
    found = inferred(name).latency
    for level, cycles, half_width in (("l1", first, 0.35), ("l2", second, error)):
        each = found[level]
        assert each.low - 0.02 <= cycles <= each.high + 0.02
        assert each.value == pytest.approx(cycles, abs=half_width)
        assert (each.high - each.low) / 2 <= half_width


def test_what_sizes_outgrow_is_between_two_of_them() -> None:
    for level, (low, high) in {"l1": (32, 54), "l2": (800, 2300), "l3": (1700, 3500)}.items():
        assert low <= inferred(FILES[0]).capacity[level].value / 1024 <= high
    for level, (low, high) in {"l1": (30, 60), "l2": (500, 1300), "l3": (2000, 6000)}.items():
        assert low <= inferred(FILES[2]).capacity[level].value / 1024 <= high


@pytest.mark.filterwarnings("error")
def test_a_round_that_ended_early_says_nothing_of_further_levels() -> None:
    assert inferred(FILES[0], 10).caches == ("l1", "l2", "l3")
