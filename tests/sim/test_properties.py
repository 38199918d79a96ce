"""What must hold for any simulated machine and any probe."""

from __future__ import annotations

import typing

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quiet_machines import HUGE, LINE, OVERHEAD, PAGE, PAGE_BASE, quiet

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PUBLISHED = [table for table in typing.get_args(spec.AnyPrefetcher) if table not in typing.get_args(spec.Known)]

entries = st.integers(1, 24)
prefetchers = st.lists(
    st.one_of(
        st.builds(spec.NextLine, level=st.just(1), fills=st.just("l1"), trigger=st.integers(1, 4)),
        st.builds(spec.LinePair, level=st.just(2)),
        st.builds(spec.Streamer, level=st.just(2), trigger=st.integers(1, 5), degree=st.integers(1, 8)),
        st.builds(spec.Stride, level=st.just(1), fills=st.sampled_from(["l1", "l2"]), max_distance=st.integers(1, 9)),
        st.builds(spec.Region, level=st.just(1), fills=st.just("l1"), active_regions=st.integers(1, 8)),
        st.builds(spec.UpDown, level=st.just(2)),
        st.one_of([st.builds(table, level=st.just(1), fills=st.sampled_from(("l1", "l2"))) for table in PUBLISHED]),
        st.one_of([st.builds(table, level=st.just(2)) for table in PUBLISHED]),
    ),
    max_size=4,
).map(tuple)
shapes = st.fixed_dictionaries(
    {
        "l1": st.fixed_dictionaries(
            {
                "ways": st.sampled_from([2, 6, 8]),
                "mshr_entries": entries,
                "replacement": st.sampled_from(["lru", "tree_plru", "random"]),
            }
        ),
        "l2": st.fixed_dictionaries(
            {"mshr_entries": entries, "inclusion": st.sampled_from(["inclusive", "neither", "exclusive"])}
        ),
        "l3": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {"inclusion": st.sampled_from(["inclusive", "exclusive", "neither"]), "hashed_index": st.booleans()}
            ),
        ),
    }
)
cores = st.builds(
    spec.Core,
    out_of_order=st.booleans(),
    issue_width=st.integers(1, 8),
    reorder_window=st.integers(4, 300),
    load_queue=st.integers(1, 80),
    store_queue=st.integers(1, 60),
    blocking_load=st.booleans(),
    blocking_store=st.booleans(),
)
operations = st.lists(
    st.tuples(st.sampled_from(["load", "store", "prefetch", "flush", "fence", "wait", "add"]), st.integers(0, 127)),
    min_size=1,
    max_size=30,
)


def probe_of(parts: list[tuple[str, int]]) -> Probe:
    probe = Probe().fence().start(dither=False)
    for what, line in parts:
        if what == "fence":
            probe = probe.fence("mls"[line % 3])
        elif what in ("wait", "add"):
            probe = getattr(probe, what)(line + 1)
        else:
            probe = getattr(probe, what)(PAGE_BASE + line * LINE)
    return probe.stop()


def ticks_of(machine: SimulatedMachine, parts: list[tuple[str, int]], repetitions: int = 4) -> np.ndarray:
    region = machine.allocate(2 * HUGE, PAGE)
    pages = region.address + (np.arange(repetitions) * 7 % 64) * 2 * PAGE
    return machine.run(probe_of(parts), {PAGE_BASE: pages})[:, 0]


@QUICK
@given(shape=shapes, core=cores, kinds=prefetchers, parts=operations)
def test_time_is_never_lost_and_the_same_seed_gives_the_same_ticks(
    shape: dict[str, dict[str, object]],
    core: spec.Core,
    kinds: tuple[spec.AnyPrefetcher, ...],
    parts: list[tuple[str, int]],
) -> None:
    runs = []
    for _ in range(2):
        machine = quiet(core=core, prefetchers=kinds, seed=7, **shape)
        runs.append(ticks_of(machine, parts))
        machine.close()
    assert np.array_equal(*runs)
    least = max((line + 1 for what, line in parts if what in ("wait", "add")), default=0)
    assert runs[0].min() >= OVERHEAD + least
    assert runs[0].max() < OVERHEAD + sum(3000 + line for _, line in parts)
