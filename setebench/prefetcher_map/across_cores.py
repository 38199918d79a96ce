"""Whether a run that another core began is followed on this one, as by a prefetcher beside a cache that cores share."""

from __future__ import annotations

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Visit

METHOD = "all accesses but the last by another core, the last by this one; and each core's alone"
UNCLEAR = "lines came in some repetitions only, or with the accesses of one core alone; run again at a quieter time"


def tell_across_cores(lab: Laboratory, visit: Visit, first: int, targets: list[int], told: Told) -> None:
    """Tell whether the visit works when another core makes its `first` accesses and this one the rest. Nothing is told
    where there is one core, or where the visit has no access for each."""
    cpus = other_core(lab)
    if cpus is not None and 0 < first < len(visit.steps):
        told.value("shared_by_cores", continues(lab, visit, first, targets, cpus), METHOD, UNCLEAR)


def continues(lab: Laboratory, visit: Visit, first: int, targets: list[int], cpus: tuple[int, int]) -> bool | None:
    """Whether any target comes with both cores' accesses, and with neither's alone: what one of them fetches of its own
    may lie in a cache that both see."""
    told = lab.brings_across(visit, (0, first, len(visit.steps)), targets, cpus)
    if not told:
        return told
    alone = [
        lab.brings_across(visit, parts, targets, cpus)
        for parts in ((0, first, first), (first, first, len(visit.steps)))
    ]
    return True if alone == [False, False] else None


def other_core(lab: Laboratory) -> tuple[int, int] | None:
    """The CPU that measures and one of another core."""
    facts = lab.context.machine.facts
    own = facts.cpus[0] if lab.context.cpu is None else lab.context.cpu
    core = next((group for group in facts.siblings if own in group), (own,))
    others = [cpu for cpu in facts.cpus if cpu not in core]
    return (own, others[0]) if others else None
