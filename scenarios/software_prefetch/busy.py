"""Whether a core goes on with independent work behind a miss, and whether too many prefetches wait or are dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.bursts.bursts import FLUSHED, GONE, LINE, LOADED, PAGE_BYTES, Addresses, Others, Times
from setebench.probe import Base, Probe
from setebench.results import Finding
from setebench.stats import decide

from .params import Params
from .trials import QUIETER, Answer, Share, Trials

BURST, AWAY, PATTERN = (Base(name) for name in ("burst", "flushed burst", "pattern"))

# -- work behind a miss ------------------------------------------------------------------------------------------------
# After Fang et al. 2014, 5.1.4: a blocking core starts nothing before the miss is done, so additions behind it take
# longer; other cores execute them during the miss.


def blocking(trials: Trials) -> Iterator[Finding]:
    """Yield whether a load, a store and a prefetch that miss block independent work behind them."""
    trials.context.progress("work behind misses")
    additions = max(int(min(trials.params.additions, trials.unit / 2)), 1)
    method = "additions behind an access that misses every cache, against the access alone"
    for kind in ("load", "store", "prefetch"):
        parameter = f"blocking.{kind}"
        if kind == "prefetch" and not trials.hint:
            yield decide.unavailable(parameter, "string", "no prefetch hint was seen to bring lines anywhere")
            continue
        means = _levels(trials, [_access(trials, kind, work) for work in (0, additions)])
        found = blocks(means, additions, trials.unit, trials.params)
        found = trials.unless_ignored(found) if kind == "prefetch" else found
        yield found.finding(parameter, "string", method)


def _access(trials: Trials, kind: str, additions: int) -> Probe:
    """Return a probe of one timed access with `additions` behind it and a full fence, which waits for a store, too."""
    bursts, line = trials.bursts, LINE + trials.bursts.near
    probe = bursts.settled(Probe().store(line) if kind == "store" else Probe().load(line)).flush(GONE + 0)
    # stores may have a TLB of their own, which loads don't fill
    neighbour = LINE + bursts.aside
    probe = bursts.settled(probe.store(neighbour) if kind == "store" else probe.flush(neighbour)).start()
    if kind == "prefetch":
        probe = probe.prefetch(line, trials.hint)
    else:
        probe = probe.load(line) if kind == "load" else probe.store(line)
    # the wait breaks the dependence: additions use the register that the load writes
    return (probe.wait(1).add(additions) if additions else probe).fence().stop()


def _levels(trials: Trials, probes: Sequence[Probe]) -> tuple[float, float, float]:
    """Return interquartile means (cycles) of a hit, a miss, and a miss with work; `probes`: without, with work."""
    samples: dict[tuple[int, str], list[Times]] = {}
    for _ in range(2 * trials.params.bursts):
        for number, probe in enumerate(probes):
            for state, times in trials.bursts.by_state(probe, (LOADED, FLUSHED)).items():
                samples.setdefault((number, state), []).append(times)
    hit, miss, both = (
        np.sort(np.concatenate(samples[key]).ravel()) for key in ((0, LOADED), (0, FLUSHED), (1, FLUSHED))
    )
    middle = slice(len(hit) // 4, 3 * len(hit) // 4)
    return float(hit[middle].mean()), float(miss[middle].mean()), float(both[middle].mean())


def blocks(means: tuple[float, float, float], work: float, memory: float, params: Params) -> Answer:
    """Decide between `blocking` and `nonblocking` from `means`: cycles of an access that hits, of one that misses, and
    of one that misses, with `work` cycles of additions behind it; `memory` is memory's latency less that of a hit."""
    hit, miss, with_work = means
    if miss - hit < params.small * memory:
        if with_work - hit > work + params.small * memory:
            return Answer(reason="work behind the miss takes longer than both together")
        return Answer("nonblocking", remark="nothing waits for it to be done")
    added = (with_work - miss) / work
    if added > params.clear:
        return Answer("blocking", remark=f"{added:.0%} of the work came on top of the miss")
    if added < params.small:
        return Answer("nonblocking", remark=f"{1 - added:.0%} of the work was hidden")
    return Answer(reason=f"{added:.0%} of the work behind the miss came on top of it; {QUIETER}")


# -- more prefetches than can be in flight -----------------------------------------------------------------------------


