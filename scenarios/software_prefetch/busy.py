"""What misses hold up, what becomes of too many prefetches, and whether prefetches alone train hardware prefetchers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.lines.placing import SETTLE_CYCLES, Place
from setebench.machine import Ticks
from setebench.probe import Base, Operand, Probe
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.ticks.location import mean_ticks
from setebench.stats.ticks.mixture import Shares

from . import answers
from .answers import QUIETER, Answer
from .params import Layout, Params
from .run import Run, Way, flushed, on_layouts

BURST, GROUND = Base("burst"), Base("ground")

# -- work behind a miss ------------------------------------------------------------------------------------------------
# After Fang et al. 2014, 5.1.4: a blocking core starts nothing before the miss is done, so additions behind it come on
# top; otherwise they are hidden in its time.


def behind(kind: str, hint: str, *, cached: bool = False, additions: int = 0) -> Way:
    """An access of a `kind` (load, store, prefetch with a `hint`) to a target, brought to the first cache before if
    `cached`, with so many additions behind it, timed until all is done: the full fence at the end waits for a store to
    be written as well."""

    def access(probe: Probe, kind: str, where: Operand) -> Probe:
        if kind == "prefetch":
            return probe.prefetch(where, hint)
        return probe.load(where) if kind == "load" else probe.store(where)

    def way(probe: Probe, place: Place, number: int) -> Probe:
        target = place.targets[number]
        probe = place.ready(probe, number, 1)
        if cached:
            probe = access(probe, "store" if kind == "store" else "load", target).fence()
        probe = access(probe.start(number), kind, target)
        # the wait starts the chain afresh: additions go on from the register that a load leaves its value in
        probe = probe.wait(1).add(additions) if additions else probe
        return probe.fence().stop(number)

    return way


def blocking(run: Run) -> Iterator[Finding]:
    """Whether independent work goes on behind a load, a store or a prefetch that misses."""
    run.context.progress("work behind misses")
    method = "additions behind an access that misses every cache, against the access alone"
    additions = max(int(min(run.layout.additions, run.memory_ticks * run.cycles_per_tick() / 2)), 1)
    kinds = ("load", "store", "prefetch") if run.hint else ("load", "store")
    ways: dict[str, Way] = {}
    for kind in kinds:
        ways[f"{kind}.hit"] = behind(kind, run.hint, cached=True)
        ways[f"{kind}.miss"] = behind(kind, run.hint)
        ways[f"{kind}.miss+work"] = behind(kind, run.hint, additions=additions)
    ticks, per_tick = run.side_by_side("memory", ways, run.samples // 2), run.cycles_per_tick()
    means = {name: mean_ticks(each, run.step) for name, each in ticks.items()}
    cycles_of = {name: mean * per_tick for name, mean in means.items()}
    run.context.evidence["work_behind_misses"] = {"additions": additions, "cycles": cycles_of}
    for kind in kinds:
        hit, miss, both = (means[f"{kind}.{each}"] for each in ("hit", "miss", "miss+work"))
        found = blocks((hit, miss, both), additions / per_tick, run.memory_ticks, run.params)
        if kind == "prefetch":
            found = run.unless_ignored(found)
            run.prefetch_blocks = found.value != "nonblocking"
        yield found.finding(f"blocking.{kind}", "string", method, "work_behind_misses")
    if not run.hint:
        yield decide.unavailable("blocking.prefetch", "string", "no prefetch hint was seen to bring lines anywhere")


def blocks(means: tuple[float, float, float], work: float, memory: float, params: Params) -> Answer:
    """`blocking` or `nonblocking`, from mean ticks: of an access that hits, one that misses, one that misses with
    `work` ticks of additions behind it; `memory` is what a load from memory takes longer than a hit."""
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


class Burst(NamedTuple):
    """Ticks of a burst of prefetches, of the same burst when the lines are there, and of loads of its late lines, with
    and without the burst. Shapes (n,)."""

    missing: Ticks
    present: Ticks
    late: Ticks
    baseline: Ticks


def when_full(run: Run) -> Iterator[Finding]:
    """Whether prefetches wait or are lost where too many are under way."""
    run.context.progress("more prefetches than can be in flight")
    layout = run.layout
    count = layout.burst_pages * layout.burst_lines
    method = f"burst of {count} prefetches {run.hint}, late lines loaded afterwards"
    ticks = _bursts(run)
    shares = run.shares(ticks.late, ticks.baseline)
    longer = float(np.median(ticks.missing) - np.median(ticks.present))
    run.context.evidence["burst"] = {
        "held_up_ticks": longer,
        "memory_ticks": run.memory_ticks,
        "late_lines_in_memory": shares.of("memory").tolist(),
    }
    found = run.unless_ignored(full(shares, longer / run.memory_ticks, run.params))
    if run.prefetch_blocks and found.value == "stalls":
        found = Answer(reason="each prefetch waits for the one before, so the queue is never full")
    yield found.finding("software_prefetch.when_full", "string", method, "burst")


def full(shares: Shares, longer: float, params: Params) -> Answer:
    """`stalls` or `drops`, from the shares of late lines after a burst (set 0) and without one (set 1), and by how many
    memory latencies the burst took `longer` than one of lines that are there.

    Lost lines show drops even where the burst took longer too: what is not lost still has to get through, and some
    clock brackets wait for it. Where part of the baseline is in caches, the burst is judged by the rest."""
    memory = shares.levels.index("memory")
    low, high, value = (part[:, memory] for part in (shares.low, shares.high, shares.value))
    if low[1] < params.enough:
        return Answer(reason=answers.elsewhere(shares, 1))
    held_up = f"the burst took {longer:.1f} memory latencies longer than one of present lines"
    if low[0] > params.lost * high[1]:
        return Answer("drops", remark=f"{value[0]:.0%} of late lines did not come; {held_up}")
    if high[0] > params.lost * low[1]:
        return Answer(reason=f"{value[0]:.0%} of late lines did not come, too few to decide; {QUIETER}")
    if longer > params.held:
        return Answer("stalls", remark=held_up)
    return Answer(reason="all prefetches of the burst were done and none had to wait: the queue was never full")


def _bursts(run: Run) -> Burst:
    """Loads of late lines behind bursts of prefetches, and as many without a burst."""
    rng = run.context.rng("late lines behind bursts")
    count = run.repetitions(run.layout.burst_timed)

    def take() -> Burst:
        burst = _BurstLines(run.layout, run.region.line_size, rng)
        done, idle = (run.timed(burst.probe(each), {BURST: run.stretches(count + 1, rng)}) for each in (run.hint, ""))
        return Burst(done[:, 0], done[:, -1], done[:, 1:-1], idle[:, 1:-1])

    return Burst(*on_layouts(take))


class _BurstLines:
    """One burst: its pages and lines in the order of prefetching, and in each page a line that warms its TLB entry."""

    def __init__(self, layout: Layout, line_size: int, rng: np.random.Generator) -> None:
        pages = rng.permutation(layout.stretch_pages)[: layout.burst_pages] * TLB_PAGE_BYTES
        box = (TLB_PAGE_BYTES // line_size - 2 * layout.shifts) // layout.burst_lines
        self._warming = [BURST + (int(page) + TLB_PAGE_BYTES - layout.shifts * line_size) for page in pages]
        self._lines: list[list[Operand]] = []
        for page in pages:
            lines = rng.permutation(layout.burst_lines) * box + rng.integers(0, box, layout.burst_lines)
            self._lines.append([BURST + int(page + line * line_size) for line in lines])
        half = range(layout.burst_pages // 2, layout.burst_pages)
        late = [(page, line) for page in half for line in range(layout.burst_lines)]
        self._timed = [late[n] for n in rng.permutation(len(late))[: layout.burst_timed]]

    def probe(self, hint: str) -> Probe:
        """All lines flushed, the burst, loads of late lines, and the burst once more."""
        every = [line for lines in self._lines for line in lines]
        probe = flushed(Probe(), every)
        for warming in self._warming:
            probe = probe.load(warming)
        probe = self._burst(probe.fence(), 0, hint).wait(SETTLE_CYCLES).fence()
        for number, (page, line) in enumerate(self._timed):
            probe = probe.load(self._warming[page]).fence()
            probe = probe.start(1 + number).load(self._lines[page][line]).stop(1 + number)
        for line in every:
            probe = probe.load(line)
        return self._burst(probe.fence(), 1 + len(self._timed), hint)

    def _burst(self, probe: Probe, interval: int, hint: str) -> Probe:
        """All lines prefetched at once; a load from each page comes first, for the sake of cores that prefetch only in
        the page of the latest load."""
        probe = probe.start(interval)
        for warming, lines in zip(self._warming, self._lines, strict=True):
            probe = probe.load(warming)
            for line in lines:
                probe = probe.prefetch(line, hint) if hint else probe
        return probe.stop(interval)


# -- prefetches that train prefetchers ---------------------------------------------------------------------------------


def trains_hardware(run: Run) -> Iterator[Finding]:
    """Whether patterns of prefetches alone have hardware prefetchers fetch further lines."""
    run.context.progress("whether prefetches train hardware prefetchers")
    patterns = {"a run of prefetches": _runs(run), "visits by prefetches": _visits(run)}
    shares = {name: run.shares(*ticks) for name, ticks in patterns.items()}
    run.context.evidence["training"] = {name: each.of("memory").tolist() for name, each in shares.items()}
    method = f"patterns of prefetches {run.hint} alone, then a load of a line that they point to"
    found = run.unless_ignored(answers.trains_hardware(shares, run.params))
    yield found.finding("software_prefetch.trains_hardware", "bool", method, "training")


def _runs(run: Run) -> list[Ticks]:
    """Ticks of loads of the line after a run, with the run made of prefetches and without it; shapes (n,).

    A run is eight neighbouring lines of a page, the last one three times over, always missing: next-line, pair, stream
    and stride prefetchers, up or down, would fetch the line after it."""
    rng, pages = run.context.rng("lines after runs"), run.layout.run_pages
    count = run.repetitions(pages)

    def take() -> tuple[Ticks, Ticks]:
        # pages by turns: a run up, a run down, and the same two without prefetches
        turn = rng.permutation(np.arange(pages) % 4)
        probe = Probe()
        for number, which in enumerate(turn.tolist()):
            probe = _one_run(probe, run, number, up=which % 2 == 0, hint=run.hint if which < 2 else "")
        ticks = run.timed(probe, {GROUND: run.stretches(count + 1, rng, 2)})  # even shifts: a pair stays a pair
        return ticks[:, turn < 2], ticks[:, turn >= 2]

    return on_layouts(take)


def _one_run(probe: Probe, run: Run, number: int, *, up: bool, hint: str) -> Probe:
    layout, line_size = run.layout, run.region.line_size
    page = GROUND + number * TLB_PAGE_BYTES
    first, count = layout.run_line, layout.run_lines
    # the last line is the first of its pair going up, the second going down: its partner is the line after it
    lines = [first - 1 + n if up else first + 2 * count - n for n in range(count)]
    beside = page + layout.beside * line_size
    last, after = page + lines[-1] * line_size, page + (lines[-1] + (1 if up else -1)) * line_size
    every = [page + line * line_size for line in lines]
    probe = flushed(probe, (*every, after)).load(beside).fence()
    label = "up" if up else "down"
    for line in every if hint else ():
        probe = probe.prefetch(line, hint, ip=label).wait(layout.space_cycles).fence()
    for _ in range(layout.again if hint else 0):
        probe = probe.flush(last).fence().wait(layout.space_cycles).fence().load(beside).fence()
        probe = probe.prefetch(last, hint, ip=label).wait(layout.space_cycles).fence()
    probe = probe.wait(SETTLE_CYCLES).fence().load(beside).fence()
    return probe.start(number).load(after).stop(number)


def _visits(run: Run) -> list[Ticks]:
    """Ticks of loads of the second line of new pages after visits of many, with visits made of prefetches and without;
    shapes (n,). A prefetcher that remembers regions would fetch the others of a visit's lines there."""
    rng = run.context.rng("visits of regions")
    count = run.repetitions(2 * run.layout.new_pages)
    probes = [_visit(hint, run.layout, run.region.line_size) for hint in (run.hint, "")]
    return on_layouts(lambda: [run.timed(each, {GROUND: run.stretches(count + 1, rng, 2)}) for each in probes])


def _visit(hint: str, layout: Layout, line_size: int) -> Probe:
    pages = [GROUND + number * TLB_PAGE_BYTES for number in range(layout.visited + layout.new_pages)]
    first, second, beside = (line * line_size for line in (layout.first_line, layout.second_line, layout.beside))
    probe = flushed(Probe(), [page + line for page in pages for line in (first, second, beside)])
    for page in pages[: layout.visited]:
        probe = probe.load(page + beside, ip="beside").fence()
        for line, label in ((first, "first"), (second, "second")) if hint else ():
            probe = probe.prefetch(page + line, hint, ip=label).wait(layout.space_cycles).fence()
    for number, page in enumerate(pages[layout.visited :]):
        probe = probe.load(page + beside, ip="beside").fence()
        probe = probe.prefetch(page + first, hint, ip="first") if hint else probe
        probe = probe.wait(SETTLE_CYCLES).fence().load(page + beside, ip="beside").fence()
        probe = probe.start(number).load(page + second).stop(number)
    return probe
