"""The first cache's size, ways and index from how many lines at a stride stay in it."""

from __future__ import annotations

import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.first_cache import StrideRound, first_cache_findings, measure_strides

from setebench.calibration import Calibration, Levels
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec

LEVELS = Levels(cycles={"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0})
"""Of the quiet machine, about."""

COARSE = spec.Clock(ticks_per_cycle=0.703, step_ticks=26.0, jitter_cycles=2.0, drift=0.04, drift_period_cycles=2e7)
BUSY = spec.Noise(interrupt_interval_cycles=3e5)
STRIDES = tuple(512 << octave for octave in range(9))


def measured(rounds: int = 1, **changes: object) -> dict[str, Finding]:
    context = Context(machine=quiet(**changes), calibration=Calibration(levels=LEVELS, line_bytes=64))
    found = first_cache_findings([measure_strides(context) for _ in range(rounds)])
    return {each.parameter.removeprefix("cache.l1."): each for each in found}


def inferred(*counts: tuple[int, ...]) -> dict[str, Finding]:
    rounds = [StrideRound(strides=STRIDES, lines=each) for each in counts]
    return {each.parameter.removeprefix("cache.l1."): each for each in first_cache_findings(rounds)}


@pytest.mark.parametrize(
    ("sets", "ways", "changes"),
    [
        (64, 16, {"l1": {"replacement": "random"}}),
        (64, 8, {"l1": {"way_tag_bits": 8, "mispredicted_way_cycles": 3.0, "replacement": "tree_plru"}}),
        (64, 6, {"clock": COARSE, "noise": BUSY, "prefetchers": (spec.NextLine(level=1), spec.LinePair(level=2))}),
    ],
    ids=["random", "predicted ways", "coarse clock, prefetchers and noise"],
)
def test_size_and_ways(sets: int, ways: int, changes: dict[str, dict[str, object]]) -> None:
    found = measured(**{**changes, "l1": {**changes.get("l1", {}), "sets": sets, "ways": ways}})
    assert {name: each.value for name, each in found.items()} == {
        "size": sets * ways * 64,
        "ways": ways,
        "index": "linear",
    }


def test_a_hash_of_all_bits_is_no_bits_of_the_address() -> None:
    found = measured(l1={"sets": 64, "ways": 8, "hashed_index": True})
    assert found["index"].value == "hashed"
    assert found["size"].outcome is found["ways"].outcome is Outcome.UNRESOLVED


def test_rounds_beside_others_take_nothing_from_the_answer() -> None:
    """Counts of a guest in the last of which the host's other thread of the core was busy."""
    quiet_round, busy = (96, 48, 24, 12, 12, 12, 12, 12, 12), (73, 44, 24, 12, 11, 12, 12, 12, 11)
    for rounds in ((quiet_round, quiet_round, busy), (busy, busy, busy)):
        found = inferred(*rounds)
        assert (found["size"].value, found["ways"].value, found["index"].value) == (48 << 10, 12, "linear")


def test_strides_that_contradict_each_other_are_no_cache() -> None:
    """Lines of translated bits in small pages: as many stay as happen to share a set."""
    found = inferred((64, 32, 16, 13, 11, 14, 12, 15, 13))
    assert {each.outcome for each in found.values()} == {Outcome.UNRESOLVED}
