"""Several surveys of a machine, each with references and pages of its own, and what they agree on.

Some CPUs throttle their prefetchers, for milliseconds or for seconds: while memory is busy with what others ask for, or
when too little of what a prefetcher brought was used of late. Then it doesn't show, and nothing distinguishes it from
one that isn't there. So while other programs keep the computer busy nothing is absent, no rule says no, and no
conclusion is drawn from what did not show; and rules are reported only of a prefetcher that showed right before and
right after they were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from setebench.errors import UnsupportedError
from setebench.experiments.busy import Busy
from setebench.experiments.lines.serving import References
from setebench.machine import Region
from setebench.results import Finding, Outcome
from setebench.scenario import Context

from .confirm import confirmed
from .described import compare
from .families import FAMILIES, doubt, find_all
from .found import Answer, Found
from .kinds.neighbours import downwards, odd_line
from .lab import Lab, fit_traversals
from .report import PRESENT, Report, agreed, open_questions, owner

HUGE_BYTES = 1 << 21
"""Bytes of a large page, within which physical addresses go on."""

EVERY = frozenset(f"prefetcher.{family.identity}" for family in FAMILIES)
THROTTLED = "the prefetcher itself did not show right {when} its rules were asked; run again at a quieter time"
BUSY = (
    "nothing showed, but other programs kept {busy_cpus:.1f} CPUs busy, and some CPUs throttle prefetchers then; run "
    "again when nothing else runs on the machine"
)


def repeated_survey(
    context: Context, region: Region, references: Callable[[], References]
) -> tuple[Lab, list[Finding]]:
    """Survey the machine several times, with `references` taken anew for each, and report what the surveys agree on.

    Where prefetchers may be switched off for a while, that confirms what was found. Returns the laboratory of the last
    survey too, for questions that are asked once."""
    huge_region = _huge_region(context)
    surveys: list[list[Finding]] = []
    wanted: Collection[str] = EVERY
    sure: Collection[str] = ()
    busy = Busy(context.machine)
    try:
        while True:
            context.progress(f"survey {len(surveys) + 1}")
            taken = references()
            lab = Lab(context, region, taken, len(surveys))
            lab.find_second_level()
            huge = None if huge_region is None else Lab(context, huge_region, lab.references, len(surveys))
            finds = find(lab, busy, sure)
            surveys.append(without_denials(list(survey(lab, huge, finds, wanted)), busy.cpus()))
            least, most = lab.params.surveys
            if len(surveys) >= least:
                wanted = open_questions(surveys)
                there = {owner(each) for each in agreed(surveys) if each.parameter.endswith(PRESENT) and each.value}
                sure = there - wanted
            if not wanted or len(surveys) >= most:
                break
        findings = agreed(surveys)
        # the surveys say what there is; switches, where there are any, may only confirm or cast doubt
        return lab, confirmed(context, lab, finds, findings)
    finally:
        if huge_region is not None:
            context.machine.release(huge_region)


def _huge_region(context: Context) -> Region | None:
    """Some 2 MiB pages, where they are to be had."""
    if HUGE_BYTES not in context.machine.facts.page_sizes:
        return None
    try:
        return context.machine.allocate(HUGE_BYTES * 16, HUGE_BYTES)
    except UnsupportedError as error:
        context.progress(f"no 2 MiB pages: {error}")
        return None


def find(lab: Lab, busy: Busy, sure: Collection[str] = ()) -> dict[str, Found]:
    """What there is, unless others kept the computer busy meanwhile; some families are `sure` to be what they seem."""
    busy.cpus()  # from here on
    lab.context.progress("what level 2 holds")
    fit_traversals(lab)
    finds = find_all(lab)
    compare(lab, sure)
    open_absent(lab, busy.cpus())
    doubt(lab)
    return finds


def survey(lab: Lab, huge: Lab | None, finds: dict[str, Found], wanted: Collection[str] = EVERY) -> Iterator[Finding]:
    """Ask once the rules of what was found and is among the `wanted` prefetchers; `huge` is the same laboratory in 2
    MiB pages."""
    if huge is not None:
        huge.know_as(lab)
    for family in FAMILIES:
        found, report = finds[family.identity], Report(family.identity)
        if not family.always and not found.seen:
            continue
        lab.context.progress(f"rules of {family.identity}")
        there = report.present(found.present, family.method, found.reason or family.doubt)
        if there and f"prefetcher.{family.identity}" in wanted:
            before = shows(lab, found)
            family.rules(lab, huge, found, report)
            after = shows(lab, found)
            if before is False or after is False:
                report.withdraw(THROTTLED.format(when="before" if before is False else "after"))
        yield from report


def shows(lab: Lab, found: Found) -> Answer:
    """Whether a prefetcher shows now, by the smallest question by which it does."""
    if found.question is None:
        return None
    with lab.anew():
        return lab.ask(found.question)


def open_absent(lab: Lab, busy_cpus: float | None) -> None:
    """What was found while others kept so many CPUs busy: whatever did not show may be there. Level 2's next-line
    prefetcher is then only reported where level 1's did not bring the line."""
    if not busy_cpus:
        return
    finds = lab.known.finds
    hidden = finds["l1.next_line"].present is False
    for found in finds.values():
        found.reason = found.reason or BUSY.format(busy_cpus=busy_cpus)
        found.present = found.present or None
    odd = odd_line(lab)
    if hidden and finds["l2.next_line"].present and lab.in_l1(downwards(lab, odd), odd + 1) is not False:
        finds["l2.next_line"].present = None


def without_denials(findings: Iterable[Finding], busy_cpus: float | None) -> list[Finding]:
    """Findings made while others kept so many CPUs busy: what says no is open."""
    reason = BUSY.format(busy_cpus=busy_cpus or 0.0)
    return [
        msgspec.structs.replace(each, value=None, outcome=Outcome.UNRESOLVED, reason=reason)
        if busy_cpus and each.value is False and each.outcome is not Outcome.ABSENT
        else each
        for each in findings
    ]
