"""Levels from sweeps of working sets that real CPUs recorded, by rounds of which most were disturbed.

`emerald-rapids-guest.npz` holds six rounds, five seconds apart, of one virtual CPU of a KVM guest on an Intel Emerald
Rapids: ticks (2.1 GHz, in steps of two) of [1,024 additions, nothing, a chase of 256 loads, 1,024 additions], 64
samples of each of so many pages (`sizes`). `dense` chases all their lines, `spread` one line of each page, `packed` as
many lines on as few pages as hold them. In rounds 0 and 4 the core was alone; in the others another program ran on its
second thread for a part of the time, and 28 KiB took 7 to 11 cycles a load instead of 5. Plain C says of this CPU:
first level 5.00 cycles, second 16.0, last 90 to 105, of which this guest had a share of 4 to 18 MiB that came and went.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.stats.pairs import Paired, located
from setebench.stats.plateaus import Plateau, plateaus
from setebench.stats.rounds import LATENCY

FILE = Path(__file__).with_name("emerald-rapids-guest.npz")
PAGE = 4096
QUIET = (0, 4)
MEMORY_CYCLES = 250.0
"""No cache of this CPU takes so long, and its memory takes longer."""

Numbers = NDArray[np.float64]


@pytest.fixture(scope="module")
def sweeps() -> dict[str, Numbers]:
    """Sizes in pages, shape (n,), and cycles of a load by kind of chase, shape (rounds, n)."""
    with np.load(FILE) as file:
        loads, additions = int(file["chase_loads"]), float(file["reference_additions"])

        def cycles(ticks: NDArray[np.int64]) -> float:
            return located(Paired(ticks=ticks, step_ticks=2.0, reference_cycles=additions, accesses=loads)) / loads

        kinds = {kind: file[kind].astype(np.int64) for kind in ("dense", "spread", "packed")}
        found = {kind: np.array([[cycles(size) for size in row] for row in ticks]) for kind, ticks in kinds.items()}
        return found | {"pages": file["sizes"].astype(np.float64)}


def seen(sweeps: dict[str, Numbers], rounds: Sequence[int]) -> list[Plateau]:
    """Plateaus of what a load takes once the time that translations cost is taken off."""
    own = {kind: sweeps[kind][list(rounds)] for kind in ("dense", "spread", "packed")}
    spread, packed = (np.nanquantile(own[kind], LATENCY, axis=0) for kind in ("spread", "packed"))
    translation = np.maximum.accumulate(np.maximum(spread - packed, 0.0))
    return plateaus(PAGE * sweeps["pages"], own["dense"] - translation)


def chosen() -> list[tuple[int, ...]]:
    """All rounds, and all choices of four or five that a quiet one is among."""
    choices = [choice for count in (4, 5, 6) for choice in combinations(range(6), count)]
    return [choice for choice in choices if set(choice) & set(QUIET)]


def test_three_caches_show_whichever_rounds_there_were(sweeps: dict[str, Numbers]) -> None:
    for rounds in chosen():
        caches = [flat.cycles for flat in seen(sweeps, rounds) if flat.cycles < MEMORY_CYCLES]
        assert len(caches) == 3, f"rounds {rounds}: {caches}"
        assert caches[:2] == [pytest.approx(5.0, abs=0.15), pytest.approx(16.0, abs=0.4)], f"rounds {rounds}"
        assert 85.0 < caches[2] < 105.0, f"rounds {rounds}"


def test_memory_is_the_last_plateau_of_all_rounds(sweeps: dict[str, Numbers]) -> None:
    assert [flat.cycles > MEMORY_CYCLES for flat in seen(sweeps, range(6))] == [False, False, False, True]
