"""Stride prefetchers: equal distances between accesses of one instruction (level 1) or of one page (level 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.visit import Access, Visit

SAME = 0x152B
"""An instruction address that accesses share, unlike those of other accesses of a visit in its low six bits."""

START, COUNT, STRIDE = 3, 8, 7
"""Lines of the usual run: from line 3, eight accesses seven lines apart, further than batches of streams reach."""


@dataclass
class Stride:
    """What was found of one stride prefetcher. `warm`: it learns from hits of level 1 too, which nothing else hears."""

    present: bool | None = None
    warm: bool = False
    indexed: str | None = None
    stride: int = STRIDE
    down: bool = False
    reason: str = ""


def run_lines(lab: Laboratory, stride: int, down: bool, count: int = COUNT) -> list[int]:
    """Lines of a run, upwards or downwards."""
    lines = [START + stride * number for number in range(count)]
    return [lab.page_lines - 1 - line for line in lines] if down else lines


def visit_of(lab: Laboratory, lines: list[int], ip: int | None, warm: bool) -> Visit:
    """Accesses to these lines, all of one instruction or of one each; `warm`: all hit level 1."""
    steps = tuple(Access(line * lab.line_size, ip=ip) for line in lines)
    return Visit(steps, warm=tuple(sorted(lines)) if warm else ())


def find_l1_stride(lab: Laboratory) -> Stride:
    """Equal distances of one instruction against the same from as many instructions."""
    found = Stride()
    told: list[bool | None] = []
    for stride, down, warm in ((STRIDE, False, True), (STRIDE, False, False), (3, False, True), (STRIDE, True, True)):
        lines = run_lines(lab, stride, down)
        target = lines[-1] + (lines[-1] - lines[-2])
        told.append(_by_instruction(lab, lines, target, warm))
        if told[-1]:
            found.present, found.warm, found.stride, found.down = True, warm, stride, down
            return found
    found.present = None if None in told else False
    return found


def fences_hide_stride(lab: Laboratory) -> bool:
    """Whether equal distances of one instruction are led where no fence stands between the accesses."""
    lines = run_lines(lab, STRIDE, False)
    return _by_instruction(lab, lines, lines[-1] + STRIDE, False, chained=True) is True


def _by_instruction(lab: Laboratory, lines: list[int], target: int, warm: bool, chained: bool = False) -> bool | None:
    same = replace(visit_of(lab, lines, SAME, warm), chained=chained)
    brought = lab.brings(same, target)
    if not brought:
        return brought
    fresh = replace(visit_of(lab, lines, None, warm), chained=chained)
    anyway = lab.brings(fresh, target)
    if anyway:  # something else brings it as well, perhaps to another level
        inner, otherwise = lab.in_l1(same, target), lab.in_l1(fresh, target)
        return None if inner is None or otherwise is None else inner and not otherwise
    return None if anyway is None else True


def page_kept_warm(lab: Laboratory, steps: list[int], targets: list[int]) -> tuple[int, ...]:
    """All lines of the page but these: in level 1 already, they silence whatever asks for them."""
    apart = {*steps, *targets}
    return tuple(line for line in range(lab.page_lines) if line not in apart)
