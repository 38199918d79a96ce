"""Prefetchers of random machines beyond those that scenarios have families for.

Half of the machines keep what `random_prefetchers.py` drew: nobody knows how prefetchers of real CPUs divide between
families and others, so neither is given more weight. The other half has, at each level on its own, what was drawn
before, or one kind of these lists, every kind with the same weight; so named and other prefetchers run beside each
other. The generator is one of its own, so that all else of a seed's machine is what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random.ranges import Draw
from setebench.sim.truth.families import identity_of

PUBLISHED: dict[str, tuple[Any, ...]] = {
    "machines": (0.5,),  # share of machines whose prefetchers are drawn anew
    "level.kept": (0.25,),  # share of their levels that keep what they have
    "level.beside": (0.35,),  # share of the others whose named neighbour-line prefetcher stays beside the new kind
    "trained_by": (("load",), ("load", "store"), ("load", "store", "prefetch")),
    "stalls": (0.2,),  # share that waits for a miss entry rather than drop, as of the named ones
    "shared_by_smt": (0.8,),
    "crosses.2m": (0.3,),  # share that goes on past 4 KiB inside a 2 MiB page
    "crosses.4k": (0.15,),  # share at level 1 that goes on past 4 KiB anywhere
    "fills.l1": ("l1", "l1", "l2"),
    # next lines: the degrees that the literature compares with
    "next_line.degree": (2, 3, 4),
    "next_line.only_misses": (0.3,),
    # streamers: distances of the Intel manual (20) and around it, degrees to the 3 of a recent server core
    "stream.trigger": (2, 3, 4),
    "stream.degree": (1, 1, 2, 3),
    "stream.max_distance": (6, 9, 12, 20, 24),
    "stream.leads_by": ("new_line", "new_line", "access"),
    "stream.ramps": (0.4,),  # share with a degree of 3 that go from one line per access to three
    "stream.directions": ("both", "both", "up"),
    "stream.streams": (8, 16, 32, 64),
    # stream buffers: Jouppi's four entries and four ways, Palacharla and Kessler's ten buffers, and around
    "buffer.buffers": (1, 4, 8, 10),
    "buffer.depth": (2, 4, 8),
    "buffer.head_only": (0.6,),
    "buffer.filter": (0.5,),
    # best offset: the paper's scores and table; offsets within a page; prefetches a few accesses under way
    "offset.max_offset": (8, 16, 32, 63),
    "offset.round_max": (50, 100),
    "offset.recent_entries": (64, 128, 256),
    "offset.arrives_after": (0, 2, 4, 7),
    # spatial patterns: the 2 KiB of both papers and around, tables small enough for a probe to fill
    "spatial.region_lines": (16, 32, 32, 64),
    "spatial.active": (8, 16, 32),
    "spatial.entries": (64, 128, 256),
    "spatial.vote": (20, 50),
    "spatial.ip_bits": (10, 12, 16),
    # reference prediction: the paper's 512 entries and smaller ones, looking ahead as its second scheme does
    "prediction.entries": (64, 256, 512),
    "prediction.lookahead": (1, 2, 4, 8),
    "prediction.starts": ("transient", "steady"),
    # feedback: the paper's thresholds; intervals that a training run can fill
    "feedback.streams": (16, 32, 64),
    "feedback.start_level": (1, 2, 3),
    "feedback.interval": (64, 128, 512),
    # instruction classes: the paper's 64 entries, 8 regions, degrees 6 and 3
    "classes.instructions": (64, 128),
    "classes.stream_degree": (4, 6),
    "classes.stride_degree": (2, 3, 4),
    "classes.complex_degree": (0, 2, 3),
    # tables: what runs up or down show of prefetchers that learn distances, maps or paths
    "table.trigger": (2, 3, 4, 8),
    "table.lines": (((1,),), ((1, 2),), ((2,), (2, 4)), ((1,), (1, 2), (1, 2, 3)), ((1, 2, 3, 4),), ((3,),)),
    "table.pages": (16, 32, 64),
}

STREAM = 0x200
"""Of the seed's random numbers, which stream these are drawn from."""


def with_published(seed: int, machine: spec.Machine) -> spec.Machine:
    """The machine of `seed`, half of them with other prefetchers."""
    draw = Draw(seed, STREAM, ranges=PUBLISHED)
    if not draw.chance("machines"):
        return machine
    levels = (_level_one(draw, machine), _level_two(draw, machine))
    return msgspec.structs.replace(machine, prefetchers=tuple(each for level in levels for each in level))


Maker = Callable[[], Any]


