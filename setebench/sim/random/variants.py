"""What random machines vary in beside all else, each from random numbers of its own: the rest of a seed's machine is
what it was before there was any of this."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random.ranges import Draw

WAYS, LOSSES, REMOTE, PREFETCHERS = 0x201, 0x202, 0x203, 0x204
"""Of the seed's random numbers, which streams these are drawn from."""

MICROSECONDS, PER_MILLISECOND = 1e-6, 1e-3


def with_variants(seed: int, machine: spec.Machine, kind: str) -> spec.Machine:
    """The machine of `seed`, whose kind of noise is `kind`, with or without predicted ways, lines that get lost,
    memory of another socket, and prefetchers that do otherwise than most."""
    levels = (_with_predicted_ways(Draw(seed, WAYS), machine.levels[0]), *machine.levels[1:])
    noise = machine.noise
    if kind in ("guest", "shared", "stolen"):
        noise = _with_losses(Draw(seed, LOSSES), machine.clock, noise)
    remote = _remote_memory(Draw(seed, REMOTE), machine.memory)
    draw = Draw(seed, PREFETCHERS)
    varied = tuple(_varied(draw, each, machine) for each in machine.prefetchers)
    return msgspec.structs.replace(machine, levels=levels, noise=noise, remote_memory=remote, prefetchers=varied)


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


def _varied(draw: Draw, prefetcher: spec.AnyPrefetcher, machine: spec.Machine) -> spec.AnyPrefetcher:
    """A prefetcher that fills another level, crosses pages, or keeps its table otherwise than most."""
    changes = _crossing(draw, prefetcher, machine)
    if isinstance(prefetcher, spec.Streamer | spec.Stride):
        changes |= _table(draw, prefetcher, machine)
    if prefetcher.level == 1 and isinstance(prefetcher, spec.Stride) and draw.chance("varied.fills_l2"):
        changes["fills"] = "l2"
    if prefetcher.level == 2 and len(machine.levels) > 2 and draw.chance("varied.fills_l3"):
        changes["fills"] = "l3"
    return msgspec.structs.replace(prefetcher, **changes)


def _table(draw: Draw, prefetcher: spec.Streamer | spec.Stride, machine: spec.Machine) -> dict[str, Any]:
    changes: dict[str, Any] = {"replacement": "fifo"} if draw.chance("varied.fifo") else {}
    if prefetcher.level == 2 and machine.core.cores > 1 and draw.chance("varied.shared_by_cores"):
        changes["shared_by_cores"] = True
    return changes


def _crossing(draw: Draw, prefetcher: spec.AnyPrefetcher, machine: spec.Machine) -> dict[str, Any]:
    """Next lines past a page's end, as others; and at level 2 into the physically next page, where that mostly is the
    next one: what it says of a page's end can't be seen elsewhere."""
    if isinstance(prefetcher, spec.LinePair | spec.Region | spec.SpatialPattern | spec.AccessMap):
        return {}  # those stay in an aligned block of lines
    memory = machine.memory
    huge = 2097152 in memory.page_sizes
    physical = prefetcher.level == 2
    seen = memory.huge_pages_contiguous or not huge
    small, large = prefetcher.crosses_4k, prefetcher.crosses_4k_in_2m
    if isinstance(prefetcher, spec.NextLine | spec.UpDown):
        small = small or (not physical and draw.chance("crosses.4k"))
        large = large or (huge and (not physical or seen) and draw.chance("crosses.2m"))
    if physical and seen and memory.frame_run_pages >= draw.most("varied.least_run"):
        small = small or draw.chance("varied.physically_on")
    return {"crosses_4k": small, "crosses_4k_in_2m": large or small}
