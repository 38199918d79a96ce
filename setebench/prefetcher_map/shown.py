"""What was found, and the smallest question by which each prefetcher shows, to be asked again with switches off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from setebench.prefetcher_map import dense, page_strides
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import MOST_REPEATED, Neighbours, downwards, even_line, odd_line, repeated
from setebench.prefetcher_map.regions import Region, lesson, test_visit
from setebench.prefetcher_map.stream_rules import Rules
from setebench.prefetcher_map.streams import Stream, ahead
from setebench.prefetcher_map.strides import SAME, STRIDE, Stride, run_lines, visit_of
from setebench.prefetcher_map.visit import Visit

FOLLOWERS = (7, 12)
"""Lines of the lessons by which region prefetchers are found."""


@dataclass(frozen=True)
class Found:
    """What there is, before its rules are asked for; `unsure` says why nothing is told absent, if so."""

    region: Region
    near: Neighbours
    l1_stride: Stride
    l2_stride: Stride
    l1_stream: Stream
    l2_stream: Stream
    unsure: str = ""


@dataclass(frozen=True)
class Shown:
    """A prefetcher's identity, and visits with a line each, of which one at least is brought while it works. `inner`:
    the line comes to level 1, and in the levels behind it others may bring it as well."""

    identity: str
    asked: tuple[tuple[Visit, int], ...]
    inner: bool = False

    def shows(self, lab: Laboratory) -> bool | None:
        """Whether the prefetcher works, as far as this tells."""
        told: list[bool | None] = []
        for visit, target in self.asked:
            told.append((lab.in_l1 if self.inner else lab.brings)(visit, target))
            if told[-1]:
                return True
        return None if None in told else False


def all_shown(lab: Laboratory, found: Found) -> list[Shown]:
    """The question of every prefetcher that was found."""
    return [*_neighbours(lab, found), *_strides(lab, found), *_streams(lab, found), *_region(lab, found)]


def _neighbours(lab: Laboratory, found: Found) -> Iterator[Shown]:
    near, odd, even = found.near, odd_line(lab), even_line(lab)
    if near.next_line:
        visit = repeated(lab, near.next_trigger or MOST_REPEATED, near.flushed)
        yield Shown("l1.next_line", ((visit, odd + 1),), inner=True)
    if near.pair:
        yield Shown("l2.pair", ((repeated(lab, 1, False), odd - 1),))
    if near.l2_next_line:
        yield Shown("l2.next_line", ((downwards(lab, odd), odd + 1),))
    if near.up_down:
        yield Shown("l2.up_down", ((downwards(lab, even), even - 1),))


def _strides(lab: Laboratory, found: Found) -> Iterator[Shown]:
    if found.l1_stride.present:
        lines = run_lines(lab, found.l1_stride.stride, found.l1_stride.down)
        visit, target = visit_of(lab, lines, SAME, found.l1_stride.warm), 2 * lines[-1] - lines[-2]
        yield Shown("l1.stride", ((visit, target),), inner=lab.in_l1(visit, target) is True)
    if found.l2_stride.present:
        run = page_strides.Run(lab, run_lines(lab, STRIDE, found.l2_stride.down), lab.page_lines)
        yield Shown("l2.stride", ((run.visit(run.lines), run.ahead[0]),))


def _streams(lab: Laboratory, found: Found) -> Iterator[Shown]:
    for identity, stream in (("l1.stream", found.l1_stream), ("l2.stream", found.l2_stream)):
        if stream.present and stream.dense:
            yield _dense(lab, identity, stream)
        elif stream.present and stream.trigger is not None:
            visit, targets = Rules(lab, stream, identity == "l1.stream").training_visit()
            here = [target for target in targets if lab.brings(visit, target)]
            inner = identity == "l1.stream" and bool(here) and lab.in_l1(visit, here[0]) is True
            yield Shown(identity, tuple((visit, target) for target in here), inner)


def _dense(lab: Laboratory, identity: str, stream: Stream) -> Shown:
    lines = dense.uneven(lab, dense.LONGEST, stream.down)
    visit = dense.visit_of(lab, lines)
    targets = ahead(lines, dense.NEAREST, dense.FURTHEST, stream.down)
    return Shown(identity, tuple((visit, target) for target in targets if lab.in_l1(visit, target)), inner=True)


def _region(lab: Laboratory, found: Found) -> Iterator[Shown]:
    if found.region.present:
        asked = ((test_visit(lab, lesson(lab, follower)), follower) for follower in FOLLOWERS)
        yield Shown("l1.region", tuple(asked))
