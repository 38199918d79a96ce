"""By what rules a region prefetcher goes."""

from __future__ import annotations

from dataclasses import replace

from setebench.prefetcher_map.instruction_bits import FAR_BITS_MATTER, bits_that_matter
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.regions import FIRST, Region, alone, lesson, test_visit
from setebench.prefetcher_map.shared import siblings
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Access, Kind, Visit

UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
FOLLOWER = 7


def tell_region(lab: Laboratory, found: Region, told: Told) -> None:
    """Ask and tell everything of a region prefetcher that is there."""
    method = "lessons in other pages, then the first access alone"
    told.value("streams", found.active, "regions opened before any is continued", UNCLEAR)
    told.value("region_size", _size(lab), method, UNCLEAR)
    visit = test_visit(lab, lesson(lab, FOLLOWER))
    told.value(
        "fills",
        lab.level(visit, FOLLOWER),
        "level of the line",
        "its level stays unclear; run again without --fast, at a quieter time",
    )
    told.value("trained_by", _kinds(lab), method, UNCLEAR)
    if (cpus := siblings(lab)) is not None:
        shared = lab.brings_shared(visit, [1], [FOLLOWER], cpus[:2])
        told.value("shared_by_smt", shared, "the first access by another thread of the core", UNCLEAR)
    index = _indexed_by(lab)
    told.value("indexed_by", index, "the first access from another address, and elsewhere in the region", UNCLEAR)
    if index is not None and "ip" in index:
        bits = bits_that_matter(FIRST, lambda address: _recalled(lab, FOLLOWER, first=address))
        method = "the first access from another address"
        told.value("ip_bits", None if bits is None else list(bits), method, f"{UNCLEAR}; or {FAR_BITS_MATTER}")


def _recalled(lab: Laboratory, follower: int, shift: int = 0, first: int = FIRST, how: Kind = "load") -> bool | None:
    """Whether the lesson of `follower` works with the first access moved, by another instruction or of another kind;
    what comes without the lesson does not count."""
    target = follower + shift
    visits = [test_visit(lab, taught, first, 2 + shift) for taught in (lesson(lab, follower, how), alone(lab, how))]
    if how != "load":
        visits = [Visit(tuple(_as(each, how)), lessons=each.lessons) for each in visits]
    taught, control = (lab.brings(each, target) for each in visits)
    if taught and control is not False:
        return None
    return taught


def _as(visit: Visit, how: Kind) -> list[Access]:
    return [replace(access, how=how) for access in visit.steps]


def _size(lab: Laboratory) -> int | None:
    """Bytes of a region: it holds lines up to the next power of two behind the furthest that is recalled."""
    lines, smallest = lab.page_lines, 8
    while lines >= smallest:
        # two lines, and the nearer ones too where one is recalled: a footprint that keeps only some has no such size
        told = [_recalled(lab, follower) for follower in (lines // 2 + 3, lines // 2 + 1)]
        if None in told or told[0] != told[1]:
            return None
        if told[0]:
            return lines * lab.line_size if lines == smallest or _recalled(lab, lines // 4 + 3) else None
        lines //= 2
    return None


def _kinds(lab: Laboratory) -> list[str] | None:
    found = []
    asked: tuple[tuple[str, Kind], ...] = (("load", "load"), ("store", "store"), ("prefetch", "t0"))
    for name, kind in asked:
        if kind == "t0" and "t0" not in lab.context.machine.facts.prefetch_hints:
            return None
        told = _recalled(lab, FOLLOWER, how=kind)
        if told is None:
            return None
        if told:
            found.append(name)
    return found


def _indexed_by(lab: Laboratory) -> str | None:
    moved = _recalled(lab, FOLLOWER, shift=2)
    other = _recalled(lab, FOLLOWER, first=FIRST ^ 0x3F)
    names = {(True, False): "ip", (False, True): "offset", (False, False): "ip+offset"}
    return None if moved is None or other is None else names.get((moved, other))
