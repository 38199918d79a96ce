"""The declared families of random probes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.probe import Operand, Probe
from setebench.truth.verify.trials import (
    HERE,
    HUGE,
    PAGE,
    THERE,
    Family,
    Levels,
    Surroundings,
    Times,
    Trial,
    choice,
    generator,
    whole,
)


@dataclass(frozen=True)
class Params:
    """How far draws reach. None of it is fitted to a machine: it only says what is asked how often."""

    targets: int = 6  # lines asked after each pattern; more of one trial say less than more trials
    most_run: int = 24  # accesses of a run; a trigger of 5 misses (Sandy Bridge) beside a pair prefetcher needs 10
    ahead: int = 24  # lines ahead of a run that may be asked; the largest published distance is about 20
    most_conflicts: int = 40  # lines that share a set; more ways than caches have
    most_burst: int = 96  # accesses at once; more than published miss queues hold
    ring_over_cache: float = 3.0  # the largest ring, in lines of the last cache
    most_ring: int = 1 << 16  # lines; a chase over more takes longer than it is worth
    paced: float = 0.6  # part of the patterns whose accesses wait for each other
    settle: float = 4.0  # memory latencies that prefetches are given before lines are asked


PARAMS = Params()


def _settled(probe: Probe, around: Surroundings) -> Probe:
    """Let prefetches arrive."""
    return probe.fence().wait(round(PARAMS.settle * around.memory_cycles)).fence("l")


def _flushed(lines: int, around: Surroundings, start: int = 0) -> Probe:
    """Flush so many lines, which also brings their pages' translations."""
    body = Probe().flush(Operand(HERE, start))
    return Probe().repeat(lines, body, advance=around.line).fence()


def _access(probe: Probe, kind: str, where: Operand, ip: str | None) -> Probe:
    if kind == "store":
        return probe.store(where, ip=ip)
    if kind == "prefetch":
        return probe.prefetch(where, ip=ip)
    return probe.load(where, ip=ip)


def _kind(rng: np.random.Generator, around: Surroundings) -> str:
    """What all accesses of a pattern are: mostly loads."""
    kinds = ["load", "load", "load", "store"] + (["prefetch"] if around.facts.prefetch_hints else [])
    return str(choice(rng, kinds))


def _paced(rng: np.random.Generator) -> bool:
    """Whether each access waits for the one before: behind a burst of misses prefetches are dropped for want of
    entries."""
    return bool(rng.random() < PARAMS.paced)


# -- which level serves a line ------------------------------------------------------------------------------------


def _targets(rng: np.random.Generator, lines: list[int], around: Surroundings, pages: int) -> tuple[int, ...]:
    """Some of these lines, within the pages that were flushed, as bytes."""
    held = sorted({int(line) for line in lines if 0 <= line < pages * around.lines_per_page})
    chosen = rng.permutation(held)[: PARAMS.targets]
    return tuple(int(line) * around.line for line in chosen)


