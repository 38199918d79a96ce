"""How disturbed a simulated machine is: for tables by class alone. Nothing that infers sees this."""

from __future__ import annotations

from setebench.score.noise import with_noise
from setebench.sim import spec
from setebench.sim.files.loader import load

NOISE_CLASSES = ("quiet", "normal", "guest", "shared", "stolen", "recorded")
"""quiet: nothing disturbs. normal: interrupts. guest: also short stalls, or a frequency that drifts. shared: an SMT
co-runner comes and goes. stolen: in episodes the hypervisor runs another guest for milliseconds. recorded: the clock
replays what a real guest went through."""


def described(name: str, noise: str) -> str:
    """The class of the machine as it was asked, with disturbances replaced as `noise` says (see `with_noise`)."""
    return noise_class(with_noise(load(name), noise))


def noise_class(machine: spec.Machine) -> str:
    """One of `NOISE_CLASSES`, by the worst that the machine file says."""
    if machine.noise.recorded:
        return "recorded"
    if machine.noise.steal_interval_cycles:
        return "stolen"
    if machine.noise.co_runner_interval_cycles:
        return "shared"
    if machine.clock.drift or machine.noise.stall_interval_cycles:
        return "guest"
    return "normal" if machine.noise.interrupt_interval_cycles else "quiet"
