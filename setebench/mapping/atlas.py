"""The order of questions, and which behaviour is told of which prefetcher."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.errors import UnsupportedError
from setebench.mapping.laboratory import Laboratory
from setebench.mapping.neighbour_rules import tell_level_two, tell_next_line, tell_pair
from setebench.mapping.neighbours import Neighbours, find_neighbours
from setebench.mapping.region_rules import tell_region
from setebench.mapping.regions import Region, find_region
from setebench.mapping.stream_rules import tell_stream
from setebench.mapping.streams import Stream, find_l1_stream, find_l2_stream, leads_anyway
from setebench.mapping.stride_rules import tell_stride
from setebench.mapping.strides import Stride, find_l1_stride, find_l2_stride
from setebench.mapping.tell import Told
from setebench.results import Finding

HUGE_BYTES, HUGE_REGION_BYTES = 2 << 20, 32 << 20
UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
HIDDEN = "a next-line prefetcher of level 1 brings the same line on every access"


def survey(lab: Laboratory) -> Iterator[Finding]:
    """Ask everything, region prefetchers first: what they remember of former visits must not disturb the rest."""
    tell = lab.context.progress
    tell("region prefetchers")
    region = find_region(lab)
    tell("neighbouring lines")
    near = find_neighbours(lab)
    lab.next_in_l1 = near.next_line is not False and near.next_trigger in (None, 1)
    tell("strides")
    strides = {"l1.stride": find_l1_stride(lab), "l2.stride": find_l2_stride(lab)}
    tell("streams")
    streams = {"l1.stream": find_l1_stream(lab), "l2.stream": find_l2_stream(lab)}

    _doubt(lab, list(streams.values()), strides["l2.stride"])

    outer = (near.pair, near.l2_next_line, near.up_down, strides["l2.stride"].present, streams["l2.stream"].present)
    lab.level_two_listens = any(told is not False for told in outer)
    lab.inner_streams = streams["l1.stream"].present is not False
    lab.outer_neighbours = near.l2_next_line is not False or near.up_down is not False
    lab.outer_streams = streams["l2.stream"].present is not False
    huge = _huge_pages(lab)
    for told in _tell_level_one(lab, huge, region, near, strides["l1.stride"], streams["l1.stream"]):
        yield from told
    for told in _tell_level_two(lab, huge, near, strides["l2.stride"], streams["l2.stream"]):
        yield from told


def _doubt(lab: Laboratory, streams: list[Stream], stride: Stride) -> None:
    """Open the absence of streams again where a plain run is led by nothing that was found: the runs with gaps, which
    other prefetchers are kept out of, may be none to the one at work."""
    explained = stride.present or any(stream.present for stream in streams)
    if not explained and leads_anyway(lab):
        for stream in streams:
            if stream.present is False:
                stream.present, stream.reason = None, "neighbouring lines are led on by nothing that was found"


def _tell_level_one(
    lab: Laboratory, huge: Laboratory | None, region: Region, near: Neighbours, stride: Stride, stream: Stream
) -> Iterator[Told]:
    tell = lab.context.progress
    tell("level 1: next line")
    told = Told("l1.next_line")
    if told.present(near.next_line, "the next line in level 1 after repeated accesses to one line", UNCLEAR):
        tell_next_line(lab, huge, near, told)
    yield told
    tell("level 1: streams")
    told = Told("l1.stream")
    if told.present(stream.present, "lines ahead of a run that level 2 holds", stream.reason or UNCLEAR):
        tell_stream(lab, huge, stream, True, told)
    yield told
    tell("level 1: strides")
    told = Told("l1.stride")
    if told.present(stride.present, "equal distances of one instruction, against as many", UNCLEAR):
        tell_stride(lab, huge, stride, True, told)
    yield told
    tell("level 1: regions")
    told = Told("l1.region")
    if told.present(region.present, "lines that followed a first access in other pages", UNCLEAR):
        tell_region(lab, region, told)
    yield told


def _tell_level_two(
    lab: Laboratory, huge: Laboratory | None, near: Neighbours, stride: Stride, stream: Stream
) -> Iterator[Told]:
    tell = lab.context.progress
    tell("level 2: neighbouring lines")
    told = Told("l2.pair")
    if told.present(near.pair, "the line before an odd one after one access", UNCLEAR):
        tell_pair(lab, told)
    yield told
    told = Told("l2.next_line")
    if told.present(near.l2_next_line, "the next line after one access", HIDDEN):
        tell_level_two(lab, huge, False, told)
    yield told
    if near.up_down:
        told = Told("l2.up_down")
        told.present(True, "the neighbouring line on the side to which the page's accesses went", UNCLEAR)
        tell_level_two(lab, huge, True, told)
        yield told
    tell("level 2: streams")
    told = Told("l2.stream")
    if told.present(stream.present, "lines ahead of a run of misses", stream.reason or UNCLEAR):
        tell_stream(lab, huge, stream, False, told)
    yield told
    tell("level 2: strides")
    told = Told("l2.stride")
    if told.present(stride.present, "equal distances in a page, against uneven ones", UNCLEAR):
        tell_stride(lab, huge, stride, False, told)
    yield told


def _huge_pages(lab: Laboratory) -> Laboratory | None:
    """The same laboratory in 2 MiB pages, where they are to be had."""
    machine = lab.context.machine
    if HUGE_BYTES not in machine.facts.page_sizes:
        return None
    try:
        region = machine.allocate(HUGE_REGION_BYTES, HUGE_BYTES)
    except UnsupportedError as error:
        lab.context.progress(f"no 2 MiB pages: {error}")
        return None
    huge = Laboratory(lab.context, region, lab.references)
    huge.level_two_listens = lab.level_two_listens
    huge.inner_streams = lab.inner_streams
    huge.forget, huge.next_in_l1 = lab.forget, lab.next_in_l1
    return huge
