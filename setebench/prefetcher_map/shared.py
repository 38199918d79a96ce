"""Whether SMT threads of a core train a prefetcher together (Fang et al. 2014, Figure 8)."""

from __future__ import annotations

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Visit

METHOD = "the last access that it needs made by another thread of the core; then all of them dealt to all threads"
UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"


def tell_shared(lab: Laboratory, visit: Visit, first: int, targets: list[int], told: Told) -> None:
    """Tell whether the visit still works when a sibling thread makes all accesses but the `first` ones, and, where
    cores have more threads, when three or more take turns. Nothing is told where cores have one thread, or where the
    visit has no access for each thread."""
    cpus = siblings(lab)
    if cpus is None:
        return
    if first < 1:
        told.unresolved("shared_by_smt", "it remembers nothing that threads could share: one access is enough")
        return
    makers = {2: [int(number >= first) for number in range(len(visit.steps))]}
    # the thread that times makes the last of each round, so that the first accesses are those of others
    makers |= {count: [(number + 1) % count for number in range(len(visit.steps))] for count in range(3, len(cpus) + 1)}
    shared = {count: lab.brings_shared(visit, makers[count], targets, cpus[:count]) for count in makers}
    lab.context.evidence.setdefault("streams_of_threads", {})[told.identity] = {
        str(count): value for count, value in shared.items()
    }
    agree = {value for value in shared.values() if value is not None} == {shared[2]}
    told.value("shared_by_smt", shared[2] if agree else None, METHOD, _why(shared))


def _why(shared: dict[int, bool | None]) -> str:
    """Why threads don't tell one answer."""
    if shared[2] is None:
        return UNCLEAR
    return ", ".join(f"{count} threads {'train' if value else 'do not train'} it" for count, value in shared.items())


def siblings(lab: Laboratory) -> tuple[int, ...] | None:
    """The CPU that measures and the others of its core; None where it is alone."""
    facts = lab.context.machine.facts
    own = facts.cpus[0] if lab.context.cpu is None else lab.context.cpu
    for group in facts.siblings:
        others = [cpu for cpu in group if cpu != own and cpu in facts.cpus]
        if own in group and others:
            return own, *others
    return None
