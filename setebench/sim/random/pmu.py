"""PMUs of random machines, to score the validation of events against.

They come from a generator of their own, so that all else of a seed is as it was before there were any. Faults are drawn
where they can be seen, alone and in pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from setebench.sim import spec
from setebench.sim.pmu.sense import (
    EVERYWHERE,
    can_be_seen,
    counted_role,
    other_levels,
    possible_faults,
    roles_that_count,
)

FAULTY = 0.5
"""Fraction of the events that have a fault."""

PAIRS = 0.3
"""Fraction of these that have two."""

REGISTERS = (4, 6, 8)
"""General-purpose counters of a hardware thread: 4 with SMT on Intel up to Cascade Lake, 6 on AMD since Zen, 8 since
Ice Lake."""

FACTORS = (0.5, 2.0, 3.0, 4.0, 8.0, 10.0, 16.0, 64.0)
"""Wrong units as they were met: floating-point operations of Zen 5 twice and half, of Zen 2 three times, flits eight
times, Rome's instructions sixteen times, bytes for lines."""

AMOUNTS = {
    "wraps": (0.3, 0.6),
    "multiplexed": (1 / 3, 1 / 2),
    "undercounts_smt": (0.1, 0.4),
    "background": (0.02, 0.3),
    "nonlinear": (0.8, 0.92),
}
"""Sizes of faults, all of them well above the 4 % from which on one must be found."""

OWN_KINDS = 0.5
"""Fraction of the faults that are drawn from those that not every event can have, where there are any."""

NEAR_FACTORS = ((0.6, 0.96), (1.04, 1.5))
"""Scales that could pass for an inexact count."""

NOT_TOGETHER = {frozenset(("scaled", "floor_per_cycle"))}
"""The unit of what counts in whole fours is no scale that could be found beside another."""


def random_pmu(seed: int, machine: spec.Machine) -> spec.Pmu:
    """The PMU of the machine of this seed."""
    rng = np.random.default_rng((seed, 0x9A17, 0x5E7E))
    registers = REGISTERS[int(rng.integers(len(REGISTERS)))]
    events = {role: _faults(rng, machine, role) for role in roles_that_count(machine)}
    return spec.Pmu(registers=registers, events=events)


def _faults(rng: np.random.Generator, machine: spec.Machine, role: str) -> tuple[spec.Fault, ...]:
    faulty, second = rng.random(2)
    if faulty >= FAULTY:
        return ()
    first = _fault(rng, machine, role, ())
    return (first, _fault(rng, machine, role, (first,))) if second < PAIRS else (first,)


def _fault(rng: np.random.Generator, machine: spec.Machine, role: str, others: tuple[spec.Fault, ...]) -> spec.Fault:
    """One more fault of this event. What comes second is seen on what the first lets it count."""
    taken = {fault.kind for fault in others}
    kinds = [
        kind
        for kind in possible_faults(role)
        if kind not in taken
        and can_be_seen(machine, role, kind, counted_role(role, others))
        and (kind != "other_level" or _counted_instead(machine, role, taken))
        and not any(frozenset((kind, other)) in NOT_TOGETHER for other in taken)
    ]
    own = [kind for kind in kinds if kind not in EVERYWHERE]
    kinds = own if own and rng.random() < OWN_KINDS else kinds
    kind: Any = kinds[int(rng.integers(len(kinds)))]
    instead = _counted_instead(machine, role, taken) if kind == "other_level" else ("",)
    other: Any = instead[int(rng.integers(len(instead)))]
    return spec.Fault(kind=kind, amount=_amount(rng, kind), role=other)


def _counted_instead(machine: spec.Machine, role: str, taken: set[Any]) -> tuple[str, ...]:
    """What the event may count instead; where it misses prefetches, roles that prefetches on this machine belong to."""
    return tuple(
        other
        for other in other_levels(machine, role)
        if "misses_prefetches" not in taken or can_be_seen(machine, role, "misses_prefetches", other)
    )


def _amount(rng: np.random.Generator, kind: str) -> float:
    if kind == "scaled":
        if rng.random() < 0.5:
            return FACTORS[int(rng.integers(len(FACTORS)))]
        low, high = NEAR_FACTORS[int(rng.integers(len(NEAR_FACTORS)))]
        return round(float(rng.uniform(low, high)), 3)
    low, high = AMOUNTS.get(kind, (0.0, 0.0))
    return round(float(rng.uniform(low, high)), 3) if high else 0.0
