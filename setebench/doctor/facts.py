"""Checks of a machine that is not this CPU: what its `Facts` say. The computer it runs on does not matter."""

from __future__ import annotations

from setebench.doctor.records import Check, good, note, size_text
from setebench.host.tree import format_cpu_list
from setebench.machine import Facts

SMALL_MEMORY_BYTES = 64 << 20


def facts_checks(facts: Facts) -> list[Check]:
    """What a simulated or plug-in machine offers to scenarios."""
    brackets = ", ".join(facts.brackets)
    pages = ", ".join(map(size_text, facts.page_sizes))
    shared = [format_cpu_list(group) for group in facts.siblings if len(group) > 1]
    huge = max(facts.page_sizes, default=0) >= 2 << 20
    return [
        good(
            "machine",
            f"{facts.name} ({facts.kind})",
            "Only what the machine says of itself is checked; the computer that runs this does not matter to it.",
        ),
        good(
            "clock brackets",
            f"{brackets}; {facts.ticks_per_second / 1e6:g} MHz",
            "The first one is the machine's choice.",
        ),
        _offer("page sizes", pages, huge, "Prefetching beyond a 4 KiB boundary"),
        _offer("CPUs", format_cpu_list(facts.cpus), len(facts.cpus) > 1, "What several CPUs share"),
        good(
            "SMT sibling",
            f"these share a core: {'; '.join(shared)}" if shared else "none",
            "Questions of SMT need such.",
        ),
        _memory(facts),
        *(note("note of the machine", text, "The machine says this of itself.") for text in facts.notes),
    ]


def _offer(name: str, found: str, enough: bool, question: str) -> Check:
    if enough:
        return good(name, found, f"{question} can be looked into.")
    return note(name, found, f"{question} can't be looked into.")


def _memory(facts: Facts) -> Check:
    found = size_text(facts.memory_bytes)
    if facts.memory_bytes >= SMALL_MEMORY_BYTES:
        return good("memory", found, "Enough for buffers larger than most caches.")
    return note(
        "memory", found, "Buffers can't be much larger than the last cache.", "Ask only about the inner levels."
    )
