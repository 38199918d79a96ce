"""Hardware prefetchers of random machines."""

from __future__ import annotations

from typing import Any

from setebench.sim import spec
from setebench.sim.random.ranges import RANGES, Draw
from setebench.sim.spec.fields import PREFETCHERS, kind_of

TABLES: dict[str, Any] = {str(kind_of(table)): table for table in PREFETCHERS}
TABLES |= {"spatial": spec.Region, "feedback_stream": spec.Streamer}
NEIGHBOURS = ("next_line", "pair", "up_down")
ALIGNED = ("pair", "region", "spatial")
"""Kinds that stay in an aligned block of lines."""


def random_prefetchers(draw: Draw, machine: spec.Machine) -> tuple[Any, ...]:
    """The prefetchers of a random machine: those that findings have names for, each drawn on its own; at some levels
    one of another kind instead."""
    found = []
    for level in (1, 2):
        kinds = [kind for kind, share in RANGES[f"l{level}_present"].items() if draw.value(share)]
        if draw("published"):
            new = draw(f"l{level}_published")
            stays = draw("beside") and new != "stream_buffer"  # which may be a next-line prefetcher itself
            kinds = [*(kind for kind in kinds if stays and kind in NEIGHBOURS), new]
        found += [_prefetcher(draw, machine, kind, level) for kind in kinds]
    return tuple(found)


def _prefetcher(draw: Draw, machine: spec.Machine, kind: str, level: int) -> Any:
    fields: dict[str, Any] = {**draw.fields(kind), **_common(draw, machine, kind, level)}
    if kind == "stream":
        fields |= _stream(draw, fields, level)
    elif kind == "stride":
        fields["degree"] = min(fields["max_distance"], fields["degree"])
        fields["indexed_by"] = fields["indexed_by"] if level == 1 else "page"
    elif kind == "next_line" and level == 2:
        fields |= {"trigger": 1, "only_misses": True}
    elif kind == "lead":  # whatever the distance between two accesses of a run
        fields |= dict.fromkeys(("leads_by_twos", "leads_beyond"), fields["leads"])
        fields["nearest"] = min(fields["nearest"], max(fields["leads"]))
    if "region_size_bytes" in fields:
        fields["region_size_bytes"] = min(fields["region_size_bytes"], 64 * machine.line_size_bytes)
    return TABLES[kind](**fields)


def _common(draw: Draw, machine: spec.Machine, kind: str, level: int) -> dict[str, Any]:
    """What all kinds have. Level 2 sees physical addresses, so it can't be seen to cross into a page that isn't
    physically the next one."""
    huge = 2097152 in machine.memory.page_sizes and (level == 1 or not machine.memory.huge_pages_splintered)
    small = kind not in ALIGNED and level == 1 and draw("crosses_4k")
    large = kind not in ALIGNED and huge and draw("crosses_2m")
    further = kind != "stream_buffer" and draw("fills_further") and level < len(machine.levels)
    trained = draw("trained_by")
    return {
        "level": level,
        "fills": f"l{level + further}" if level == 2 or kind in ("stride", "stream", "region", "lead") else f"l{level}",
        "trained_by": (*trained, "l1_prefetcher") if level == 2 and draw("trained_by_l1_prefetcher") else trained,
        "crosses_4k": small,
        "crosses_4k_in_2m": large or small,
        "shared_by_smt": machine.core.threads_per_core == 1 or draw("shared_by_smt"),
        "when_full": "stalls" if draw("stalls") else "drops",
    }


def _stream(draw: Draw, fields: dict[str, Any], level: int) -> dict[str, Any]:
    trigger = draw("stream_late_trigger") if draw("stream_late") else fields["trigger"]
    run = level == 1 or not draw("stream_any_order")
    both, edges = fields["directions"] == "both", (1, min(2, trigger), min(2, trigger), 1)
    ramp = RANGES["stream_ramps"].get(fields["degree"], ()) if draw("stream_ramp") else ()
    one = draw("stream_by_l1_prefetcher") and run and "l1_prefetcher" in fields["trained_by"]
    return {
        "trigger": trigger,
        "counts": "run" if run else "distinct",
        "trigger_at_page_edge": edges if run and both and draw("stream_edges") else (),
        "trigger_by_l1_prefetcher": int(one),
        "ramp": ramp if run else (),
        "streams_per_page": draw("stream_per_page") if both and run else 1,
        "leads_by": fields["leads_by"] if run else "batch",
    }
