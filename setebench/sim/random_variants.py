"""What random machines vary in beside all else, each from random numbers of its own: the rest of a seed's machine is
what it was before there was any of this."""

from __future__ import annotations

import msgspec

from setebench.sim import spec
from setebench.sim.random_ranges import Draw

WAYS, LOSSES, REMOTE = 0x201, 0x202, 0x203
"""Of the seed's random numbers, which streams these are drawn from."""

MICROSECONDS, PER_MILLISECOND = 1e-6, 1e-3


def with_variants(seed: int, machine: spec.Machine, kind: str) -> spec.Machine:
    """The machine of `seed`, whose kind of noise is `kind`, with or without predicted ways, lines that get lost,
    and memory of another socket."""
    levels = (_with_predicted_ways(Draw(seed, WAYS), machine.levels[0]), *machine.levels[1:])
    noise = machine.noise
    if kind in ("guest", "shared", "stolen"):
        noise = _with_losses(Draw(seed, LOSSES), machine.clock, noise)
    remote = _remote_memory(Draw(seed, REMOTE), machine.memory)
    return msgspec.structs.replace(machine, levels=levels, noise=noise, remote_memory=remote)


def _with_predicted_ways(draw: Draw, first: spec.Level) -> spec.Level:
    if not draw.chance("way.predicted"):
        return first
    bits, cycles = draw.one("way.tag_bits"), draw.real("way.mispredicted", 0)
    return msgspec.structs.replace(first, way_tag_bits=bits, mispredicted_way_cycles=cycles)


def _with_losses(draw: Draw, clock: spec.Clock, noise: spec.Noise) -> spec.Noise:
    """Lines are lost with the time that passes, whatever the core's frequency."""
    if not draw.chance("loss.present"):
        return noise
    seconds = draw.one("loss.microseconds") * MICROSECONDS
    share = draw.real("loss.per_millisecond", 3) * seconds / PER_MILLISECOND
    interval = seconds * clock.ticks_per_second / clock.ticks_per_cycle
    return msgspec.structs.replace(noise, loss_interval_cycles=float(round(interval)), loss_share=round(share, 5))


def _remote_memory(draw: Draw, near: spec.Memory) -> spec.RemoteMemory | None:
    if not draw.chance("remote.present"):
        return None
    further, interval = draw.real("remote.further_share", 3), draw.real("remote.interval_factor")
    return spec.RemoteMemory(
        further_cycles=float(round(near.latency_cycles * further)),
        link_interval_cycles=round(near.interval_cycles * interval, 2),
    )
