"""How disturbed scored machines are: as drawn, or with the disturbances of a named one."""

from __future__ import annotations

import msgspec

from setebench.sim import spec
from setebench.sim.files.loader import load

NOISES = ("drawn", "quiet", "guest")
"""drawn: as the machine file says. quiet: no interrupts, stalls, jitter or drift. guest: those of the `zen-like`
preset, which has the reference guest's."""


def with_noise(machine: spec.Machine, noise: str) -> spec.Machine:
    """The machine with its disturbances replaced; see `NOISES`."""
    if noise == "drawn":
        return machine
    calm = msgspec.structs.replace(machine.clock, drift=0.0, jump=0.0, jitter_cycles=0.0)
    if noise == "quiet":
        return msgspec.structs.replace(machine, clock=calm, noise=spec.Noise())
    guest = load("zen-like")
    # as a fraction of a core's own speed, so that a slow core is not disturbed more than a fast one
    noisy = msgspec.structs.replace(
        machine.clock,
        drift=guest.clock.drift,
        drift_period_cycles=guest.clock.drift_period_cycles,
        jump=guest.clock.jump,
        jitter_cycles=guest.clock.jitter_cycles,
    )
    return msgspec.structs.replace(machine, clock=noisy, noise=guest.noise)
