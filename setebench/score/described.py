"""What a simulated machine has, as words and numbers by field, and how disturbed it is: for tables by class alone.

Nothing that infers sees this; it is made beside the truth, after scenarios have answered.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from setebench.judge import Machine, Trait
from setebench.score.noise import with_noise
from setebench.sim import spec
from setebench.sim.files.loader import load

NOISE_CLASSES = ("quiet", "normal", "guest", "shared", "stolen")
"""quiet: nothing disturbs. normal: interrupts. guest: also short stalls, or a frequency that drifts. shared: an SMT
co-runner comes and goes. stolen: in episodes the hypervisor runs another guest for milliseconds."""

_NAMES = frozenset({"name", "description"})
_LEVELS = "levels"


def described(name: str, noise: str) -> Machine:
    """The machine as it was asked, with its disturbances replaced by those of `noise` (see `with_noise`)."""
    machine = with_noise(load(name), noise)
    return Machine(noise=noise_class(machine), traits=dict(_traits("", msgspec.to_builtins(machine))))


def noise_class(machine: spec.Machine) -> str:
    """One of `NOISE_CLASSES`, by the worst that the machine file says."""
    if machine.noise.steal_interval_cycles:
        return "stolen"
    if machine.noise.co_runner_interval_cycles:
        return "shared"
    if machine.clock.drift or machine.noise.stall_interval_cycles:
        return "guest"
    return "normal" if machine.noise.interrupt_interval_cycles else "quiet"


def _traits(path: str, value: object) -> Iterator[tuple[str, Trait]]:
    """Every leaf by its path: `levels.l2.ways` is 8. Lists of tables that have a kind, and lists of words, have a leaf
    for each: `prefetchers.stride.level 1` is true."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if path or key not in _NAMES:
                yield from _traits(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list | tuple):
        yield f"{path}.number", len(value)
        for number, inner in enumerate(value):
            yield from _member(path, number, inner)
    elif isinstance(value, bool | int | float | str):
        yield path, value


def _member(path: str, number: int, value: object) -> Iterator[tuple[str, Trait]]:
    if path == _LEVELS:
        yield from _traits(f"{path}.l{number + 1}", value)
    elif isinstance(value, dict) and "kind" in value:
        yield f"{path}.{value['kind']}", True
        if "level" in value:
            yield f"{path}.{value['kind']}.level {value['level']}", True
    elif isinstance(value, str | int):
        yield f"{path}.{value}", True
