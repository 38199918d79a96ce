"""Whether SMT threads of a core train a prefetcher together (Fang et al. 2014, Figure 8)."""

from __future__ import annotations

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Visit

METHOD = "the last access that it needs made by another thread of the core"


def tell_shared(lab: Laboratory, visit: Visit, first: int, targets: list[int], told: Told) -> None:
    """Tell whether the visit still works when a sibling thread makes all accesses but the `first` ones. Nothing is told
    where cores have one thread, or where the visit has no access for each thread."""
    cpus = siblings(lab)
    if cpus is None:
        return
    if first < 1:
        told.unresolved("shared_by_smt", "it remembers nothing that threads could share: one access is enough")
        return
    shared = lab.brings_shared(visit, first, targets, cpus)
    told.value("shared_by_smt", shared, METHOD, "some lines were there in some repetitions only")


def siblings(lab: Laboratory) -> tuple[int, int] | None:
    """The CPU that measures and another one of its core."""
    facts = lab.context.machine.facts
    own = facts.cpus[0] if lab.context.cpu is None else lab.context.cpu
    for group in facts.siblings:
        others = [cpu for cpu in group if cpu != own and cpu in facts.cpus]
        if own in group and others:
            return own, others[0]
    return None
