"""Random machines: valid, repeatable, and of every kind."""

from __future__ import annotations

import typing
from collections import Counter

import pytest

from setebench.sim import spec
from setebench.sim.files import loader
from setebench.sim.files.dump import dump
from setebench.sim.random.machine import random_machine
from setebench.sim.spec.fields import PREFETCHERS

SEEDS = range(300)


@pytest.fixture(scope="module")
def machines() -> list[spec.Machine]:
    return [random_machine(seed) for seed in SEEDS]


def test_every_one_is_valid(machines: list[spec.Machine]) -> None:
    for machine in machines:
        assert loader.parse(dump(machine), machine.name) == machine


def test_the_same_seed_gives_the_same_machine_and_another_a_new_one(machines: list[spec.Machine]) -> None:
    assert machines == [random_machine(seed) for seed in SEEDS]
    assert len({dump(machine).partition("[clock]")[2] for machine in machines}) == len(machines)
    assert random_machine(10**17).name == "random:100000000000000000"


def kinds(machine: spec.Machine) -> dict[str, object]:
    """What kind of machine it is, in several ways."""
    noise, first, memory = machine.noise, machine.levels[0], machine.memory
    events = machine.pmu.events.values() if machine.pmu else ()
    return {
        "out-of-order": machine.core.out_of_order,
        "blocking": machine.core.blocking_load,
        "smt": machine.core.threads_per_core > 1,
        "several cores": machine.core.cores > 1,
        "fine clock": machine.clock.step_ticks == 1,
        "prefetches dropped": machine.software_prefetch.when_full == "drops",
        "splintered": memory.huge_pages_splintered,
        "large pages": memory.page_sizes == (4096, 2097152),
        "interrupts": noise.interrupt_interval_cycles > 0,
        "lost lines": noise.loss_interval_cycles > 0,
        "miss entries by kind": first.mshr_demand_limit > 0,
        "ways predicted": first.way_tag_bits > 0,
        "recorded": bool(noise.recorded),
        "load queue hides the miss queue": machine.core.load_queue < first.mshr_entries,
        "least stride that is not tried": any(
            getattr(e, "min_stride_bytes", 0) in (8, 32) for e in machine.prefetchers
        ),
        "counts slightly off": any(0 < abs(e.amount - 1) < 0.05 for each in events for e in each if e.kind == "scaled"),
        "no power of two of sets": any(level.sets & (level.sets - 1) for level in machine.levels),
        "late streams": any(isinstance(each, spec.Streamer) and each.trigger > 5 for each in machine.prefetchers),
        "lines in any order": any(getattr(each, "counts", "") == "distinct" for each in machine.prefetchers),
        "lines further out": any(each.fills > f"l{each.level}" for each in machine.prefetchers),
        "rare policies": any(level.replacement in ("brrip", "fifo") for level in machine.levels),
    }


def test_every_kind_of_machine_comes_up(machines: list[spec.Machine]) -> None:
    seen = Counter((name, kind) for machine in machines for name, kind in kinds(machine).items())
    assert {name for name, _ in seen if min(seen[name, True], seen[name, False]) <= 10} == set()
    levels = Counter(len(machine.levels) for machine in machines)
    second, last = (Counter(machine.levels[place].inclusion for machine in machines) for place in (1, -1))
    assert min(levels[2], levels[3], second["inclusive"], second["neither"], last["exclusive"]) > 10
    drawn = Counter(kind for machine in machines for kind in {type(each) for each in machine.prefetchers})
    published = set(PREFETCHERS) - set(typing.get_args(spec.Known))
    assert [table for table in PREFETCHERS if drawn[table] <= (3 if table in published else 10)] == []
