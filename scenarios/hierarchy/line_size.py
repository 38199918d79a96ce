"""Line size by flushing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region, run_interleaved
from setebench.probe import Base, Probe
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.ticks.location import mean_ticks


@dataclass(frozen=True, kw_only=True)
class Params:
    """Line sizes that can be found are above `least` and up to half of `most` bytes. Each distance is asked `samples`
    times; `settle` cycles pass behind a flush. Means nearer than `clear` of the way to the middle between a hit and a
    miss say neither."""

    least: int = 8
    most: int = 1024
    samples: int = 120
    settle: int = 2000
    clear: float = 0.2


PARAMS = Params()

HERE, THERE = Base("here"), Base("there")


def line_size(context: Context, region: Region) -> int | None:
    """Bytes that a flush removes from the caches at once; None where the two outcomes can't be distinguished.

    A flush takes exactly one line. Of two loads nearby, the second one's being a hit may be a prefetcher's doing; but
    nothing is loaded between the flush and the load that is timed, so what misses was part of the flushed line."""
    rng = context.rng(31)
    page = region.address + rng.integers(0, region.size // TLB_PAGE_BYTES, PARAMS.samples) * TLB_PAGE_BYTES
    here = page + rng.integers(0, TLB_PAGE_BYTES // PARAMS.most, PARAMS.samples) * PARAMS.most
    distances = [0, *(PARAMS.least << n for n in range((PARAMS.most // PARAMS.least).bit_length() - 1))]
    probe = Probe().load(HERE).load(THERE).fence().flush(HERE).fence().wait(PARAMS.settle).fence()
    probe = probe.start().load(THERE).stop()
    ticks = run_interleaved(
        context.machine,
        [probe] * len(distances),
        [{HERE: here, THERE: here + distance} for distance in distances],
        rng,
        cpu=context.cpu,
    )
    means = [mean_ticks(each, step_ticks(context)) for each in ticks]
    return line_from_means(distances, means)


def line_from_means(distances: list[int], means: list[float]) -> int | None:
    """The smallest distance that was a hit, if all smaller ones missed and all larger ones hit; else None.

    The first distance is 0, a sure miss; the last, a sure hit."""
    middle, gap = (means[0] + means[-1]) / 2, means[0] - means[-1]
    if gap <= 0 or any(abs(mean - middle) < PARAMS.clear * gap for mean in means):
        return None
    hits = [mean < middle for mean in means]
    first = hits.index(True)
    return distances[first] if all(hits[first:]) else None


def line_findings(line_bytes: int | None, levels: int) -> Iterator[Finding]:
    """Line size of every level: the unit in which lines come and go, which all levels share."""
    method = "loads near a line that was just flushed"
    for number in range(1, levels + 1):
        parameter = f"cache.l{number}.line_size"
        if line_bytes is None:
            yield decide.unresolved(parameter, "bytes", "hits and misses near a flushed line are not clear", method)
        else:
            yield decide.chosen(parameter, line_bytes, "bytes", method)
