"""Checks of memory: which pages there are, whether huge ones are real to the TLB, and how much may be used."""

from __future__ import annotations

from setebench.doctor.records import Check, PageReport, bad, good, note, size_text, unknown
from setebench.host.environment import Environment, Memory
from setebench.host.tree import format_cpu_list

HUGE_BYTES = 2 << 20
ENOUGH_BYTES = 1 << 30
"""Buffers of several times the largest last-level cache, and room for tables."""
ENOUGH_LOCKED_BYTES = 64 << 20


def memory_checks(environment: Environment, pages: PageReport | None, why: str) -> list[Check]:
    """Checks of memory and pages; `why`: why there is no page report."""
    memory = environment.memory
    return [
        _offered(memory),
        _granted(pages, why),
        _tlb(pages, why),
        _available(environment),
        _locked(memory),
        _nodes(memory),
    ]


def _offered(memory: Memory) -> Check:
    name = "page sizes"
    meaning = "Prefetching beyond a 4 KiB boundary and large buffers without TLB misses need 2 MiB pages."
    if memory.huge_pages is None and memory.transparent is None:
        return unknown(name, "the system does not say which it has", meaning)
    sizes = [
        f"{size_text(page.size_bytes)} ({_count(page.free)} free of {_count(page.total)})"
        for page in memory.huge_pages or ()
    ]
    found = f"4 KiB; reserved: {', '.join(sizes) or 'none'}; transparent: {memory.transparent or 'not known'}"
    reserved = any(page.free for page in memory.huge_pages or () if page.size_bytes == HUGE_BYTES)
    if reserved or memory.transparent in ("always", "madvise"):
        return good(name, found, "2 MiB pages can be had.")
    if memory.transparent is None or any(page.free is None for page in memory.huge_pages or ()):
        return unknown(name, found, meaning)
    return bad(
        name,
        found,
        meaning,
        "Reserve some (sysctl vm.nr_hugepages=64) or allow transparent ones: 'madvise' into "
        "/sys/kernel/mm/transparent_hugepage/enabled, as root.",
    )


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _granted(pages: PageReport | None, why: str) -> Check:
    name = "2 MiB page"
    if pages is None:
        return unknown(name, f"not known: {why}", "Whether a process gets one shows only when it asks.")
    if pages.granted:
        return good(name, f"granted by {pages.how}", "The kernel maps buffers in 2 MiB pages.")
    return bad(
        name,
        f"not granted{_reason(pages)}",
        "Large buffers lie in 4 KiB pages: TLB misses add to every timing, and "
        "questions beyond a page boundary can't be asked.",
        "Reserve huge pages (sysctl vm.nr_hugepages=64, as root) or allow transparent ones, and free some memory.",
    )


def _reason(pages: PageReport) -> str:
    return f": {pages.reason}" if pages.reason else ""


def _tlb(pages: PageReport | None, why: str) -> Check:
    name = "2 MiB in the TLB"
    meaning = "A hypervisor may map what the guest holds for one page in 4 KiB pieces; only timing shows it."
    if pages is None:
        return unknown(name, f"not known: {why}", meaning)
    if pages.tlb_behaviour == "real":
        return good(name, f"real{_reason(pages)}", "One TLB entry holds the whole page.")
    if pages.tlb_behaviour == "splintered":
        return note(
            name,
            f"splintered{_reason(pages)}",
            "Each 4 KiB takes a TLB entry of its own, and neighbours in the page may lie anywhere in physical memory.",
            "Nothing in the guest: TLB reach counts in 4 KiB here, and eviction sets are found by timing. "
            "Bare metal or a host with huge pages behind the guest has real ones.",
        )
    advice = "Stop other work and try again." if pages.tlb_behaviour == "unresolved" else "See the check above."
    return unknown(name, f"{pages.tlb_behaviour}{_reason(pages)}", meaning, advice)


def _available(environment: Environment) -> Check:
    name, available = "memory", environment.memory.available_bytes
    if available is None:
        return unknown(name, "/proc/meminfo does not say", "Buffers must be much larger than the last-level cache.")
    limit, left = environment.limits.memory_bytes, environment.limits.memory_left_bytes
    usable = min(available, left) if isinstance(left, int) else available
    limited = f", a control group allows {size_text(limit)}" if isinstance(limit, int) else ""
    limited += f" and has {size_text(left)} left" if isinstance(left, int) else ""
    found = f"{size_text(available)} available{limited}"
    if usable >= ENOUGH_BYTES:
        return good(name, found, "Enough for buffers much larger than the last-level cache.")
    return bad(
        name,
        found,
        "Buffers may not be much larger than the last-level cache, or the system may start to swap.",
        f"Free some memory or raise the limit to {size_text(ENOUGH_BYTES)} or more.",
    )


def _locked(memory: Memory) -> Check:
    name, limit = "locked memory", memory.locked_limit_bytes
    if limit is None:
        return unknown(
            name, "/proc/self/limits does not say", "Locked pages can't be moved or swapped while measuring."
        )
    if limit == "unlimited" or limit >= ENOUGH_LOCKED_BYTES:
        found = "unlimited" if limit == "unlimited" else f"up to {size_text(limit)}"
        return good(name, found, "All buffers may be locked.")
    return note(
        name,
        f"up to {size_text(limit)}",
        "Larger buffers can't be locked: the kernel may move or swap their pages while measuring.",
        "Raise it (ulimit -l, or memlock in limits.conf) if runs differ; buffers are touched before use.",
    )


def _nodes(memory: Memory) -> Check:
    name, nodes = "NUMA nodes", memory.numa_nodes
    if nodes is None:
        return unknown(name, "the system does not say", "Memory of another node is slower.")
    if len(nodes) <= 1:
        return good(name, format_cpu_list(nodes), "All memory is equally far.")
    return note(
        name,
        format_cpu_list(nodes),
        "Memory of another node is slower, and automatic balancing moves pages.",
        "Bind to one node: numactl --cpunodebind=N --membind=N, with the same N.",
    )
