"""The order of questions, and which behaviour is told of which prefetcher."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.mapping.laboratory import Laboratory
from setebench.mapping.neighbours import find_neighbours
from setebench.mapping.regions import find_region
from setebench.mapping.streams import find_l1_stream, find_l2_stream
from setebench.mapping.strides import find_l1_stride, find_l2_stride
from setebench.mapping.tell import Told
from setebench.results import Finding

UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
HIDDEN = "a next-line prefetcher of level 1 brings the same line on every access"


def survey(lab: Laboratory) -> Iterator[Finding]:
    """Ask everything, region prefetchers first: what they remember of former visits must not disturb the rest."""
    tell = lab.context.progress
    tell("region prefetchers")
    region = find_region(lab)
    tell("neighbouring lines")
    near = find_neighbours(lab)
    tell("strides")
    strides = {"l1.stride": find_l1_stride(lab), "l2.stride": find_l2_stride(lab)}
    tell("streams")
    streams = {"l1.stream": find_l1_stream(lab), "l2.stream": find_l2_stream(lab)}

    told = Told("l1.next_line")
    told.present(near.next_line, "the next line in level 1 after repeated accesses to one line", UNCLEAR)
    yield from told
    told = Told("l1.stream")
    told.present(streams["l1.stream"].present, "lines ahead of a run that level 2 holds", UNCLEAR)
    yield from told
    told = Told("l1.stride")
    told.present(strides["l1.stride"].present, "equal distances of one instruction, against as many", UNCLEAR)
    yield from told
    told = Told("l1.region")
    told.present(region.present, "lines that followed a first access in other pages", UNCLEAR)
    yield from told
    told = Told("l2.pair")
    told.present(near.pair, "the line before an odd one after one access", UNCLEAR)
    yield from told
    told = Told("l2.next_line")
    told.present(near.l2_next_line, "the next line after one access", HIDDEN)
    yield from told
    told = Told("l2.stream")
    told.present(streams["l2.stream"].present, "lines ahead of a run of misses", UNCLEAR)
    yield from told
    told = Told("l2.stride")
    told.present(strides["l2.stride"].present, "equal distances in a page, against uneven ones", UNCLEAR)
    yield from told
    if near.up_down:
        told = Told("l2.up_down")
        told.present(True, "the neighbouring line on the side to which the page's accesses went", UNCLEAR)
        yield from told
