"""The declared families of random probes, as data that is the same for every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from setebench.machine import Facts
from setebench.probe import Base, Probe
from setebench.probe.notation import render

PAGE, HUGE = 4096, 2 << 20
HERE, THERE, TARGET, CHASED = Base("p"), Base("q"), Base("t"), Base("r")
"""A random place, another one, the line whose level is measured, and where a chase begins; new ones in every
repetition."""

FAR = 3 * PAGE // 4
"""Bytes into a page whose first half alone is looked at."""

SPAN = 4 * PAGE
"""Bytes around a place that belong to it: places are so far apart that no pattern reaches the next."""


@dataclass(frozen=True)
class Params:
    """How far draws reach. None of it is fitted to a machine: it only says what is drawn how often."""

    targets: int = 6  # lines timed after each pattern; more of one trial say less than more trials
    kept: int = 4  # lines on pages of their own that are timed after each eviction
    reach: int = 24  # accesses of a run, and lines ahead of it: the largest published distance is about 20
    most_conflicts: int = 40  # lines that share a set; more ways than caches have
    most_burst: int = 96  # accesses at once; more than published miss queues hold
    most_chased: int = 1 << 16  # lines; a chase over more takes longer than it is worth
    paced: float = 0.6  # part of the patterns whose accesses wait for each other: misses at once use up the entries
    pace: float = 1.2  # memory latencies from one of these to the next: what it brings has come
    deep: tuple[float, ...] = (0.1, 0.2, 0.45)  # of evictions that fill level 1, 2, 3 alone; others are of any size
    full: float = 1.25  # times the lines of a level is what evicts a line from it, at random places
    rest: float = 0.35  # of the lines of the next level, which keeps it then
    span: float = 1.15  # of the least to the most lines at least
    most: float = 0.7  # of the lines of the next level at most
    settle: float = 4.0  # memory latencies that prefetches are given before lines are timed


PARAMS = Params()


@dataclass(frozen=True)
class Surroundings:
    """What trials may rely on: facts that machine and twin share, and of the twin the line size, lines of each cache
    and latencies of all levels and memory. These only decide where probes fall dense, and the scale of answers."""

    facts: Facts
    line: int
    cache_lines: tuple[int, ...]
    latencies: tuple[float, ...]

    @property
    def lines_per_page(self) -> int:
        return PAGE // self.line

    @property
    def most_chased(self) -> int:
        """Lines of the largest working set."""
        return min(2 * self.cache_lines[-1], PARAMS.most_chased)


@dataclass(frozen=True)
class Trial:
    """A probe and what is read from it: which level serves each of `targets` (bytes from HERE), loaded on its own after
    `probe`, in repetitions of its own; without targets how long interval 0 of `probe` takes, in cycles for each of
    `units`. `chased` is how many lines, on `chased_pages` pages, a cycle has that lies at HERE, or is chased before
    targets are loaded, then all in one repetition; `bytes` are those of arrays that the probe streams through."""

    family: str
    probe: Probe
    targets: tuple[int, ...] = ()
    units: int = 1
    page_size: int = PAGE
    chased: int = 0
    chased_pages: int = 0
    bytes: int = 0

    @property
    def timed(self) -> Probe:
        """The probe with what is timed: part of it, or behind it the load of a target. The same line once more is a hit
        for certain, in the same place and repetition: another interval behind the loads of targets."""
        if not self.targets:
            return self.probe
        if not self.chased:
            return self.probe.fence().start().load(TARGET).stop().fence().start(1).load(TARGET).stop(1)
        probe, lines = self.probe.chase(CHASED, self.chased).fence(), [HERE + each for each in self.targets]
        for line in lines:  # a flush of another line brings its page's translation, and trains nothing
            probe = probe.flush(HERE + line.offset // PAGE * PAGE + FAR).fence()
        for interval, line in enumerate(lines * 2):
            probe = probe.start(interval).load(line).stop(interval).fence()
        return probe

    def shown(self, target: int = 0) -> str:
        """What is timed, of one of the targets, in the pattern notation."""
        chase = f"  # a cycle of {self.chased} random lines on {self.chased_pages} pages" if self.chased else ""
        where = f"  # line p+{self.targets[target]}" if self.targets else ""
        return render(self.timed).strip().replace("\n", "; ") + where + chase


def _whole(rng: np.random.Generator, low: float, high: float) -> int:
    """A whole number between two, uniform in the logarithm."""
    return round(float(np.exp(rng.uniform(np.log(low), np.log(max(high, low))))))


def _settled(probe: Probe, around: Surroundings) -> Probe:
    """Let prefetches arrive."""
    return probe.fence().wait(round(PARAMS.settle * around.latencies[-1])).fence("l")


def _kind(rng: np.random.Generator, around: Surroundings) -> str:
    """What all accesses of a pattern are: mostly loads."""
    return str(rng.choice(["load", "load", "load", "store", *["prefetch"] * bool(around.facts.prefetch_hints)]))


# -- which level serves a line ------------------------------------------------------------------------------------


def runs(rng: np.random.Generator, around: Surroundings) -> Trial | None:
    """One to three runs in either direction, with gaps, by one instruction each or by many; then the lines ahead."""
    count, kind = int(rng.choice((1, 1, 1, 2, 3))), _kind(rng, around)
    one_each, paced = rng.random() < 0.6, rng.random() < PARAMS.paced
    length = int(rng.integers(2, PARAMS.reach + 1))
    starts = rng.integers(0, around.lines_per_page, count)
    strides = [_stride(rng, around) for _ in range(count)]
    wide, pace = rng.random() < 0.3 and HUGE in around.facts.page_sizes, round(PARAMS.pace * around.latencies[-1])
    pages = 2 if wide else 1
    probe = Probe().repeat(2 * around.lines_per_page, Probe().flush(HERE), advance=around.line).fence()
    places = []
    for step in range(length):
        if step and rng.random() < 0.1:
            continue  # a gap
        for run, (start, stride) in enumerate(zip(starts, strides, strict=True)):
            offset = int(start) * around.line + step * stride
            if 0 <= offset < pages * PAGE:
                probe = getattr(probe, kind)(HERE + offset, ip="ABC"[run] if one_each else None)
                if paced:  # a full fence behind loads would keep some prefetchers from what they do between loads
                    probe = probe.fence("l" if kind == "load" else "m").wait(pace).fence("l")
                places.append((offset, stride))
    if not places:
        return None
    offset, stride = places[-1]
    ahead = [(offset + k * stride) // around.line for k in (1, 2, int(rng.integers(3, PARAMS.reach)))]
    side, last = 1 if stride > 0 else -1, offset // around.line
    further = (last + side * int(each) for each in (1, *rng.integers(2, PARAMS.reach, 2)))
    lines = [*ahead, *further, places[0][0] // around.line]
    held = sorted({int(line) for line in lines if 0 <= line < pages * around.lines_per_page})
    targets = tuple(int(line) * around.line for line in rng.permutation(held)[: PARAMS.targets])
    return Trial("runs", _settled(probe, around), targets, page_size=HUGE if wide else PAGE)


def _stride(rng: np.random.Generator, around: Surroundings) -> int:
    """Bytes between accesses of a run: mostly one line, at times a few, at times less than one."""
    lines = rng.choice((1, 1, 1, 2, 3, 0.5, float(rng.integers(1, 12))))
    return int(lines * around.line) * int(rng.choice((1, 1, -1)))


def conflicts(rng: np.random.Generator, around: Surroundings) -> Trial:
    """Lines at a large power of two from each other, twice around, and then where the first, a middle and the last
    are. Each has an instruction of its own: behind a loop's end a core loads further lines before it knows better."""
    page_size = HUGE if HUGE in around.facts.page_sizes and rng.random() < 0.5 else PAGE
    count = int(rng.integers(2, PARAMS.most_conflicts + 1))
    stride = PAGE << int(rng.integers(0, 3 if page_size == PAGE else 6))
    probe = Probe().repeat(count, Probe().flush(HERE), advance=stride).fence()
    for index in [*range(count)] * 2:
        probe = probe.load(HERE + index * stride).fence("l")
    targets = tuple(stride * index for index in sorted({0, count // 2, count - 1}))
    return Trial("conflicts", probe, targets, page_size=page_size)


def evictions(rng: np.random.Generator, around: Surroundings) -> Trial:
    """Lines used, then a random chase over as many lines as fit one of the levels, and then where the lines are."""
    full = [8.0, *(PARAMS.full * lines for lines in around.cache_lines[:-1])]
    rest = [max(PARAMS.rest * most, PARAMS.span * low) for low, most in zip(full, around.cache_lines, strict=True)]
    room = [PARAMS.most * lines for lines in around.cache_lines]
    spans = [each for each in zip(full, rest, room, PARAMS.deep, strict=False) if each[1] < each[2]]
    spans.append((16.0, around.most_chased, 0.0, 1.0 - sum(PARAMS.deep)))
    lows, highs, _, parts = np.array(spans).T
    level = rng.choice(len(parts), p=parts / parts.sum())
    lines = min(_whole(rng, lows[level], highs[level]), around.most_chased)
    within = rng.integers(0, around.lines_per_page // 2, PARAMS.kept) * around.line
    targets = tuple(page * PAGE + int(at) for page, at in enumerate(within))
    probe = Probe()
    for target in targets * 2:
        probe = probe.load(HERE + target).fence()
    return Trial("evictions", probe, targets, chased=lines, chased_pages=lines)


# -- how long something takes -------------------------------------------------------------------------------------


def chases(rng: np.random.Generator, around: Surroundings) -> Trial:
    """A cyclic chase over a random working set, placed at random on few or many pages, on small or large pages."""
    page_size = HUGE if HUGE in around.facts.page_sizes and rng.random() < 0.4 else PAGE
    lines = _whole(rng, 8, around.most_chased)
    dense = _whole(rng, 1, page_size // around.line / 2)
    steps = min(lines, 1024)
    probe = Probe().chase(HERE, lines).fence().start().chase(HERE, steps).stop()
    pages = max(-(-lines // dense), 1)
    return Trial("chases", probe, units=steps, page_size=page_size, chased=lines, chased_pages=pages)


def bursts(rng: np.random.Generator, around: Surroundings) -> Trial:
    """So many accesses to flushed lines at once, or to lines that a hint brought to a nearer level."""
    count, kind = _whole(rng, 1, PARAMS.most_burst), _kind(rng, around)
    offsets = [int(each) * around.line for each in rng.permutation(4 * around.lines_per_page)[:count]]
    probe = Probe()
    for offset in offsets:
        probe = probe.flush(HERE + offset)
    probe = probe.fence()
    further = [hint for hint in around.facts.prefetch_hints if hint in ("t1", "t2")]
    if further and rng.random() < 0.3:
        for offset in offsets:
            probe = probe.prefetch(HERE + offset, str(rng.choice(further)))
        probe = _settled(probe, around)
    probe = probe.load(THERE + PAGE // 2).fence().start()  # with the translation of what ends prefetches
    for offset in offsets:
        probe = getattr(probe, kind)(HERE + offset)
    return Trial("bursts", (probe.load(THERE) if kind == "prefetch" else probe).stop())


def streams(rng: np.random.Generator, around: Surroundings) -> Trial | None:
    """A streaming kernel over arrays of random size."""
    kernels = [name for name in ("load", "store", "copy", "triad") if name in around.facts.kernels]
    if not kernels:
        return None
    kernel = str(rng.choice(kernels))
    size = max(_whole(rng, 2048, around.most_chased * around.line) // PAGE, 1) * PAGE
    width = int(rng.choice(around.facts.access_sizes))
    probe = Probe().stream(HERE, kernel, size, width).fence().start().stream(HERE, kernel, size, width).stop()
    return Trial("streams", probe, units=max(size // around.line, 1), bytes=4 * size + PAGE)


FAMILIES: dict[str, tuple[Callable[[np.random.Generator, Surroundings], Trial | None], int]] = {
    "runs": (runs, 4),
    "conflicts": (conflicts, 2),
    "evictions": (evictions, 3),
    "chases": (chases, 1),
    "bursts": (bursts, 1),
    "streams": (streams, 1),
}
"""How a trial of each is drawn (None where the machine can't run one), and how many of a round of trials are of it."""

ROUND = [name for name, (_, count) in FAMILIES.items() for _ in range(count)]
"""The families of a round's trials, in their order."""


def drawn(seed: int, numbers: Iterable[int], around: Surroundings, purpose: int = 0) -> dict[int, Trial]:
    """The trials of these numbers, without those that can't be drawn: the family of each is due in turn, its draws are
    its own, so that it can be repeated alone. Other purposes have other draws."""
    found = {}
    for number in numbers:
        draw, _ = FAMILIES[ROUND[number % len(ROUND)]]
        trial = draw(np.random.default_rng([seed, number, purpose]), around)
        if trial is not None:
            found[number] = trial
    return found