def when_full(trials: Trials, *, blocking: bool) -> Iterator[Finding]:
    """Yield whether prefetches stall or are dropped when too many are in flight. A burst of prefetches is followed by a
    load of one of its last lines. Prefetches stall if a burst to lines in memory takes longer than one to lines in L1,
    which isn't asked if they are `blocking` (each waits for the one before). They are dropped if the load is as slow as
    behind a burst to other lines."""
    trials.context.progress("more prefetches than can be in flight")
    states = (LOADED, FLUSHED, "idle")
    rounds = range(2 * trials.params.bursts)
    parts = [trials.bursts.by_state(_burst(trials), states, (), _places(trials)) for _ in rounds]
    times = {state: np.concatenate([part[state] for part in parts]) for state in states}
    longer = (float(np.median(times[FLUSHED][:, 0])) - float(np.median(times[LOADED][:, 0]))) / trials.unit
    late, idle = (Share.beyond(trials.limit, times[state][:, 1]) for state in (FLUSHED, "idle"))
    found = trials.unless_ignored(full(late, idle, longer, trials.params))
    if blocking and found.value == "stalls":
        found = Answer(reason="each prefetch waits for the one before, so the queue is never full")
    method = f"burst of {trials.params.burst} prefetches {trials.hint}, late lines loaded afterwards"
    yield found.finding("software_prefetch.when_full", "string", method)


def full(late: Share, idle: Share, longer: float, params: Params) -> Answer:
    """Decide what prefetches do when too many are in flight: they wait (`stalls`) or are lost (`drops`). `late` is the
    share of the lines near the end of a burst that are still in memory afterwards, and `idle` that share after
    prefetches of other lines. `longer` is the extra time of the burst over one of lines in L1, in memory latencies: it
    shows waiting, unless lines are missing, as the prefetches that aren't dropped take time, too."""
    if idle.low < params.quiet:
        return Answer(reason=f"{1 - idle.value:.0%} of the lines came without any prefetch; {QUIETER}")
    held_up = f"the burst took {longer:.1f} memory latencies longer than one of present lines"
    if late.low > params.lost:
        return Answer("drops", remark=f"{late.value:.0%} of late lines did not come; {held_up}")
    if late.high > params.lost:
        return Answer(reason=f"{late.value:.0%} of late lines did not come, too few to decide; {QUIETER}")
    if longer > params.held:
        return Answer("stalls", remark=held_up)
    return Answer(reason="all prefetches of the burst were done and none had to wait: the queue was never full")


def _burst(trials: Trials) -> Probe:
    """Return the probe: flush the burst's lines, time prefetches of them, page by page, then time a load of one of the
    last. Placements (`_places`) may let it flush or prefetch other lines instead."""
    params, bursts = trials.params, trials.bursts
    lines = PAGE_BYTES // bursts.size
    pages = params.burst // params.per_page
    box = 3 * lines // 4 // params.per_page
    offsets = [
        page * PAGE_BYTES + (int(place) * box + int(bursts.rng.integers(box))) * bursts.size
        for page in range(pages)
        for place in bursts.rng.permutation(params.per_page)
    ]
    warmers = [page * PAGE_BYTES + (lines - 2) * bursts.size for page in range(pages)]
    late = offsets[int(bursts.rng.integers(3 * len(offsets) // 4, len(offsets)))]
    probe = Probe()
    for offset in offsets:
        probe = probe.load(BURST + offset)
    probe = bursts.settled(probe)
    for offset in offsets:  # after all loads, which may make a prefetcher load others of them
        probe = probe.flush(AWAY + offset)
    for warmer in warmers:
        probe = probe.load(PATTERN + warmer) if trials.warmed else probe.flush(PATTERN + warmer)
    probe = bursts.settled(probe).start(0)
    for number, offset in enumerate(offsets):
        if trials.warmed and not number % params.per_page:
            probe = probe.load(PATTERN + warmers[number // params.per_page])
        probe = probe.prefetch(PATTERN + offset, trials.hint)
    probe = bursts.settled(probe.stop(0), params.burst).flush(BURST + warmers[late // PAGE_BYTES])
    probe = bursts.settled(probe)
    return probe.start(1).load(BURST + late).stop(1)


def _places(trials: Trials) -> Others:
    """Return a function that places the burst, the lines flushed before it, and the lines prefetched, by state."""

    def others(drawn: NDArray[np.str_], places: dict[Base, Addresses]) -> dict[Base, Addresses]:
        pages = trials.params.burst // trials.params.per_page
        begin, away, idle = (np.array([trials.bursts.base(pages, part) for _ in drawn]) for part in (0, 1, 1))
        return {
            BURST: begin,
            AWAY: np.where(drawn == LOADED, away, begin),
            PATTERN: np.where(drawn == "idle", idle, begin),
        }

    return others
