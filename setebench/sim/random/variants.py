"""What random machines vary in beside all else, each from random numbers of its own: the rest of a seed's machine is
what it was before there was any of this."""

from __future__ import annotations

from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random.ranges import Draw

WAYS, LOSSES, REMOTE, PREFETCHERS, POLICIES, SETS, RECORDED, HIDDEN = range(0x201, 0x209)
"""Of the seed's random numbers, which streams these are drawn from."""

LEAST_HIDDEN = 8
"""Entries of a miss queue that something may hide: a shorter load queue than that no core has."""

MICROSECONDS, PER_MILLISECOND = 1e-6, 1e-3


def with_variants(seed: int, machine: spec.Machine, kind: str) -> spec.Machine:
    """The machine of `seed`, whose kind of noise is `kind`, with or without predicted ways, rare replacement policies
    and numbers of sets, lines that get lost, a recorded clock, memory of another socket, and prefetchers that do
    otherwise than most."""
    levels = (_with_predicted_ways(Draw(seed, WAYS), machine.levels[0]), *machine.levels[1:])
    levels = _with_odd_sets(Draw(seed, SETS), _with_rare_policy(Draw(seed, POLICIES), levels))
    noise, clock = machine.noise, machine.clock
    if kind in ("guest", "shared", "stolen"):
        noise = _with_losses(Draw(seed, LOSSES), machine.clock, noise)
    if kind != "quiet" and Draw(seed, RECORDED).chance("noise.recorded"):  # of all that a recording holds nothing twice
        noise = msgspec.structs.replace(
            noise, recorded="emerald-rapids-guest", stall_interval_cycles=0.0, steal_interval_cycles=0.0
        )
        clock = msgspec.structs.replace(clock, drift=0.0, jump=0.0)
    remote = _remote_memory(Draw(seed, REMOTE), machine.memory)
    machine = _with_hidden_queues(Draw(seed, HIDDEN), machine)
    draw = Draw(seed, PREFETCHERS)
    varied = tuple(_varied(draw, each, machine) for each in machine.prefetchers)
    return msgspec.structs.replace(
        machine, levels=levels, clock=clock, noise=noise, remote_memory=remote, prefetchers=varied
    )


def _with_hidden_queues(draw: Draw, machine: spec.Machine) -> spec.Machine:
    """Some load queues are shorter than level 1's miss queue, and some memories too slow for it to fill."""
    core, memory, entries = machine.core, machine.memory, machine.levels[0].mshr_entries
    if not draw.chance("hidden.queues") or entries < LEAST_HIDDEN or not core.out_of_order:
        return machine
    if draw.chance("hidden.by_load_queue"):
        queue = int(entries * draw.one("hidden.load_queue"))
        return msgspec.structs.replace(machine, core=msgspec.structs.replace(core, load_queue=queue))
    interval = round(memory.latency_cycles / entries * draw.real("hidden.memory_interval"), 1)
    return msgspec.structs.replace(machine, memory=msgspec.structs.replace(memory, interval_cycles=interval))


def _with_predicted_ways(draw: Draw, first: spec.Level) -> spec.Level:
    if not draw.chance("way.predicted"):
        return first
    bits, cycles = draw.one("way.tag_bits"), draw.real("way.mispredicted", 0)
    return msgspec.structs.replace(first, way_tag_bits=bits, mispredicted_way_cycles=cycles)


def _with_rare_policy(draw: Draw, levels: tuple[spec.Level, ...]) -> tuple[spec.Level, ...]:
    """Some level of some machines replaces by what is no usual policy. BIP lets few new lines stay, which only a cache
    behind others can afford."""
    if not draw.chance("policy.rare"):
        return levels
    name, number = draw.one("policy.rare_ones"), int(draw.rng.integers(len(levels)))
    number = len(levels) - 1 if name == "bip" else number
    named = {"replacement": "qlru", "qlru": name} if name.startswith("H") else {"replacement": name, "qlru": ""}
    return _changed(levels, number, **named)


def _with_odd_sets(draw: Draw, levels: tuple[spec.Level, ...]) -> tuple[spec.Level, ...]:
    """The second or third level of some machines has fewer sets than a power of two."""
    number = int(draw.rng.integers(1, min(len(levels), 3)))
    if not draw.chance("sets.odd") or levels[number].hashed_index:
        return levels
    sets = int(levels[number].sets * draw.one("sets.part"))
    return _changed(levels, number, sets=sets)


def _changed(levels: tuple[spec.Level, ...], number: int, **fields: Any) -> tuple[spec.Level, ...]:
    return (*levels[:number], msgspec.structs.replace(levels[number], **fields), *levels[number + 1 :])


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
    if isinstance(prefetcher, spec.LinePair | spec.Region | spec.SpatialPattern):
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
