"""Checks of memory and its pages."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.host.doctor.reports import BAD, GOOD, NOTE, UNKNOWN, Check, PageReport, row
from setebench.host.environment import Environment, Limits, Memory
from setebench.text import in_bytes, ranges

ENOUGH_BYTES = 1 << 30  # buffers of several times the largest last-level cache, and room for tables
ENOUGH_LOCKED_BYTES = 64 << 20


def memory_checks(environment: Environment, pages: PageReport | str) -> Iterator[Check]:
    """What there is, and whether large pages are real ones, as measured."""
    memory = environment.memory
    yield _offered(memory)
    if isinstance(pages, str):
        granted, behaviour = f"not known: {pages}", "unresolved"
        status, reason = UNKNOWN, granted
    else:
        status, behaviour = GOOD if pages.granted else BAD, pages.tlb_behaviour
        granted = f"granted by {pages.how}" if pages.granted else f"not granted: {pages.reason}"
        reason = f"{behaviour}: {pages.reason}"
    yield row(
        "2 MiB page",
        granted,
        status,
        "In 4 KiB pages TLB misses add to every timing, and nothing beyond a page boundary can be measured.",
        "Reserve huge pages (sysctl vm.nr_hugepages=64, as root) or allow transparent ones, and free some memory.",
    )
    yield row(
        "2 MiB in the TLB",
        reason,
        {"real": GOOD, "splintered": NOTE}.get(behaviour, UNKNOWN),
        "A hypervisor may map a page in 4 KiB pieces: each takes a TLB entry, anywhere in physical memory.",
        "Nothing in the guest: TLB reach counts in 4 KiB here, and eviction sets are found by timing.",
    )
    yield _room(memory, environment.limits)
    locked, nodes = memory.locked_limit_bytes, memory.numa_nodes
    yield row(
        "locked memory",
        None if locked is None else "unlimited" if isinstance(locked, str) else f"up to {in_bytes(locked)}",
        isinstance(locked, str) or (locked or 0) >= ENOUGH_LOCKED_BYTES,
        "Pages that can't be locked may be moved or swapped while measuring; buffers are touched before use.",
        "Raise it (ulimit -l, or memlock in limits.conf) if runs differ.",
    )
    yield row(
        "NUMA nodes",
        None if nodes is None else ranges(nodes),
        len(nodes or ()) <= 1,
        "Memory of another node is slower, and automatic balancing moves pages.",
        "Bind to one node: numactl --cpunodebind=N --membind=N, with the same N.",
    )


def _offered(memory: Memory) -> Check:
    free, transparent = memory.huge_pages, memory.transparent
    can = bool(free) or transparent in ("always", "madvise")
    unsettled = not can and (transparent is None or free is None)
    reserved = "?" if free is None else free
    return row(
        "page sizes",
        None if unsettled else f"4 KiB; 2 MiB: {reserved} reserved; transparent: {transparent or 'not known'}",
        GOOD if can else BAD,
        "Prefetching beyond a 4 KiB boundary and large buffers without TLB misses need 2 MiB pages.",
        "Reserve some (sysctl vm.nr_hugepages=64) or allow transparent ones: 'madvise' into "
        "/sys/kernel/mm/transparent_hugepage/enabled, as root.",
    )


def _room(memory: Memory, limits: Limits) -> Check:
    available, left = memory.available_bytes, limits.memory_left_bytes
    limited = f", a control group has {in_bytes(left)} left" if isinstance(left, float) else ""
    usable = min(available or 0, left) if isinstance(left, float) else available or 0
    return row(
        "memory",
        None if available is None else f"{in_bytes(available)} available{limited}",
        GOOD if usable >= ENOUGH_BYTES else BAD,
        "Buffers must be much larger than the last-level cache, without making the system swap.",
        f"Free some memory or raise the limit to {in_bytes(ENOUGH_BYTES)} or more.",
    )
