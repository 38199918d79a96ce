"""Cache levels of random machines."""

from __future__ import annotations

from typing import Any

from setebench.sim import spec
from setebench.sim.random.ranges import Draw
from setebench.sim.spec.capacity import usable_lines

LEAST_GROWTH = 2
"""A level holds at least so many times the lines of the one above."""


def random_levels(draw: Draw, core: spec.Core) -> tuple[spec.Level, ...]:
    """The levels of a random machine."""
    first = _first(draw, core)
    second = _second(draw, core, first)
    if not draw.chance("l3.present"):
        return (first, second)
    third = _third(draw, core, second)
    if not draw.chance("l4.present") or LEAST_GROWTH * usable_lines(third) > draw.most("l4.least_lines"):
        return (first, second, third)
    return (first, second, third, _fourth(draw, third))


def _first(draw: Draw, core: spec.Core) -> spec.Level:
    entries = draw.fitting("l1.mshr", lambda number: number <= core.load_queue)
    split = draw.chance("l1.mshr_split") and core.out_of_order
    sets, ways = draw.one("l1.sets"), draw.one("l1.ways")
    return spec.Level(
        sets=sets,
        ways=ways,
        latency_cycles=float(draw.one("l1.latency")),
        hashed_index=draw.chance("l1.hashed"),
        physical_index=draw.chance("l1.physical"),
        ports=draw.one("l1.ports"),
        fill_interval_cycles=draw.one("fill_interval"),
        mshr_entries=entries,
        mshr_demand_limit=_part(draw, entries) if split else 0,
        mshr_prefetch_limit=_part(draw, entries) if draw.chance("l1.mshr_prefetch_limited") else 0,
        mshr_hardware_limit=_part(draw, entries) if draw.chance("l1.mshr_hardware_limited") else 0,
        mshr_shared_by_smt=core.threads_per_core == 1 or draw.chance("shared_by_smt"),
        **_replacement(draw, "l1", ways),
    )


def _part(draw: Draw, entries: int) -> int:
    """So many of a queue's entries."""
    return max(2, int(entries * draw.one("mshr_part")))


def _second(draw: Draw, core: spec.Core, first: spec.Level) -> spec.Level:
    least = LEAST_GROWTH * usable_lines(first)
    sets, ways = draw.fitting("l2.shape", lambda shape: shape[0] * shape[1] >= least)
    entries = min(int(first.mshr_entries * draw.one("l2.mshr_factor")), draw.most("l2.mshr_most"))
    return spec.Level(
        sets=sets,
        ways=ways,
        latency_cycles=float(draw.whole("l2.latency")),
        inclusion=draw.one("l2.inclusion"),
        hashed_index=draw.chance("l2.hashed"),
        ports=draw.one("l2.ports"),
        fill_interval_cycles=draw.one("fill_interval"),
        mshr_entries=entries,
        mshr_shared_by_smt=core.threads_per_core == 1 or draw.chance("shared_by_smt"),
        **_replacement(draw, "l2", ways),
    )


def _third(draw: Draw, core: spec.Core, second: spec.Level) -> spec.Level:
    ways = draw.one("l3.ways")
    allocated = draw.one("l3.allocated_ways") if draw.chance("l3.partitioned") else 0
    least, most = LEAST_GROWTH * usable_lines(second) / (allocated or ways), draw.most("l3.most_lines") / ways
    slices, sets = draw.fitting("l3.shape", lambda shape: least <= shape[0] * shape[1] <= most)
    inclusion = draw.one("l3.inclusion")
    directory = inclusion != "inclusive" and draw.chance("l3.directory")
    return spec.Level(
        sets=sets,
        ways=ways,
        slices=slices,
        allocated_ways=allocated,
        latency_cycles=float(draw.whole("l3.latency")),
        inclusion=inclusion,
        directory_sets=_directory_sets(draw, core, second) if directory else 0,
        directory_ways=draw.most("l3.directory_ways") if directory else 0,
        hashed_index=slices == 1 and draw.chance("l3.hashed"),
        mshr_entries=draw.one("l3.mshr"),
        **_replacement(draw, "l3", allocated or ways),
    )


def _directory_sets(draw: Draw, core: spec.Core, second: spec.Level) -> int:
    """As many as give a place to so many times the lines of all second levels, at least."""
    lines = core.cores * usable_lines(second) * draw.real("l3.directory_room")
    return 1 << max(0, int(lines / draw.most("l3.directory_ways"))).bit_length()


def _fourth(draw: Draw, third: spec.Level) -> spec.Level:
    sets, ways = draw.one("l4.shape")
    return spec.Level(
        sets=sets,
        ways=ways,
        latency_cycles=third.latency_cycles + draw.whole("l4.latency_more"),
        hashed_index=draw.chance("l3.hashed"),
        mshr_entries=0,
        **_replacement(draw, "l4", ways),
    )


def _replacement(draw: Draw, level: str, ways: int) -> dict[str, Any]:
    """Fields of the replacement policy. A tree with fewer leaves than places is no one's known design."""
    drawn = draw.fitting(f"{level}.replacement", lambda name: name != "tree_plru" or not ways & (ways - 1))
    return {"replacement": "qlru", "qlru": drawn} if drawn.startswith("H") else {"replacement": drawn}
