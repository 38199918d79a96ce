"""Loops as probes: the accesses that a policy changes nothing of, and prefetches of what later iterations use."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from msgspec.structs import replace

from setebench.errors import UnsupportedError, UsageError
from setebench.experiments.calibrate import cycles_per_tick
from setebench.loops import Policy
from setebench.loops.running import TracedLoops
from setebench.loops.shapes import shape, sized
from setebench.loops.traces import Span, trace
from setebench.machine import open_machine
from setebench.probe import Kind, Probe
from setebench.scenario import Context
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file

SPAN = Span(lead=40, timed=24, access_sizes=(8, 16, 32))
NONE = Policy()


def _trace(name: str, policy: Policy) -> Probe:
    return trace(shape(name), policy, SPAN, np.random.default_rng(5))


@pytest.mark.parametrize("name", ["triad", "strided", "spmv", "list", "hash_join"])
@pytest.mark.parametrize("policy", [Policy(l1_distance=3), Policy(l2_distance=7), Policy(l1_distance=2, l2_distance=9)])
def test_prefetches_are_of_what_later_iterations_access(name: str, policy: Policy) -> None:
    """The lines of prefetches, but for those of the last iterations, are lines that are accessed, `distance` later."""
    each, probe = SPAN.iterations, _trace(name, policy)
    accessed, prefetched = (_by_iteration(probe, kinds, each) for kinds in (_ACCESSES, (Kind.PREFETCH,)))
    stages = [distance for distance in (policy.l2_distance, policy.l1_distance) if distance]
    for i in range(each - max(stages)):
        expected = set().union(*(accessed[i + distance] for distance in stages))
        assert prefetched[i] <= expected
    assert all(prefetched[:-1])


_ACCESSES = (Kind.LOAD, Kind.STORE)


def _by_iteration(probe: Probe, kinds: tuple[Kind, ...], iterations: int) -> list[set[tuple[int, int]]]:
    """(stream, line) of each iteration's operations of these kinds."""
    rows = probe.rows[~np.isin(probe.rows[:, 0], (Kind.START, Kind.STOP))].reshape(iterations, -1, probe.rows.shape[1])
    return [{(int(row[1]), int(row[2]) // 64) for row in part if row[0] in kinds} for part in rows]


@pytest.mark.parametrize("name", ["triad", "hash_join", "spmv"])
def test_policies_go_through_the_same_addresses(name: str) -> None:
    """Loads that no prefetch needs are the same ones with every policy."""
    plain, prefetching = (
        _by_iteration(_trace(name, p), _ACCESSES, SPAN.iterations) for p in (NONE, Policy(l1_distance=4))
    )
    assert all(own <= more for own, more in zip(plain, prefetching, strict=True))


def test_every_step_of_a_search_needs_the_one_before() -> None:
    """Without prefetches in the same iteration; pipelined, that of the search as many distances ago."""
    rows = _trace("tree_search", NONE).rows
    chained = rows[(rows[:, 0] == Kind.LOAD) & (rows[:, 7] >= 0)]
    assert len(chained) == SPAN.iterations * shape("tree_search").streams[1].steps
    rows = _trace("tree_search", Policy(l1_distance=2)).rows
    for row in np.flatnonzero((rows[:, 0] == Kind.LOAD) & (rows[:, 7] >= 0)):
        needed = rows[rows[row, 7]]
        assert needed[0] == Kind.LOAD and rows[row, 7] < row


def test_a_size_scales_all_streams() -> None:
    small = sized(shape("hash_join"), "hash_join@1M", "1M")
    assert small.working_set_bytes == 1 << 20 and small.streams[1].extent_bytes < 1 << 20
    with pytest.raises(UsageError, match="no size"):
        sized(shape("triad"), "triad@x", "x")


def test_traces_run_on_a_machine_without_loops_of_its_own() -> None:
    machine = open_machine("sim:plain")
    loops = TracedLoops(machine)
    assert cycles_per_tick(Context(machine=machine)) == pytest.approx(1.0, rel=0.01)
    described = loops.describe_loop("list")
    assert described.measured_cycles > 5 * described.cycles_per_iteration > 0
    ticks = loops.run_loop("list", (NONE, Policy(l1_distance=16)), 3)
    assert ticks.shape == (3, 2) and (ticks[:, 0] > 3 * ticks[:, 1]).all()
    with pytest.raises(UnsupportedError, match="compile"):
        loops.run_loop("list", (Policy(compiler=True),), 1)
    with pytest.raises(UnsupportedError, match="switched off"):
        loops.run_loop("list", (Policy(hardware=False),), 1)
    with pytest.raises(UsageError, match="unknown loop"):
        loops.check_loop("none")
    loops.close()


@pytest.mark.parametrize("stage", ["l1_distance", "l2_distance"])
def test_a_pass_takes_as_long_as_the_loop_does_in_the_long_run(stage: str) -> None:
    """Where prefetches are dropped, a stretch in which each of them got through comes before one in which few do."""
    file = load("plain")
    file = replace(file, software_prefetch=replace(file.software_prefetch, when_full="drops"))
    policy, list_loop = Policy(**{stage: 256}), shape("list")
    with closing(open_machine_file(file, 1)) as machine:
        loops = TracedLoops(machine, (replace(list_loop, name="long", iterations=16 * list_loop.iterations),))
        short, long = (float(np.median(loops.run_loop(name, (policy,), 3))) for name in ("list", "long"))
        loops.close()
    assert long / 16 == pytest.approx(short, rel=0.25)
