"""The first data cache: size, ways and index, from how many lines at a constant stride stay in it.

Lines at a stride of a way's bytes, or a multiple, share a set, so as many of them stay as the cache has ways; at
smaller strides they spread over more sets. A cyclic chase over too many lines costs more per load than a chase over
lines of the same pages in different sets; both need the same translations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from setebench.experiments.chases import ChaseParams, chase_cycles
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.decide import at_least, chosen, unresolved
from setebench.stats.rounds import RATE, commonest

METHOD = "lines at a stride that stay, against lines of the same pages in other sets"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which strides are measured, and which costs and counts are accepted."""

    least_stride: int = 512  # bytes; smaller ones fill whole sets with many lines
    most_stride: int = 128 << 10  # bytes; several strides of a way and more have to agree
    region_bytes: int = 16 << 20  # memory for the longest chases, in the largest pages: set bits are page offsets
    most_lines: int = 128  # lines of a chase: 8 times 16 ways
    outgrown: float = 0.08  # least extra cost of a load, in misses: 17 lines in 16 ways, replaced at random, have 0.12
    least_cycles: float = 0.3  # the same in cycles per load: chases differ by less in any case
    tries: int = 2  # chases that must all cost more, as a disturbance only adds cycles
    most_ways: int = 32  # if more lines stay at every stride, the set isn't chosen by address bits
    fewest: float = 0.6  # least count, relative to what a linear index lets stay: co-runners take some in all rounds
    largest: float = 1.15  # largest count, relative to the same: one line too many of many sets costs little
    unlike: int = 1  # strides above a way's bytes at which more lines may stay: co-runners only take room
    agree: float = 0.5  # share of counts, at strides of a way and more, that must be the ways; else these are a bound


PARAMS = Params()
CHASE = ChaseParams(steps=256, samples=16)  # the bracket's bias of 0.02 cycles a load is far below `least_cycles`


class StrideRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round. For each of the `strides` (bytes), `lines` is the number of lines that stayed in the first cache, or
    the largest number tried if all of them stayed. Both have shape (strides,)."""

    strides: tuple[int, ...]
    lines: tuple[int, ...]


def measure_strides(context: Context, earlier: Sequence[StrideRound] = (), params: Params = PARAMS) -> StrideRound:
    """Measure one round: how many lines at each stride stay in the first cache, against a control in other sets. Where
    there are `earlier` rounds, the search begins at the last one's counts."""
    region = context.allocate(params.region_bytes, max(context.machine.facts.page_sizes))
    octaves = (params.most_stride // params.least_stride).bit_length()
    strides = tuple(params.least_stride << octave for octave in range(octaves))
    try:
        lines = list[int]()
        for number, stride in enumerate(strides):
            near = earlier[-1].lines[number] if earlier else lines[-1] // 2 if lines else 1
            lines.append(_staying(context, region, stride, max(near, 1), params))
    finally:
        context.machine.release(region)
    return StrideRound(strides=strides, lines=tuple(lines))


def _staying(context: Context, region: Region, stride: int, near: int, params: Params) -> int:
    """Find by doubling and bisection how many lines at this stride (bytes) stay, which may be about `near` lines."""
    most = min(params.most_lines, region.size // stride - 1)
    low, high, count = 1, most + 1, min(near + 1, most)
    while high - low > 1:
        if not _outgrown(context, region, stride, count, params):
            low, count = count, min(2 * count, most) if high > most else (count + high) // 2
        else:
            high, count = count, near if count == near + 1 else (low + count) // 2
    return low


def _outgrown(context: Context, region: Region, stride: int, count: int, params: Params) -> bool:
    """Whether `count` lines at this stride cost more per load than as many on the same pages in different sets."""
    first, second, *_ = context.calibration.level_cycles.values()
    least, rng = max(params.least_cycles, params.outgrown * (second - first)), context.fresh_rng()
    for _ in range(params.tries):
        begin = int(rng.integers(0, (region.size - count * stride) // region.line_size)) * region.line_size
        alike = region.address + begin + np.arange(count) * stride
        within = (alike + np.arange(count) * region.line_size) % TLB_PAGE_BYTES
        spread = np.unique(alike - alike % TLB_PAGE_BYTES + within)
        cost, control = (chase_cycles(context, region, rng.permutation(each), CHASE) for each in (alike, spread))
        if not cost - control > least:
            return False
    return True


class FirstShape(msgspec.Struct, frozen=True, kw_only=True):
    """Shape of a first cache whose index is plain address bits: so many `ways`, and so many `bytes` in all. `agreed` is
    the share of rounds and strides (from a way's bytes on) in which exactly `ways` lines stayed."""

    ways: int
    bytes: int
    agreed: float = 1.0


def first_cache_findings(rounds: Sequence[StrideRound], params: Params = PARAMS) -> Iterator[Finding]:
    """Yield the first cache's findings from all rounds: size in bytes, ways, and index (linear or hashed)."""
    shape = first_cache_shape(rounds, params)
    if shape is None:
        stay = np.median([each.lines for each in rounds], axis=0)
        hashed = stay[np.array(rounds[0].strides) >= TLB_PAGE_BYTES].min() > params.most_ways
        why = "no address bits choose the set" if hashed else "strides don't agree on the lines that stay in a set"
        yield unresolved("cache.l1.size", "bytes", why, METHOD)
        yield unresolved("cache.l1.ways", "ways", why, METHOD)
        index = "cache.l1.index", "string"
        yield chosen(index[0], "hashed", index[1], METHOD) if hashed else unresolved(*index, why, METHOD)
        return
    why = f"only {shape.agreed:.0%} of rounds and strides agree: others on the core take room"
    for parameter, value, unit in (("cache.l1.size", shape.bytes, "bytes"), ("cache.l1.ways", shape.ways, "ways")):
        sure = shape.agreed >= params.agree
        yield chosen(parameter, value, unit, METHOD) if sure else at_least(parameter, value, unit, why, METHOD)
    yield chosen("cache.l1.index", "linear", "string", METHOD)


def first_cache_shape(rounds: Sequence[StrideRound], params: Params = PARAMS) -> FirstShape | None:
    """Return the shape that explains how many lines stay in the cache at every stride in `rounds`, or None. Its ways
    are the commonest number at strides of a page and more; the smallest stride with that number is a way's bytes."""
    strides, counts = np.array(rounds[0].strides), np.array([each.lines for each in rounds])
    fits = np.array([commonest(column) for column in counts.T.tolist()])
    ways = commonest(fits[strides >= TLB_PAGE_BYTES].tolist())
    way = int(strides[fits == ways].min())
    # co-runners may take room in most rounds; in few, a disturbed control makes a count too large
    room, most = ways * np.maximum(1, way // strides), np.quantile(counts, (0.5, RATE), axis=0, method="lower")
    outside = (most[1] < params.fewest * np.minimum(room, params.most_lines)) | (most[0] > params.largest * room)
    unlike = int(((fits > ways) & (strides > way)).sum())
    if outside.any() or unlike > params.unlike or ways > params.most_ways:
        return None
    return FirstShape(ways=ways, bytes=ways * way, agreed=float(np.mean(counts[:, strides >= way] == ways)))
