"""What a miss holds up: independent work behind a load, a store or a prefetch that misses every cache.

After Fang et al. 2014, 5.1.4: a blocking core starts nothing before the miss is done, so additions behind it come on
top; otherwise they are hidden in its time."""

from __future__ import annotations

from setebench.machine import Region, Ticks
from setebench.measure.placing import Place
from setebench.probe import Operand, Probe
from setebench.scenario import Context
from setebench.software_prefetch.ways import Way, side_by_side

MOST_ADDITIONS = 100
"""Fits the reorder window of any core that has one, together with the access in front."""


def _access(probe: Probe, kind: str, where: Operand, hint: str) -> Probe:
    if kind == "prefetch":
        return probe.prefetch(where, hint)
    return probe.load(where) if kind == "load" else probe.store(where)


def _way(kind: str, hint: str, *, cached: bool, additions: int, second: bool) -> Way:
    """An access to a target (brought to the first cache before, if `cached`), with additions or a load that misses too
    behind it. The full fence at the end waits for a store to be written as well."""

    def way(probe: Probe, place: Place, number: int) -> Probe:
        target = place.targets[number]
        other = target + SECOND_LINES * place.line_size
        # flushed here again, for another target's access may have had a hardware prefetcher fetch it
        probe = place.ready(probe.flush(other).fence().wait(SECOND_WAIT).fence(), number, 1)
        if cached:
            probe = _access(probe, "store" if kind == "store" else "load", target, hint).fence()
        probe = _access(probe.start(number), kind, target, hint)
        probe = probe.load(other) if second else probe
        # the wait starts the chain afresh: additions go on from the register that a load leaves its value in
        probe = probe.wait(1).add(additions) if additions else probe
        return probe.fence().stop(number)

    return way


SECOND_LINES, SECOND_WAIT = 9, 2000
"""The second line that misses lies so far from the first one: in the same page, so that its translation is warm, and
out of reach of next-line and pair prefetchers."""


def work_behind_misses(
    context: Context, region: Region, kinds: tuple[str, ...], hint: str, additions: int, samples: int
) -> dict[str, Ticks]:
    """Ticks by KIND.hit, KIND.miss, KIND.miss+work and (for loads) load.miss+miss; KIND of load, store, prefetch."""
    ways: dict[str, Way] = {}
    for kind in kinds:
        ways[f"{kind}.hit"] = _way(kind, hint, cached=True, additions=0, second=False)
        ways[f"{kind}.miss"] = _way(kind, hint, cached=False, additions=0, second=False)
        ways[f"{kind}.miss+work"] = _way(kind, hint, cached=False, additions=additions, second=False)
        ways[f"{kind}.miss+miss"] = _way(kind, hint, cached=False, additions=0, second=True)
    return side_by_side(context, region, "memory", ways, samples)
