"""How much a cache level of a machine file holds."""

from __future__ import annotations

from setebench.sim import spec


def usable_ways(level: spec.Level) -> int:
    """Ways that the program's lines can be in: what a partition leaves it, else all."""
    return level.allocated_ways or level.ways


def all_sets(level: spec.Level) -> int:
    """Sets of all slices together."""
    return level.sets * level.slices


def usable_lines(level: spec.Level) -> int:
    """Lines of the program that fit into a level."""
    return all_sets(level) * usable_ways(level)
