"""Checks of memory: which pages there are, whether huge ones are real to the TLB, and how much may be used."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.doctor.records import BAD, GOOD, NOTE, Check, PageReport, row, size_text
from setebench.host.environment import Environment, Memory
from setebench.host.tree import format_cpu_list

HUGE_BYTES = 2 << 20
ENOUGH_BYTES = 1 << 30  # buffers of several times the largest last-level cache, and room for tables
ENOUGH_LOCKED_BYTES = 64 << 20


def memory_checks(environment: Environment, pages: PageReport | None, why: str) -> Iterator[Check]:
    """Checks of memory and pages; `why`: why there is no page report."""
    memory = environment.memory
    yield _offered(memory)
    yield from _pages(pages, why)
    yield _available(environment)
    limit = memory.locked_limit_bytes
    unlimited = limit == "unlimited"
    yield row(
        "locked memory",
        None if limit is None else "unlimited" if isinstance(limit, str) else f"up to {size_text(limit)}",
        ("/proc/self/limits does not say", "Locked pages can't be moved or swapped while measuring."),
        (unlimited or (isinstance(limit, int) and limit >= ENOUGH_LOCKED_BYTES), GOOD, "All buffers may be locked."),
        (
            True,
            NOTE,
            "Larger buffers can't be locked: the kernel may move or swap their pages while measuring.",
            "Raise it (ulimit -l, or memlock in limits.conf) if runs differ; buffers are touched before use.",
        ),
    )
    nodes = memory.numa_nodes
    yield row(
        "NUMA nodes",
        None if nodes is None else format_cpu_list(nodes),
        ("the system does not say", "Memory of another node is slower."),
        (len(nodes or ()) <= 1, GOOD, "All memory is equally far."),
        (
            True,
            NOTE,
            "Memory of another node is slower, and automatic balancing moves pages.",
            "Bind to one node: numactl --cpunodebind=N --membind=N, with the same N.",
        ),
    )


def _offered(memory: Memory) -> Check:
    meaning = "Prefetching beyond a 4 KiB boundary and large buffers without TLB misses need 2 MiB pages."
    huge, transparent = memory.huge_pages or (), memory.transparent
    sizes = [f"{size_text(page.size_bytes)} ({_count(page.free)} free of {_count(page.total)})" for page in huge]
    found = f"4 KiB; reserved: {', '.join(sizes) or 'none'}; transparent: {transparent or 'not known'}"
    can = any(page.free for page in huge if page.size_bytes == HUGE_BYTES) or transparent in ("always", "madvise")
    unsettled = not can and (transparent is None or any(page.free is None for page in huge))
    unread = memory.huge_pages is None and transparent is None
    return row(
        "page sizes",
        None if unsettled else found,
        ("the system does not say which it has" if unread else found, meaning),
        (can, GOOD, "2 MiB pages can be had."),
        (
            True,
            BAD,
            meaning,
            "Reserve some (sysctl vm.nr_hugepages=64) or allow transparent ones: 'madvise' into "
            "/sys/kernel/mm/transparent_hugepage/enabled, as root.",
        ),
    )


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _pages(pages: PageReport | None, why: str) -> Iterator[Check]:
    """Whether a 2 MiB page is granted, and what the TLB makes of it."""
    reason = f": {pages.reason}" if pages is not None and pages.reason else ""
    granted = pages is not None and pages.granted
    yield row(
        "2 MiB page",
        None if pages is None else f"granted by {pages.how}" if granted else f"not granted{reason}",
        (f"not known: {why}", "Whether a process gets one shows only when it asks."),
        (granted, GOOD, "The kernel maps buffers in 2 MiB pages."),
        (
            True,
            BAD,
            "Large buffers lie in 4 KiB pages: TLB misses add to every timing, and "
            "questions beyond a page boundary can't be asked.",
            "Reserve huge pages (sysctl vm.nr_hugepages=64, as root) or allow transparent ones, and free some memory.",
        ),
    )
    meaning = "A hypervisor may map what the guest holds for one page in 4 KiB pieces; only timing shows it."
    behaviour = "" if pages is None else pages.tlb_behaviour
    advice = "Stop other work and try again." if behaviour == "unresolved" else "See the check above."
    unclear = (f"not known: {why}", meaning) if pages is None else (f"{behaviour}{reason}", meaning, advice)
    yield row(
        "2 MiB in the TLB",
        f"{behaviour}{reason}" if behaviour in ("real", "splintered") else None,
        unclear,
        (behaviour == "real", GOOD, "One TLB entry holds the whole page."),
        (
            True,
            NOTE,
            "Each 4 KiB takes a TLB entry of its own, and neighbours in the page may lie anywhere in physical memory.",
            "Nothing in the guest: TLB reach counts in 4 KiB here, and eviction sets are found by timing. "
            "Bare metal or a host with huge pages behind the guest has real ones.",
        ),
    )


def _available(environment: Environment) -> Check:
    available = environment.memory.available_bytes
    limit, left = environment.limits.memory_bytes, environment.limits.memory_left_bytes
    limited = f", a control group allows {size_text(limit)}" if isinstance(limit, int) else ""
    limited += f" and has {size_text(left)} left" if isinstance(left, int) else ""
    usable = min(available or 0, left) if isinstance(left, int) else available or 0
    return row(
        "memory",
        None if available is None else f"{size_text(available)} available{limited}",
        ("/proc/meminfo does not say", "Buffers must be much larger than the last-level cache."),
        (usable >= ENOUGH_BYTES, GOOD, "Enough for buffers much larger than the last-level cache."),
        (
            True,
            BAD,
            "Buffers may not be much larger than the last-level cache, or the system may start to swap.",
            f"Free some memory or raise the limit to {size_text(ENOUGH_BYTES)} or more.",
        ),
    )
