"""Region prefetchers: they remember, over visits to other pages, which lines followed a first access."""

from __future__ import annotations

from dataclasses import dataclass, replace

from setebench.experiments.visits import LAYOUT, Access, Visit

from ..attributes import report_alike
from ..found import Answer, Found, Question, first_shown
from ..lab import Lab
from ..report import UNCLEAR, Report
from ..tables import BITS, FAR_BITS_MATTER, bits_that_matter, size

METHOD = "what followed a first access in other pages, then the first access alone"
LEVEL_HIDDEN = "which level recalls can't be asked: what puts the first line into level 1 makes all else forgotten"


@dataclass(frozen=True, kw_only=True)
class Training:
    """first_ip, later_ip, other_ip: instruction addresses of the first access, of later ones, and of one that recalls
      something else. elsewhere: lines from the first access at which that one lies. unasked: line that follows it.
    start, followers: line of the first access, and lines that may follow it.
    moved: lines by which the first access is moved. least: lines of a region.
    forget_more: regions opened beyond twice those that are watched."""

    first_ip: int = 0x2A00
    later_ip: int = 0x3B55
    other_ip: int = 0x35CA
    elsewhere: int = 3
    unasked: int = 13
    start: int = 2
    followers: tuple[int, int] = (7, 12)
    moved: int = 2
    least: int = 8
    forget_more: int = 6


T = Training()


def _training(lab: Lab, follower: int, other: int) -> tuple[Access, ...]:
    """Accesses to the first line and then to `follower`, one page after the other, in turns with others of another
    instruction to the line `other` and then to one that is never asked for: what that recalls is not what was asked."""
    size_, steps = lab.line_size, []
    for page in range(1, lab.params.most_entries, 2):
        steps += [Access(T.start * size_, ip=T.first_ip, page=page), Access(follower * size_, ip=T.later_ip, page=page)]
        page += 1
        steps += [Access(other * size_, ip=T.other_ip, page=page), Access(T.unasked * size_, ip=T.later_ip, page=page)]
    return tuple(steps)


def _question(lab: Lab, follower: int, shift: int = 0, first: int = T.first_ip) -> Question:
    """Whether the training is recalled by the first access, moved, or by another instruction, and not by one of another
    instruction elsewhere, which has neither the same instruction nor the same offset."""
    other = T.start + shift + T.elsewhere
    training = _training(lab, follower, other)
    trained = Visit((Access((T.start + shift) * lab.line_size, ip=first),), training=training)
    control = replace(trained, steps=(Access(other * lab.line_size, ip=T.other_ip),))
    return Question(trained, (follower + shift,), (control,))


def _recalled(lab: Lab, question: Question) -> Answer:
    """Whether the first access recalls its follower. What brings the line at one distance from any access does so from
    elsewhere as well."""
    came = lab.ask(question)
    moved = question.targets[0] + T.elsewhere
    return False if came and lab.brings(question.controls[0], moved) is not False else came


def find_region(lab: Lab) -> Found:
    """Whether there is a region prefetcher; sets what the laboratory does to keep it quiet."""
    asked = (_question(lab, follower) for follower in T.followers)
    found = first_shown((_recalled(lab, question), question, Found()) for question in asked)
    if found.question is not None:
        follower = found.question.targets[0]
        found.active = size(
            lambda pages: lab.brings(_watched(lab, follower, pages), follower),
            lab.params.most_entries,
            lambda pages: lab.plainly(_watched(lab, follower, pages), follower),
        )
        regions = 2 * (found.active or lab.params.most_entries) + T.forget_more
        lab.known.forget = min(regions, LAYOUT.block_pages - 4)
        lab.known.beside = not _remembers_single(lab, found.question)
        found.present, found.seen, found.reason = _of_level_one(lab, found.question), True, LEVEL_HIDDEN
    return found


def _remembers_single(lab: Lab, question: Question) -> bool:
    """Whether the first access alone, in as many pages, makes what followed it right before forgotten."""
    lab.samples(question.visit, question.targets, lab.params.first)
    alone = tuple(access for access in question.visit.training if access.ip == T.first_ip)
    return lab.brings(replace(question.visit, training=alone), question.targets[0]) is False


def _of_level_one(lab: Lab, question: Question) -> Answer:
    """Whether level 1 recalls: lines come to level 1, or by an access that level 2 does not see. That none does says
    nothing where the load that puts the line in level 1 beforehand, alone in its region, is remembered instead. Where
    placing any line makes all forgotten, it is level 1's, as no other level is known to remember single lines."""
    visit, target = question.visit, question.targets[0]
    if lab.in_l1(visit, target) or lab.brings(replace(visit, warm=(T.start,)), target):
        return True
    if lab.known.beside:
        return False
    return True if lab.brings(replace(visit, warm=(lab.page_lines - 1,)), target) is False else None


def _watched(lab: Lab, follower: int, pages: int) -> Visit:
    """So many pages whose footprints are to be recorded at once: all are opened before any is continued; then other
    pages, with other keys, until all of it has been learnt. Then the first access alone."""
    size_, watched = lab.line_size, range(1, pages + 1)
    lines = ((T.start, T.first_ip), (T.unasked, T.later_ip))  # two, as what one line followed may not be remembered
    once = [Access(line * size_, ip=ip, page=page) for page in watched for line, ip in lines]
    once += [Access(follower * size_, ip=T.later_ip, page=page) for page in watched]
    rest = range(pages + 1, LAYOUT.block_pages)
    once += [Access(LAYOUT.unwatch_line * size_, ip=LAYOUT.unwatch_ip, page=page) for page in rest]
    return Visit((Access(T.start * size_, ip=T.first_ip),), training=tuple(once * lab.params.training_rounds))


def report_region(lab: Lab, _huge: Lab | None, found: Found, report: Report) -> None:
    """Ask and report everything of a region prefetcher that is there."""
    follower = T.followers[0]
    report.value("streams", found.active, "regions opened before any is continued", UNCLEAR)
    report.value("region_size", _size(lab), METHOD, UNCLEAR)
    question = _question(lab, follower)
    report_alike(lab, question, 0, report)
    moved = lab.ask(_question(lab, follower, shift=T.moved))
    other = lab.ask(_question(lab, follower, first=T.first_ip ^ ((1 << BITS.distinct) - 1)))
    names = {(True, False): "ip", (False, True): "offset", (False, False): "ip+offset"}
    index = None if moved is None or other is None else names.get((moved, other))
    method = "the first access from another address"
    report.value("indexed_by", index, f"{method}, and elsewhere in the region", UNCLEAR)
    if index is not None and "ip" in index:
        bits = bits_that_matter(T.first_ip, lambda address: lab.ask(_question(lab, follower, first=address)))
        report.value("ip_bits", None if bits is None else list(bits), method, f"{UNCLEAR}; or {FAR_BITS_MATTER}")


def _size(lab: Lab) -> int | None:
    """Bytes of a region: it holds lines up to the next power of two behind the furthest that is recalled. Two lines are
    asked, and the nearer ones too where one is recalled: a footprint that keeps only some has no such size."""
    lines = lab.page_lines
    while lines >= T.least:
        answers = [lab.ask(_question(lab, lines // 2 + behind)) for behind in (3, 1)]
        if None in answers or answers[0] != answers[1]:
            return None
        if answers[0]:
            plain = lines == T.least or lab.ask(_question(lab, lines // 4 + 3))
            return lines * lab.line_size if plain else None
        lines //= 2
    return None
