"""Rules for the clock, the cores and what they do beside a miss."""

from __future__ import annotations

from setebench.sim import spec
from setebench.sim.spec.fields import table_fields
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Readings, computed, narrowest

SYSTEM = "as the machine itself says"
VECTOR_BYTES = (16, 32, 64)


def clock(readings: Readings, draft: Draft) -> None:
    """The counter's pace and step, and what an empty interval takes with each bracket."""
    ratio = readings.get("clock.cycles_per_tick")
    if ratio is not None:
        draft.put(("clock", "ticks_per_cycle"), computed(lambda cycles: 1 / cycles, ratio))
    rate = readings.fact("ticks_per_second")
    if rate:
        draft.assume(("clock", "ticks_per_second"), float(rate), SYSTEM)
    draft.put(("clock", "step_ticks"), readings.get("clock.step"))
    found = {name.rpartition(".")[2]: readings.get(name) for name in readings.names("clock.overhead.")}
    order = [name for name in readings.fact("brackets") or found if name in found]
    for name in order:
        overhead = found[name]
        if overhead is not None and ratio is not None:
            draft.put(("clock", "brackets", name), computed(lambda ticks, cycles: ticks * cycles, overhead, ratio))


def cores(readings: Readings, draft: Draft) -> None:
    """How many there are, whether they wait for a miss, and what vector loads and siblings cost."""
    groups = readings.cores
    draft.assume(("core", "cores"), _at_most("cores", len(groups)), SYSTEM)
    draft.assume(("core", "threads_per_core"), _at_most("threads_per_core", max(map(len, groups))), SYSTEM)
    if readings.fact("access_sizes"):
        draft.assume(("core", "access_sizes"), list(readings.fact("access_sizes")), SYSTEM)
    blocks = False
    for access in ("load", "store", "prefetch"):
        found = readings.get(f"blocking.{access}")
        if found is not None:
            blocks |= found.value == "blocking"
            draft.put(("core", f"blocking_{access}"), found, found.value == "blocking")
    if blocks:
        draft.assume(("core", "out_of_order"), False, "an access that holds up independent work")
    _vectors(readings, draft)
    beside, alone = readings.get("latency.smt.l1"), readings.get("latency.l1")
    if beside is not None and alone is not None:
        draft.put(("core", "smt_extra_cycles"), computed(lambda two, one: max(two - one, 0.0), beside, alone))


def _at_most(field: str, number: int) -> int:
    """The number, or the most that a machine file may say."""
    most = table_fields(spec.Core)[field].limits[1]
    return number if most is None else min(number, int(most))


def _vectors(readings: Readings, draft: Draft) -> None:
    """The difference to 8-byte loads, from the level where it is known best."""
    for size in VECTOR_BYTES:
        found = []
        for level in ("l1", "l2", "l3", "memory"):
            vector, plain = readings.get(f"latency.{level}.vector{size}"), readings.latency(level)
            if vector is not None and plain is not None:
                found.append(computed(lambda wide, narrow: max(wide - narrow, 0.0), vector, plain))
        draft.put(("core", "vector_load_extra", f"bytes{size}"), narrowest(found))