def _level_one(draw: Draw, machine: spec.Machine) -> tuple[Any, ...]:
    common = {"level": 1, "fills": draw.one("fills.l1"), "trained_by": draw.one("trained_by")}
    makers: tuple[Maker, ...] = (
        lambda: _next_line(draw, common),
        lambda: spec.LinePair(**common),
        lambda: _streamer(draw, common),
        lambda: _spatial(draw, common, machine),
        lambda: spec.ReferencePrediction(**common, **draw.fields("prediction")),
        lambda: spec.LineTable(**common, **draw.fields("table")),
        lambda: spec.InstructionClasses(**common, **draw.fields("classes")),
        lambda: spec.LineTable(**common, **draw.fields("table")),
        # it waits for misses: filling level 2 it would be one of that level to everybody
        lambda: _stream_buffer(draw, {**common, "fills": "l1"}),
    )
    return _at_level(draw, machine, 1, makers)


def _level_two(draw: Draw, machine: spec.Machine) -> tuple[Any, ...]:
    common = {"level": 2, "fills": "l2", "trained_by": draw.one("trained_by")}
    makers: tuple[Maker, ...] = (
        lambda: _next_line(draw, common),
        lambda: _streamer(draw, common),
        lambda: _streamer(draw, common),  # the kind that real second levels have most often
        lambda: _stream_buffer(draw, common),
        lambda: spec.BestOffset(**common, **draw.fields("offset")),
        lambda: spec.LineTable(**common, **draw.fields("table")),
        lambda: spec.FeedbackStream(**common, **draw.fields("feedback")),
        lambda: spec.LineTable(**common, **draw.fields("table")),
        lambda: _spatial(draw, common, machine),
    )
    return _at_level(draw, machine, 2, makers)


def _at_level(draw: Draw, machine: spec.Machine, level: int, makers: tuple[Maker, ...]) -> tuple[Any, ...]:
    """What the level had, or one new kind, beside neighbour lines that it had now and then."""
    had = tuple(each for each in machine.prefetchers if each.level == level)
    if draw.chance("level.kept"):
        return had
    new = _placed(draw, draw.of(makers)(), machine)
    if not draw.chance("level.beside"):
        return (new,)
    neighbours = tuple(each for each in had if isinstance(each, spec.NextLine | spec.LinePair))
    return (*(each for each in neighbours if identity_of(each) != identity_of(new)), new)


def _placed(draw: Draw, prefetcher: Any, machine: spec.Machine) -> Any:
    """The prefetcher with what depends on pages and threads, by the rules of `random_prefetchers.py`."""
    pages = machine.memory
    huge = 2097152 in pages.page_sizes and (prefetcher.level == 1 or pages.huge_pages_contiguous)
    follows = not isinstance(prefetcher, spec.NextLine | spec.LinePair | spec.SpatialPattern)
    crosses = follows and huge and draw.chance("crosses.2m")
    small = follows and prefetcher.level == 1 and draw.chance("crosses.4k")
    return msgspec.structs.replace(
        prefetcher,
        crosses_4k=small,
        crosses_4k_in_2m=crosses or small,
        shared_by_smt=machine.core.threads_per_core == 1 or draw.chance("shared_by_smt"),
        when_full="stalls" if draw.chance("stalls") else "drops",
    )


Common = dict[str, Any]


def _next_line(draw: Draw, common: Common) -> spec.NextLine:
    degree, only_misses = draw.one("next_line.degree"), draw.chance("next_line.only_misses")
    return spec.NextLine(**common, degree=degree, only_misses=only_misses)


def _streamer(draw: Draw, common: Common) -> spec.Streamer:
    degree, directions = draw.one("stream.degree"), draw.one("stream.directions")
    return spec.Streamer(
        **common,
        trigger=draw.one("stream.trigger"),
        degree=degree,
        ramp=(1, 2) if degree == 3 and draw.chance("stream.ramps") else (),
        max_distance=draw.one("stream.max_distance"),
        leads_by=draw.one("stream.leads_by"),
        directions=directions,
        streams=draw.one("stream.streams"),
    )


def _stream_buffer(draw: Draw, common: Common) -> spec.StreamBuffer:
    return spec.StreamBuffer(
        **common,
        buffers=draw.one("buffer.buffers"),
        depth=draw.one("buffer.depth"),
        head_only=draw.chance("buffer.head_only"),
        filter=draw.chance("buffer.filter"),
    )


def _spatial(draw: Draw, common: Common, machine: spec.Machine) -> spec.SpatialPattern:
    return spec.SpatialPattern(
        **common,
        region_size_bytes=min(draw.one("spatial.region_lines") * machine.line_size_bytes, 4096),
        active_regions=draw.one("spatial.active"),
        entries=draw.one("spatial.entries"),
        vote_percent=draw.one("spatial.vote"),
        ip_bits=draw.one("spatial.ip_bits"),
    )
