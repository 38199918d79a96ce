"""What the operating system says about the processor: its name and flags, its CPUs, cores and caches.

In a guest these are the hypervisor's words. They go into result files and advice; no scenario reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec

from setebench.host.tree import Tree, parse_cpu_list, parse_fields, parse_size

CPU = "sys/devices/system/cpu"
KINDS = {"cpu_core": "big core", "cpu_atom": "small core", "cpu_lowpower": "low-power core"}
"""Kinds of core of hybrid processors, by what the kernel calls their PMUs."""

SMALL_CAPACITY = 0.8
"""A core of less than this share of the largest `cpu_capacity` is a small one: favoured cores clock some percent higher
than others of their kind, dense ones a third lower (AMD) or have half the capacity (Intel)."""


class Processor(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of the first CPU; `flags` are in the kernel's spelling, empty where they
    are not known (no CPU has none)."""

    vendor: str | None = None
    name: str | None = None
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    microcode: str | None = None
    flags: tuple[str, ...] = ()


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of cache; `sharing` is the number of CPUs that share one such cache."""

    level: int | None = None
    type: str | None = None
    size_bytes: int | None = None
    ways: int | None = None
    sets: int | None = None
    line_bytes: int | None = None
    sharing: int | None = None


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs and how they share.

    `allowed` are the CPUs this process may run on, `siblings` groups those that share a core, `kinds` names the CPUs
    of each kind of core (`KINDS`) on a hybrid processor. `isolated` and `full_ticks_off` are the kernel's isolcpus and
    nohz_full lists.
    """

    online: tuple[int, ...] | None = None
    allowed: tuple[int, ...] | None = None
    siblings: tuple[tuple[int, ...], ...] | None = None
    kinds: dict[str, tuple[int, ...]] | None = None
    isolated: tuple[int, ...] | None = None
    full_ticks_off: tuple[int, ...] | None = None
    caches: tuple[Cache, ...] | None = None


def _cpuinfo(tree: Tree) -> list[dict[str, str]]:
    """The fields of each processor that proc/cpuinfo describes; what numbers no processor is left out."""
    blocks = map(parse_fields, re.split(r"\n\s*\n", tree.text("proc/cpuinfo") or ""))
    return [fields for fields in blocks if fields.get("processor", "").isdecimal()]


def read_processor(tree: Tree) -> Processor:
    """Identity of the first CPU that proc/cpuinfo describes."""
    first = next(iter(_cpuinfo(tree)), {})
    keys = {"family": "cpu family", "model": "model", "stepping": "stepping"}
    return Processor(
        vendor=first.get("vendor_id"),
        name=first.get("model name"),
        **{name: tree.parsed(f"proc/cpuinfo {key}", first.get(key), int) for name, key in keys.items()},
        microcode=first.get("microcode"),
        flags=tuple(first.get("flags", "").split()),
    )


def read_topology(tree: Tree) -> Topology:
    """CPUs, cores and caches."""
    numbered = tuple(int(each["processor"]) for each in _cpuinfo(tree))
    online = tree.value(f"{CPU}/online", parse_cpu_list) or numbered or None
    return Topology(
        online=online,
        allowed=tree.field("proc/self/status", "Cpus_allowed_list", parse_cpu_list) or None,
        siblings=_siblings(tree, online or ()),
        kinds=_kinds(tree, online or ()),
        isolated=tree.value(f"{CPU}/isolated", parse_cpu_list),
        full_ticks_off=tree.value(f"{CPU}/nohz_full", parse_cpu_list),
        caches=_caches(tree, online or ()),
    )


def _siblings(tree: Tree, cpus: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    groups = {tree.value(f"{CPU}/cpu{cpu}/topology/thread_siblings_list", parse_cpu_list) for cpu in cpus}
    return tuple(sorted(group for group in groups if group)) or None


def _kinds(tree: Tree, cpus: tuple[int, ...]) -> dict[str, tuple[int, ...]] | None:
    """By the PMUs of the kinds; by capacity where these share one."""
    kinds = {kind: tree.value(f"sys/devices/{name}/cpus", parse_cpu_list) for name, kind in KINDS.items()}
    if named := {name: own for name, own in kinds.items() if own}:
        return named
    capacity = {cpu: tree.value(f"{CPU}/cpu{cpu}/cpu_capacity", int) or 0 for cpu in cpus}
    least = SMALL_CAPACITY * max(capacity.values(), default=0)
    big, small = (tuple(cpu for cpu in cpus if (capacity[cpu] < least) is is_small) for is_small in (False, True))
    return {"big core": big, "small core": small} if small and all(capacity.values()) else None


def _caches(tree: Tree, cpus: tuple[int, ...]) -> tuple[Cache, ...] | None:
    places = (f"{CPU}/cpu{cpu}/cache" for cpu in cpus)
    each = ([f"{place}/{name}" for name in tree.names(place, r"index\d{1,2}") or ()] for place in places)
    found = dict.fromkeys(_cache(tree, place) for place in chain.from_iterable(each))
    found.pop(Cache(), None)
    return tuple(sorted(found, key=lambda cache: (cache.level or 0, cache.type or "", cache.size_bytes or 0))) or None


def _cache(tree: Tree, place: str) -> Cache:
    shared = tree.value(f"{place}/shared_cpu_list", parse_cpu_list)
    numbers = {
        "level": "level",
        "ways": "ways_of_associativity",
        "sets": "number_of_sets",
        "line_bytes": "coherency_line_size",
    }
    return Cache(
        type=tree.text(f"{place}/type"),
        size_bytes=tree.value(f"{place}/size", parse_size),
        sharing=len(shared) if shared else None,
        **{name: tree.value(f"{place}/{file}", int) for name, file in numbers.items()},
    )


FIELDS = {"size": "size_bytes", "ways": "ways", "line_size": "line_bytes"}


def reported_caches(environment: Mapping[str, Any]) -> dict[str, int]:
    """What the record of the environment in a result file says of the data caches: sizes, ways and line sizes by the
    parameter that measures the same; empty where nothing is said. The record may come from anybody's file."""
    topology = environment.get("topology")
    caches = topology.get("caches") if isinstance(topology, dict) else None
    records = [each for each in caches if isinstance(each, dict)] if isinstance(caches, list) else []
    return {
        f"cache.l{each['level']}.{name}": value
        for each in records
        if each.get("type") in ("Data", "Unified") and isinstance(each.get("level"), int)
        for name, key in FIELDS.items()
        if isinstance(value := each.get(key), int) and value > 0
    }
