"""Checks of a machine that is not this CPU: what its `Facts` say. The computer it runs on does not matter."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.doctor.records import GOOD, NOTE, Check, row, size_text
from setebench.host.tree import format_cpu_list
from setebench.machine import Facts

SMALL_MEMORY_BYTES = 64 << 20


def facts_checks(facts: Facts) -> Iterator[Check]:
    """What a simulated or plug-in machine offers to scenarios."""
    alone = "Only what the machine says of itself is checked; the computer that runs this does not matter to it."
    yield row("machine", f"{facts.name} ({facts.kind})", (), (True, GOOD, alone))
    brackets = f"{', '.join(facts.brackets)}; {facts.ticks_per_second / 1e6:g} MHz"
    yield row("clock brackets", brackets, (), (True, GOOD, "The first one is the machine's choice."))
    huge = max(facts.page_sizes, default=0) >= 2 << 20
    several = len(facts.cpus) > 1
    for name, found, enough, question in (
        ("page sizes", ", ".join(map(size_text, facts.page_sizes)), huge, "Prefetching beyond a 4 KiB boundary"),
        ("CPUs", format_cpu_list(facts.cpus), several, "What several CPUs share"),
    ):
        can, cannot = (f"{question} can{word} be looked into." for word in ("", "'t"))
        yield row(name, found, (), (enough, GOOD, can), (True, NOTE, cannot))
    shared = "; ".join(format_cpu_list(group) for group in facts.siblings if len(group) > 1)
    found = f"these share a core: {shared}" if shared else "none"
    yield row("SMT sibling", found, (), (True, GOOD, "Questions of SMT need such."))
    yield row(
        "memory",
        size_text(facts.memory_bytes),
        (),
        (facts.memory_bytes >= SMALL_MEMORY_BYTES, GOOD, "Enough for buffers larger than most caches."),
        (True, NOTE, "Buffers can't be much larger than the last cache.", "Ask only about the inner levels."),
    )
    for text in facts.notes:
        yield row("note of the machine", text, (), (True, NOTE, "The machine says this of itself."))
