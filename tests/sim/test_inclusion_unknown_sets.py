"""Inclusion where lines of one set tell nothing: behind a random first cache, and of a second one of unknown sets."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, L2, L3, MEMORY, PAGE, quiet

from setebench.calibration import Calibration, Levels
from setebench.hierarchy.in_use import surely_missing
from setebench.hierarchy.inclusion import LEAST_MISS_CYCLES, all_held
from setebench.hierarchy.kept import first_in_second
from setebench.hierarchy.resting import UNSURE, Rests, inclusive_at_rest, told_at_rest
from setebench.infer.inclusion import SPARED
from setebench.measure.eviction import Sets
from setebench.measure.thinning import Latencies
from setebench.scenario import Context
from setebench.sim import spec

CYCLES = {"l1": L1, "l2": L2, "l3": L3, "memory": MEMORY}
LATENCIES = [float(each) for each in CYCLES.values()]
BYTES = 64 << 20


@pytest.mark.parametrize("inclusion", ["inclusive", "neither"])
def test_lines_at_rest_tell_inclusion_of_a_first_cache_that_replaces_at_random(inclusion: str) -> None:
    """Sixteen ways behind eight: a line in use is lost so often that it hardly ever grows old in the second cache."""
    machine = quiet(l1={"replacement": "random"}, l2={"ways": 16, "inclusion": inclusion})
    context = Context(machine=machine, calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))
    region = machine.allocate(BYTES, PAGE)
    found = Sets(context, region, 8, Latencies(L1, L2, L3)).find()
    assert found is not None
    assert inclusive_at_rest(context, found, L3 - L2) == (inclusion == "inclusive", "")


def rests(gone: float, staying: float, noise: float = 0.0, seed: int = 1) -> Rests:
    """Costs of lines of which a share stays in the first cache, and a share of these is gone all the same."""
    rng, size = np.random.default_rng(seed), 10
    far = gone * staying + 1.0 - staying
    values = (staying * (1 - gone) * L1 + far * L3, L3, staying * L1 + (1 - staying) * L2, L2, L2, L1)
    return Rests(*(value + noise * rng.standard_normal(size) for value in values))


def test_what_lines_at_rest_tell() -> None:
    for staying in (0.25, 0.6, 1.0):
        assert told_at_rest(rests(1.0, staying, 0.1), L3 - L2) == (True, "")
        assert told_at_rest(rests(0.0, staying, 0.1), L3 - L2) == (False, "")
    assert told_at_rest(rests(1.0, 0.1, 0.1), L3 - L2) == (None, UNSURE)
    assert told_at_rest(rests(1.0, 0.6, 0.1), 3 * (L3 - L2)) == (None, UNSURE)
    assert told_at_rest(rests(0.4, 0.6, 0.1), L3 - L2)[0] is None
    assert told_at_rest(rests(0.0, 0.3, 30.0), L3 - L2)[0] is None
    clear = rests(0.0, 1.0, 0.1)
    assert told_at_rest(clear, L3 - L2) == (False, "")
    # what pushes it out of the first cache evicts it from the second
    assert told_at_rest(clear._replace(unpressed=clear.pushed), L3 - L2) == (None, UNSURE)
    # gone from a third cache too, which may have taken it out of both
    assert told_at_rest(clear, (L3 - L2) / 2) == (None, UNSURE)


def test_noise_as_large_as_what_a_line_costs_tells_nothing() -> None:
    """Lines that are gone read as kept if chance alone may make less than none of them."""
    one = Rests(*(np.full(10, value) for value in (L3, L3, L1, L2, L2, L1)))
    noise = np.array([-200.0, 0.0, 100.0, -100.0, 50.0, -250.0, -50.0, 80.0, -150.0, 20.0])
    assert told_at_rest(one._replace(left=one.left + noise), L3 - L2)[0] is None


@pytest.mark.parametrize("noise", [2.0, 5.0, 10.0])
def test_noise_that_hides_how_many_lines_stay_tells_nothing_wrong(noise: float) -> None:
    """Too large a share of lines that stay would read as lines that are gone."""
    for staying in (0.0, 0.1, 0.2):
        told = [told_at_rest(rests(0.0, staying, noise, seed), L3 - L2)[0] for seed in range(100)]
        assert True not in told


@pytest.mark.parametrize(
    ("first", "inclusion", "told"),
    [
        ("lru", "inclusive", (True, "")),
        ("lru", "neither", (False, "")),
        ("tree_plru", "neither", (False, "")),
        ("lru", "exclusive", (None, SPARED)),
    ],
)
def test_lines_in_use_that_the_second_cache_lacks(first: str, inclusion: str, told: tuple[bool | None, str]) -> None:
    """An exclusive one has them when the first one has given them up, as one that spares them would."""
    second = {"sets": 512, "ways": 4, "replacement": "random", "inclusion": inclusion}
    machine = quiet(l1={"replacement": first}, l2=second)
    context, region = Context(machine=machine), machine.allocate(BYTES, PAGE)
    assert first_in_second(context, region, 512, 2048.0, LATENCIES) == told


@pytest.mark.parametrize("inclusion", ["inclusive", "neither"])
def test_lines_in_use_beside_more_pages_than_the_first_tlb_holds(inclusion: str) -> None:
    """32 pages fill a TLB of so many entries, and those of the stream push them out: what that cost was taken for lines
    that a first cache which replaces its oldest gave up."""
    tables = spec.Tlb(
        l1_4k=spec.TlbTable(entries=32, ways=4, miss_penalty_cycles=12.0),
        l2_4k=spec.TlbTable(entries=1536, ways=12, miss_penalty_cycles=62.0),
    )
    second = {"sets": 512, "inclusion": inclusion, "hashed_index": True, "replacement": "tree_plru"}
    machine = quiet(l2=second, tlb=tables)
    told = first_in_second(Context(machine=machine), machine.allocate(BYTES, PAGE), 512, 4096.0, LATENCIES)
    assert told == (inclusion == "inclusive", "")


@pytest.mark.parametrize("inclusion", ["inclusive", "exclusive"])
def test_all_lines_of_a_set_are_held_where_there_are_but_two_caches(inclusion: str) -> None:
    """Nobody knows there what a miss costs, for another cache may lie before memory, but it costs something."""
    machine = quiet(l2={"ways": 16, "replacement": "random", "inclusion": inclusion}, l3=None)
    context, region = Context(machine=machine), machine.allocate(BYTES, PAGE)
    found = Sets(context, region, 8, Latencies(L1, L2, MEMORY)).find()
    assert found is not None
    assert all_held(context, region, found, LEAST_MISS_CYCLES) == (inclusion == "exclusive")


def test_lines_that_stay_in_the_inner_cache_make_no_others_seem_missing() -> None:
    """A stream that the outer cache holds may be too short to push them out: they answer sooner than it does."""
    passing, sooner = np.array([0.27, 0.1, 0.17, 0.17]), np.array([-0.48, -0.56, -0.54, -0.5])
    assert not surely_missing(passing, sooner)
    assert surely_missing(passing + 0.6, sooner)
    assert not surely_missing(passing + 0.6, -sooner)
