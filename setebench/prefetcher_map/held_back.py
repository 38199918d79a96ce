"""What must be doubted because a CPU may have held its prefetchers back meanwhile.

Some CPUs do, for milliseconds or for seconds: while memory is busy with what others ask for, or when too little of what
a prefetcher brought was used of late. Then it doesn't show, and nothing that it brings tells it from one that isn't
there: more looks at that time only repeat the error. So nothing is told to be absent while other programs kept the
computer busy, and rules only of a prefetcher that showed both before and after they were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.shown import Shown
from setebench.prefetcher_map.tell import Told
from setebench.results import Finding, Outcome

BUSY_CPUS = 0.2
"""Others that keep this many CPUs at work, or fewer, are what an idle computer does by itself."""

ASLEEP = "the prefetcher itself did not show right {when} its rules were asked; run again at a quieter time"


def told_awake(lab: Laboratory, witness: Shown | None, rules: Callable[[Told], None], told: Told) -> None:
    """Let a prefetcher's rules be told, and take all of them back if it doesn't show before and after that."""
    before = _shows(lab, witness)
    rules(told)
    after = _shows(lab, witness)
    if not (before and after):
        told.take_back(ASLEEP.format(when="after" if before else "before"))


def _shows(lab: Laboratory, witness: Shown | None) -> bool:
    if witness is None:
        return True
    with lab.unremembered():
        return witness.shows(lab) is True


def doubted(findings: Iterable[Finding], busy_cpus: float | None) -> list[Finding]:
    """The findings of one survey during which others kept so many CPUs busy: what is absent then is open."""
    if busy_cpus is None or busy_cpus <= BUSY_CPUS:
        return list(findings)
    reason = (
        f"nothing showed, but other programs kept {busy_cpus:.1f} CPUs busy, and some CPUs hold prefetchers back then; "
        "run again when nothing else runs on the machine"
    )
    return [
        msgspec.structs.replace(each, value=None, outcome=Outcome.UNRESOLVED, reason=reason)
        if each.outcome is Outcome.ABSENT
        else each
        for each in findings
    ]
