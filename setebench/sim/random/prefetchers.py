"""Hardware prefetchers of random machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.random.ranges import Draw


def random_prefetchers(draw: Draw, core: spec.Core, memory: spec.Memory) -> tuple[Any, ...]:
    """The prefetchers of a random machine: each kind is drawn on its own, so every combination comes up."""
    makers: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("next_line.present", lambda: _next_line(draw)),
        ("l1_stream.present", lambda: _streamer(draw, 1)),
        ("stride.present", lambda: _stride(draw, 1)),
        ("region.present", lambda: _region(draw)),
        ("pair.present", lambda: spec.LinePair(level=2, trained_by=_trained_by(draw, 2))),
        ("l2_next_line.present", lambda: spec.NextLine(level=2, only_misses=True, trained_by=_trained_by(draw, 2))),
        ("l2_stride.present", lambda: _stride(draw, 2)),
        ("up_down.present", lambda: spec.UpDown(level=2, trained_by=_trained_by(draw, 2))),
        ("l2_stream.present", lambda: _streamer(draw, 2)),
    )
    drawn = [make() for share, make in makers if draw.chance(share)]
    return tuple(_placed(draw, prefetcher, core, memory) for prefetcher in drawn)


def _placed(draw: Draw, prefetcher: Any, core: spec.Core, memory: spec.Memory) -> Any:
    """The prefetcher with what depends on pages and threads: level 2 sees physical addresses, so it can't be seen to
    cross into a page that isn't physically the next one; small pages are crossed by virtual stride prefetchers only."""
    huge = 2097152 in memory.page_sizes and (prefetcher.level == 1 or memory.huge_pages_contiguous)
    follows_runs = isinstance(prefetcher, spec.Streamer | spec.Stride)
    crosses = follows_runs and huge and draw.chance("crosses.2m")
    small = isinstance(prefetcher, spec.Stride) and prefetcher.level == 1 and draw.chance("crosses.4k")
    return msgspec.structs.replace(
        prefetcher,
        crosses_4k=small,
        crosses_4k_in_2m=crosses or small,
        shared_by_smt=core.threads_per_core == 1 or draw.chance("shared_by_smt"),
        when_full="stalls" if draw.chance("prefetcher.stalls") else "drops",
    )


def _trained_by(draw: Draw, level: int) -> tuple[Any, ...]:
    usual: tuple[Any, ...] = draw.one("trained_by")
    return (*usual, "l1_prefetcher") if level == 2 and draw.chance("trained_by_l1_prefetcher") else usual


def _next_line(draw: Draw) -> spec.NextLine:
    return spec.NextLine(
        level=1,
        fills="l1",
        trained_by=_trained_by(draw, 1),
        trigger=draw.one("next_line.trigger"),
        only_misses=draw.chance("next_line.only_misses"),
        streams=draw.one("next_line.streams"),
    )


def _streamer(draw: Draw, level: Any) -> spec.Streamer:
    trigger, degree = draw.one("stream.trigger"), draw.one("stream.degree")
    if draw.chance("stream.late"):
        trigger = draw.one("stream.late_trigger")
    counts: Any = "distinct" if level == 2 and draw.chance("stream.any_order") else "run"
    trained_by = _trained_by(draw, level)
    directions = draw.one("stream.directions")
    edges = (1, min(2, trigger), min(2, trigger), 1) if draw.chance("stream.at_page_edge") else ()
    return spec.Streamer(
        level=level,
        counts=counts,
        fills=draw.one("stream.l1_fills") if level == 1 else "l2",
        trained_by=trained_by,
        trigger=trigger,
        trigger_at_page_edge=edges if directions == "both" and counts == "run" else (),
        trigger_by_l1_prefetcher=int(
            "l1_prefetcher" in trained_by and counts == "run" and draw.chance("stream.by_l1_prefetcher")
        ),
        degree=degree,
        ramp=draw.one("stream.ramp") if degree == 4 else (),
        max_distance=draw.one("stream.max_distance"),
        directions=directions,
        streams=draw.one("stream.streams"),
        streams_per_page=draw.one("stream.streams_per_page") if directions == "both" else 1,
    )


def _stride(draw: Draw, level: Any) -> spec.Stride:
    furthest = draw.one("stride.max_distance")
    fills: Any = f"l{level}"
    return spec.Stride(
        level=level,
        fills=fills,
        trained_by=_trained_by(draw, level),
        trigger=draw.one("stride.trigger"),
        degree=min(furthest, draw.one("stride.degree")),
        max_distance=furthest,
        min_stride_bytes=draw.one("stride.min_stride"),
        max_stride_bytes=draw.one("stride.max_stride"),
        directions=draw.one("stream.directions"),
        entries=draw.one("stride.entries"),
        indexed_by=draw.one("stride.indexed_by") if level == 1 else "page",
        ip_bits=draw.one("stride.ip_bits"),
    )


def _region(draw: Draw) -> spec.Region:
    return spec.Region(
        level=1,
        fills=draw.one("region.fills"),
        trained_by=_trained_by(draw, 1),
        region_size_bytes=draw.one("region.size"),
        trigger=draw.one("region.trigger"),
        active_regions=draw.one("region.active"),
        entries=draw.one("region.entries"),
        indexed_by=draw.one("region.indexed_by"),
        ip_bits=draw.one("stride.ip_bits"),
    )
