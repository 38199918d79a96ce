"""What must be doubted because a CPU may have held its prefetchers back meanwhile.

Some CPUs do, for milliseconds or for seconds: while memory is busy with what others ask for, or when too little of what
a prefetcher brought was used of late. Then it doesn't show, and nothing that it brings tells it from one that isn't
there: more looks at that time only repeat the error. So while other programs keep the computer busy nothing is absent,
no rule says no, and no conclusion is drawn from what did not show; and rules are told only of a prefetcher that showed
right before and right after they were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import downwards, odd_line
from setebench.prefetcher_map.shown import Found, Shown
from setebench.prefetcher_map.tell import Told
from setebench.results import Finding, Outcome

ASLEEP = "the prefetcher itself did not show right {when} its rules were asked; run again at a quieter time"
BUSY = (
    "nothing showed, but other programs kept {busy_cpus:.1f} CPUs busy, and some CPUs hold prefetchers back then; run "
    "again when nothing else runs on the machine"
)


def told_awake(lab: Laboratory, witness: Shown | None, rules: Callable[[Told], None], told: Told) -> None:
    """Let a prefetcher's rules be told, and take all of them back if it surely doesn't show before or after that."""
    before = _shows(lab, witness)
    rules(told)
    after = _shows(lab, witness)
    if before is False or after is False:
        told.take_back(ASLEEP.format(when="before" if before is False else "after"))


def _shows(lab: Laboratory, witness: Shown | None) -> bool | None:
    if witness is None or not witness.asked:
        return None
    with lab.unremembered():
        return witness.shows(lab)


def open_absent(lab: Laboratory, found: Found, busy_cpus: float | None) -> Found:
    """What was found while others kept so many CPUs busy: whatever did not show may be there. The laboratory then knows
    no better, and level 2's next-line prefetcher is only told where level 1's did not bring the line."""
    if not busy_cpus:
        return found
    near, reason = found.near, BUSY.format(busy_cpus=busy_cpus)
    lab.known.outer_next = True
    if near.next_line is False:
        near.next_line = None
        lab.known.next_in_l1 = lab.known.next_after_hits = True
        odd = odd_line(lab)
        if near.l2_next_line and lab.in_l1(downwards(lab, odd), odd + 1) is not False:
            near.l2_next_line = None
    near.pair, near.l2_next_line = near.pair or None, near.l2_next_line or None
    found.region.present = found.region.present or None
    for each in (found.l1_stride, found.l2_stride, found.l1_stream, found.l2_stream):
        if each.present is False:
            each.present, each.reason = None, reason
    return replace(found, unsure=reason)


def without_denials(findings: Iterable[Finding], busy_cpus: float | None) -> list[Finding]:
    """Findings told while others kept so many CPUs busy: what says no is open."""
    reason = BUSY.format(busy_cpus=busy_cpus or 0.0)
    return [
        msgspec.structs.replace(each, value=None, outcome=Outcome.UNRESOLVED, reason=reason)
        if busy_cpus and each.value is False and each.outcome is not Outcome.ABSENT
        else each
        for each in findings
    ]