def runs(rng: np.random.Generator, around: Surroundings) -> Trial | None:
    """One to three runs in either direction, with gaps, by one instruction each or by many; then the lines ahead."""
    count, kind = int(choice(rng, (1, 1, 1, 2, 3))), _kind(rng, around)
    one_each, paced = rng.random() < 0.6, _paced(rng)
    length = int(rng.integers(2, PARAMS.most_run + 1))
    starts = rng.integers(0, around.lines_per_page, count)
    strides = [_stride(rng, around) for _ in range(count)]
    wide = rng.random() < 0.3 and HUGE in around.facts.page_sizes
    probe = _flushed(2 * around.lines_per_page, around)
    places = []
    for step in range(length):
        if step and rng.random() < 0.1:
            continue  # a gap
        for run, (start, stride) in enumerate(zip(starts, strides, strict=True)):
            offset = int(start) * around.line + step * stride
            if 0 <= offset < (2 if wide else 1) * PAGE:
                probe = _access(probe, kind, HERE + offset, "ABC"[run] if one_each else None)
                probe = probe.fence() if paced else probe
                places.append((offset, stride))
    if not places:
        return None
    offset, stride = places[-1]
    ahead = [(offset + k * stride) // around.line for k in (1, 2, int(rng.integers(3, PARAMS.ahead)))]
    side = 1 if stride > 0 else -1
    last = offset // around.line
    lines = [last, *ahead, last + side, last + side * int(rng.integers(2, PARAMS.ahead)), places[0][0] // around.line]
    page_size = HUGE if wide else PAGE
    return Levels("runs", _settled(probe, around), _targets(rng, lines, around, 2 if wide else 1), page_size)


def _stride(rng: np.random.Generator, around: Surroundings) -> int:
    """Bytes between accesses of a run: mostly one line, at times a few, at times less than one."""
    size = choice(rng, (1.0, 1.0, 1.0, 2.0, 3.0, 0.5, float(rng.integers(1, 12))))
    return int(size * around.line) * int(choice(rng, (1, 1, -1)))


def conflicts(rng: np.random.Generator, around: Surroundings) -> Trial:
    """Lines at a large power of two from each other, twice around, and then where the first, a middle and the last
    are."""
    page_size = HUGE if HUGE in around.facts.page_sizes and rng.random() < 0.5 else PAGE
    count = int(rng.integers(2, PARAMS.most_conflicts + 1))
    stride = PAGE << int(rng.integers(0, 3 if page_size == PAGE else 6))
    body = Probe().load(HERE)
    probe = Probe().repeat(count, Probe().flush(HERE), advance=stride).fence()
    for _ in range(2):
        probe = probe.repeat(count, body, advance=stride).fence()
    targets = tuple(stride * index for index in sorted({0, count // 2, count - 1}))
    return Levels("conflicts", probe, targets, page_size)


def evictions(rng: np.random.Generator, around: Surroundings) -> Trial:
    """A line used, then a random ring of so many lines, and then where the line is."""
    last = around.cache_lines[-1] * 2
    number = whole(rng, 16, min(last, PARAMS.most_ring))
    probe = Probe().load(HERE + 32 * around.line).load(HERE).fence()
    return Levels("evictions", probe, (0,), evicting=number)


# -- how long something takes -------------------------------------------------------------------------------------


def chases(rng: np.random.Generator, around: Surroundings) -> Trial:
    """A cyclic chase over a random working set, placed at random on few or many pages, on small or large pages."""
    huge = HUGE in around.facts.page_sizes and rng.random() < 0.4
    most = min(PARAMS.ring_over_cache * around.cache_lines[-1], PARAMS.most_ring)
    lines = whole(rng, 8, most)
    page_lines = HUGE // around.line if huge else around.lines_per_page
    dense = whole(rng, 1, page_lines / 2)
    pages = max(-(-lines // dense), 1)
    steps = min(lines, 1024)
    probe = Probe().chase(HERE, lines).fence().start().chase(HERE, steps).stop()
    return Times("chases", probe, steps, HUGE if huge else PAGE, ring=lines, ring_pages=pages)


def bursts(rng: np.random.Generator, around: Surroundings) -> Trial:
    """So many accesses to flushed lines at once, or to lines that a hint brought to a nearer level."""
    count, kind = whole(rng, 1, PARAMS.most_burst), _kind(rng, around)
    offsets = rng.permutation(4 * around.lines_per_page)[:count] * around.line
    probe = Probe()
    for offset in offsets:
        probe = probe.flush(HERE + int(offset))
    probe = probe.fence()
    further = [hint for hint in around.facts.prefetch_hints if hint in ("t1", "t2")]
    if further and rng.random() < 0.3:
        for offset in offsets:
            probe = probe.prefetch(HERE + int(offset), str(choice(rng, further)))
        probe = _settled(probe, around)
    probe = probe.start()
    for offset in offsets:
        probe = _access(probe, kind, HERE + int(offset), None)
    if kind == "prefetch":
        probe = probe.load(THERE)
    return Times("bursts", probe.stop(), 1)


def streams(rng: np.random.Generator, around: Surroundings) -> Trial | None:
    """A streaming kernel over arrays of random size."""
    kernels = [name for name in ("load", "store", "copy", "triad") if name in around.facts.kernels]
    if not kernels:
        return None
    kernel = str(choice(rng, kernels))
    most = min(2 * around.cache_lines[-1], PARAMS.most_ring) * around.line
    size = max(whole(rng, 2048, most) // 4096, 1) * 4096
    width = int(choice(rng, around.facts.access_sizes))
    probe = Probe().stream(HERE, kernel, size, width).fence().start().stream(HERE, kernel, size, width).stop()
    return Times("streams", probe, max(size // around.line, 1), bytes=4 * size + 4096)


FAMILIES: tuple[Family, ...] = (
    Family("runs", runs, 3.0),
    Family("conflicts", conflicts),
    Family("evictions", evictions, 0.5),
    Family("chases", chases, 0.5),
    Family("bursts", bursts),
    Family("streams", streams, 0.5),
)
"""Trials are drawn in turn, each family as often as its weight says."""


def order() -> list[int]:
    """Numbers of families in one round, in a fixed order, each as often as twice its weight says."""
    due = [round(2 * family.weight) for family in FAMILIES]
    return [index for turn in range(max(due)) for index, count in enumerate(due) if turn < count]


def drawn(seed: int, number: int, around: Surroundings, purpose: int = 0) -> Trial | None:
    """Trial `number` of a seed: its family is due in turn, its draws are its own. Other purposes have other draws."""
    due = order()
    index = due[number % len(due)]
    return FAMILIES[index].draw(generator(seed, number, index, *([purpose] if purpose else [])), around)
