"""Line size by flushing."""

from __future__ import annotations

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region, run_interleaved
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.probe import Base, Probe
from setebench.scenario import Context

LEAST_DISTANCE, MOST_DISTANCE = 8, 1024
"""Line sizes that can be found are above the first and up to half of the second."""

FLUSH_SAMPLES = 120
SETTLE_CYCLES = 2000

HERE, THERE = Base("here"), Base("there")


def line_size(context: Context, region: Region) -> int | None:
    """Bytes that a flush removes from the caches at once; None where the two outcomes can't be distinguished.

    A flush takes exactly one line. Of two loads nearby, the second one's being a hit may be a prefetcher's doing; but
    nothing is loaded between the flush and the load that is timed, so what misses was part of the flushed line."""
    rng = context.rng(31)
    page = region.address + rng.integers(0, region.size // TLB_PAGE_BYTES, FLUSH_SAMPLES) * TLB_PAGE_BYTES
    here = page + rng.integers(0, TLB_PAGE_BYTES // MOST_DISTANCE, FLUSH_SAMPLES) * MOST_DISTANCE
    distances = [0, *(LEAST_DISTANCE << n for n in range((MOST_DISTANCE // LEAST_DISTANCE).bit_length() - 1))]
    probe = Probe().load(HERE).load(THERE).fence().flush(HERE).fence().wait(SETTLE_CYCLES).fence()
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
    if gap <= 0 or any(abs(mean - middle) < 0.2 * gap for mean in means):
        return None
    hits = [mean < middle for mean in means]
    first = hits.index(True)
    return distances[first] if all(hits[first:]) else None
