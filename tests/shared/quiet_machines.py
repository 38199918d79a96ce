"""Quiet simulated machines for tests, and how tests read them from outside.

The clock of these machines ticks once a cycle without step, jitter or noise, and an empty interval takes OVERHEAD, so a
timed load shows the level that served it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.probe.notation import parse
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, open_machine_file

OVERHEAD = 20
L1, L2, L3, MEMORY = 4, 14, 46, 300
LINE, PAGE, HUGE = 64, 4096, 1 << 21
LINE_BASE, PAGE_BASE = Base("line"), Base("page")


def levels(**changes: Any) -> tuple[spec.Level, ...]:
    """Three levels; `changes` such as l1={"ways": 4} alter them, l3=None leaves the third out."""
    plain: dict[str, dict[str, Any]] = {
        "l1": {"sets": 64, "ways": 8, "latency_cycles": L1, "mshr_entries": 10, "fill_interval_cycles": 0},
        "l2": {"sets": 1024, "ways": 8, "latency_cycles": L2, "mshr_entries": 32, "fill_interval_cycles": 0},
        "l3": {"sets": 2048, "ways": 16, "latency_cycles": L3, "mshr_entries": 0, "fill_interval_cycles": 0},
    }
    return tuple(
        spec.Level(**{**plain[name], **(changes.get(name) or {})})
        for name in plain
        if name not in changes or changes[name] is not None
    )


def quiet(seed: int = 1, **changes: Any) -> SimulatedMachine:
    """A quiet machine; keyword arguments replace tables of the machine file, l1, l2 and l3 fields of the levels."""
    shape = {name: changes.pop(name) for name in ("l1", "l2", "l3") if name in changes}
    changes.setdefault("clock", spec.Clock(brackets={"lfence": OVERHEAD, "mfence": OVERHEAD, "cpuid": OVERHEAD}))
    changes.setdefault("levels", levels(**shape))
    return open_machine_file(spec.Machine(name="quiet", **changes), seed)


def pages_of(region: Region, count: int, first: int = 0) -> NDArray[np.int64]:
    """Addresses of `count` pages of a region."""
    return region.address + (first + np.arange(count, dtype=np.int64)) * PAGE


def cycles(machine: SimulatedMachine, probe: Probe, placements: Any = 1, **options: Any) -> list[int]:
    """First interval of every repetition, less the empty interval."""
    return [int(ticks) - OVERHEAD for ticks in machine.run(probe, placements, **options)[:, 0]]


def took(machine: SimulatedMachine, text: str, page_size: int = HUGE, repetitions: int = 1) -> list[int]:
    """The same of a probe in the notation, whose base `page` lies in a fresh region of 2 MiB."""
    region = machine.allocate(HUGE, page_size)
    probe = parse(text)
    return cycles(machine, probe, {PAGE_BASE: [region.address] * repetitions} if probe.bases else repetitions)


def timed(where: Any, size: int = 8) -> Probe:
    """A timed load after everything before it is done."""
    return Probe().fence().start(dither=False).load(where, size).stop()


def fetched(machine: SimulatedMachine, train: Probe, lines: Iterable[int], below: int = MEMORY) -> set[int]:
    """Which lines of a page `train` (on PAGE_BASE) leaves in a cache: one fresh page and one timed load per line."""
    candidates = list(lines)
    region = machine.allocate(len(candidates) * HUGE // 8, PAGE)
    found = set()
    for index, line in enumerate(candidates):
        probe = train.fence().wait(4000) + timed(PAGE_BASE + line * LINE)
        page = region.address + index * (HUGE // 8) + PAGE * 16
        if cycles(machine, probe, {PAGE_BASE: [page]})[0] < below:
            found.add(line)
    machine.release(region)
    return found
