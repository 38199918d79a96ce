"""How long a translation stays in the TLBs: targets are used again after a number of other pages.

The other pages are touched by flushing a line that no cache holds: that needs their translation and leaves caches
alone, so neither the size of a cache nor its prefetchers set a limit. What is timed is a pointer chase over a few
targets, one line in each page. In the control everything is the same, but a flush of another line in each target brings
its translation back right before: the difference is translation and nothing else, whatever happened meanwhile. In
both, a neighbour of each target is touched first, one whose entry of the page table lies in the same line: what a walk
costs doesn't grow with the number of pages then, whose entries push the targets' out of the caches.

The other pages are new ones each time. The mean number of new pages after which a translation is gone is the number of
entries, whatever is replaced and however sets are chosen. `ring` is a chase round and round over one line each of a few
pages: in a table of one set they all stay as long as there is room, also where it isn't the oldest that is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import ProbeError
from setebench.experiments.alone import PARAMS as ALONE
from setebench.experiments.alone import Alone
from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.lines.rings import rings_cycles
from setebench.machine import Region
from setebench.probe import COLUMNS, Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import STALL_SPANS, undisturbed

Numbers = NDArray[np.float64]
Ints = NDArray[np.int64]

TARGET, UPPER = Base("target"), Base("upper")


@dataclass(frozen=True, kw_only=True)
class SurvivalParams:
    """How the survival of translations is sampled.

    `targets`: pages timed in one chase, no more than half of what the first TLB holds, so that its step is seen and the
    control finds all of them there. `rows`: chases per draw of pages, behind `warm` ones; more share the draw's luck,
    fewer cost more probes, of which one takes as long as hundreds of rows. `beside`: a neighbour so many pages off
    (exclusive or of page numbers) has its entry of the page table in the same line (8 of 8 bytes), and no entry of a
    TLB in common, unless 8 pages share one; used where there are `many` others, more than a first TLB holds and no more
    than any second one (fewer have lines that fit the first cache). `several`: more such neighbours, to see whether
    they lie in the target's set; without `neighbours` there are none, and a walk gets dearer the more pages there are.
    `lost`: a chase that takes longer than most by this fraction of a load from memory, and by more than chases differ,
    lost a line to other users of the caches. `stored`: pages that are stored to one by one, a divisor of `targets`.
    `settle_cycles`: wait before the clock starts, as flushes under way slow the next load in some guests.
    `ring_pages`: of so many in a row a ring uses one, as neighbours may share an entry now and then, where the system
    happens to lay them out so. `translation_bytes`: the smallest pages that a TLB may see, where a hypervisor splinters
    large ones.
    `apart_pages`: targets lie at least in so many pages each, beyond what shares an entry (8 pages at most are known).
    `sparse`: of so many pages one is chosen as another one, as far as memory reaches, so that sets get theirs by
    chance; `sparse_many`: the same of `many` others. `windows`: so many such pieces of memory are used in turn, so that
    no page comes again soon, each at a random place in `pitch` times as many pages, so that its sets are others each
    time; at any place where memory is short. `upper_bytes`: what one entry of the page table's last upper level covers;
    `reserved_pages`: where pages are as large, so many are the targets'. `span_bytes`: what an operand's offset
    reaches."""

    targets: int = 8
    rows: int = 16
    warm: int = 2
    beside: int = 4
    several: tuple[int, ...] = (4, 5, 6)
    neighbours: bool = True
    lost: float = 0.8
    stored: int = 4
    settle_cycles: int = 200
    ring_pages: int = 4
    translation_bytes: int = 4096
    apart_pages: int = 16
    sparse: float = 4.0
    sparse_many: float = 12.0
    many: int = 256
    windows: int = 3
    pitch: float = 1.25
    upper_bytes: int = 2 << 20
    reserved_pages: int = 128
    span_bytes: int = 1 << 30


@dataclass(frozen=True, kw_only=True)
class PageUnits:
    """Memory in units of `pages` neighbouring pages of `page_bytes`, of which one page is used: neighbours may share an
    entry, and those that lie `pages` apart don't."""

    region: Region
    page_bytes: int
    pages: int = 1

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit."""
        return self.page_bytes * self.pages

    @property
    def count(self) -> int:
        """Number of units."""
        return self.region.size // self.unit_bytes


@dataclass(frozen=True)
class _Evictors:
    """Probes that touch other pages, before and after something else is brought back, and where their bases lie, by
    base, shape (rows,)."""

    before: Probe
    after: Probe
    placements: dict[Base, Ints]


def folded(numbers: Ints, places: int) -> Ints:
    """A place for each number, of a power of two of places, so that those of any aligned run of numbers, with or
    without a stride, are used alike: the exclusive or of the number's digits."""
    place = numbers % places
    while places > 1 and (numbers := numbers // places).any():
        place = place ^ (numbers % places)
    return place


def _pauses(pairs: list[tuple[Ints, Ints]]) -> float:
    """About how long draws took, in pauses of `measure.alone`."""
    return float(sum(side.sum() for pair in pairs for side in pair)) / ALONE.pause_cycles


class Survival:
    """Samples of one piece of memory."""

    def __init__(self, context: Context, units: PageUnits, params: SurvivalParams) -> None:
        """Nothing is touched yet."""
        self._context, self._units, self._params = context, units, params
        self._alone = Alone(context, patience=ALONE.little_patience, question=f"tlb.{units.page_bytes >> 10}k")
        self._rng = context.fresh_rng(31)
        self._reserved = max(params.upper_bytes // units.unit_bytes, 1)
        if units.page_bytes >= params.upper_bytes:
            self._reserved = params.reserved_pages
        self._touched = 0

    @property
    def targets(self) -> int:
        """Pages timed in one chase."""
        return self._params.targets

    @property
    def most(self) -> int:
        """Other pages that there can be, and of a ring whose pages lie in a row."""
        return self._units.count - self._reserved

    @property
    def most_in_ring(self) -> int:
        """Pages that a ring can have."""
        return min(self.most, self._units.count * self._units.pages // self._ring_spacing)

    @property
    def _ring_spacing(self) -> int:
        """Of so many pages in a row a ring uses one."""
        apart = self._params.ring_pages if self._units.page_bytes < self._params.upper_bytes else 1
        return max(self._units.pages, apart)

    def fraction(self, others: int) -> float:
        """Of the pages among which so many others are chosen at random, the fraction that is chosen."""
        return others / self._window(others)

    def _window(self, others: int) -> int:
        params = self._params
        wanted = params.sparse if others < params.many else params.sparse_many
        # beyond the usual number not all of the memory, or all rows would use the same pages
        return min(int(wanted * others), max(self.most // 2, min(int(params.sparse * others), self.most)))

    def beside(self, others: int, several: bool = False) -> tuple[int, ...]:
        """Which neighbours come last of so many others in `stream`, by their distance in pages."""
        params = self._params
        if not params.neighbours or self._units.pages > params.beside or others < params.many:
            return ()
        return params.several if several else (params.beside,)

    def stream(self, others: int, draws: int, *, several: bool = False) -> Numbers:
        """Cycles that an access takes longer after `others` new pages; means of draws, shape (draws,). With `several`
        more of them are neighbours than usual, where any are."""
        beside = self.beside(others, several)
        return self._excess(lambda: self._draw(others - len(beside) * self._params.targets, beside), draws)

    def ring(self, pages: int) -> float:
        """Cycles that a step of a chase over one line each of so many pages takes longer than one over as many lines in
        few pages."""
        units, params, rng = self._units, self._params, self._rng
        line, spacing = units.region.line_size, self._ring_spacing
        numbers = np.arange(pages)
        self._touch(-(-pages * spacing // units.pages))
        at = numbers * spacing + folded(numbers, spacing)
        places = rng.permutation(params.translation_bytes // line)
        spread = units.region.address + at * units.page_bytes + places[numbers % len(places)] * line
        packed = units.region.address + numbers * line
        rings = (rng.permutation(spread), rng.permutation(packed))
        own, control = self._alone.run(lambda: rings_cycles(self._context, units.region, rings))
        return own - control

    def neighbours(self, distance: int, others: int, between: int, draws: int) -> Numbers:
        """As `stream`, if then the page `distance` pages off (exclusive or of page numbers) was touched, and after it
        only `between` new pages."""
        return self._excess(lambda: self._draw(others, (distance,), between), draws)

    def upper(self, pieces: int, others: int, draws: int) -> Numbers:
        """Cycles that an access without a translation takes longer than one with, if the upper levels of the page table
        for its piece of memory (`upper_bytes`) were last asked for before those of `pieces` other ones, shape (draws,).
        `others` pages make the TLBs lose translations."""
        return self._excess(lambda: self._upper_draw(pieces, others), draws)

    @property
    def most_pieces(self) -> int:
        """Pieces that `upper` may have beside the targets'."""
        return len(self._pieces) - self._params.targets

    @property
    def _pieces(self) -> Ints:
        """Where pieces begin that upper levels of the page table have one entry for, in bytes from the beginning."""
        region, piece = self._units.region, self._params.upper_bytes
        return np.arange(-region.address % piece, region.size - piece + 1, piece)

    def stores(self, others: int, draws: int, *, after_stores: bool) -> Numbers:
        """Cycles that a store takes longer after so many new pages were stored to (`after_stores`) or loaded from,
        shape (draws,)."""
        return self._excess(lambda: self._store_draw(others, after_stores), draws)

    def _excess(self, draw: Callable[[], tuple[Ints, Ints]], draws: int) -> Numbers:
        """From ticks of samples and controls of each draw, shape (rows, 2 or more) each: how long the other pages took,
        and what accesses the targets. Where either took much longer than it mostly does an interrupt came, which uses
        translations too, or a line was lost."""
        pairs = self._alone.run(lambda: [draw() for _ in range(draws)], pauses=_pauses)
        step, sides, per_tick = step_ticks(self._context), [], cycles_per_tick(self._context)
        lost = self._params.lost * self._context.calibration.level_cycles.get("memory", 0.0) / per_tick
        for side in range(2):
            ticks = np.stack([pair[side] for pair in pairs])
            timed = ticks[:, :, 1:].sum(axis=2)
            kept = undisturbed(timed.ravel(), step).reshape(timed.shape)
            if lost > 0:
                low, middle = np.quantile(timed, (0.1, 0.5))
                kept &= timed <= middle + max(STALL_SPANS * max(middle - low, step), lost)
            kept &= np.stack([undisturbed(draw[:, 0], step) for draw in ticks])
            rest = np.where(kept, timed, 0.0).sum(axis=1) / np.maximum(kept.sum(axis=1), 1)
            sides.append(np.where(kept.any(axis=1), rest, timed[kept].mean()))
        excess: Numbers = (sides[0] - sides[1]) * per_tick / self._params.targets
        return excess

    def _draw(self, others: int, distances: tuple[int, ...] = (), between: int = 0) -> tuple[Ints, Ints]:
        params, units, rng = self._params, self._units, self._rng
        rows = params.rows + params.warm
        window = self._window(others)
        pitch = int(params.pitch * window)
        slack = min(self.most, params.windows * pitch) - window
        shift = np.arange(rows) % params.windows * pitch + rng.integers(0, pitch - window + 1, rows)
        if shift.max() > slack:
            shift = rng.integers(0, slack + 1, rows)
        span = window + slack
        self._touch(self._reserved + span)
        places = self._places(distances)
        targets, spare = places[: params.targets], places[params.targets :]
        begin, line = units.region.address, units.region.line_size
        upper = begin + np.resize(spare, rows) * units.unit_bytes + rng.integers(0, units.page_bytes // line) * line
        begins = begin + (self._reserved + shift) * units.unit_bytes
        chosen = rng.permutation(window)[:others]
        placements: dict[Base, Ints] = {UPPER: upper}
        evict = [
            self._flushes(part, begins, placements) for part in (chosen[: others - between], chosen[others - between :])
        ]
        # a page of the targets' part last, so that a walk finds the upper levels of the page table at hand
        evictors = _Evictors(evict[0], evict[1].flush(UPPER), placements)
        return self._timed(evictors, begin + targets * units.unit_bytes + self._inner_bytes(targets), distances)

    def _places(self, distances: tuple[int, ...] = ()) -> Ints:
        """Units for targets, in a random order: those of different entries, in all sets, whose neighbours up to so far
        off are there as well."""
        params, rng = self._params, self._rng
        apart = max(params.apart_pages // self._units.pages, 1)
        apart = apart if self._reserved > 2 * params.targets * apart else 2 * params.beside
        places = rng.permutation(self._reserved // apart) * apart
        places += rng.integers(0, apart, len(places))
        # neighbours lie in the same aligned group of pages, all of which have to be there
        group = 1 << max((params.beside, *distances)).bit_length()
        first = self._units.region.address // self._units.page_bytes
        begins = (first + places * self._units.pages) // group * group - first
        return places[(begins >= 0) & (begins + group <= self._reserved * self._units.pages)]

    def _timed(self, evictors: _Evictors, pages: Ints, distances: tuple[int, ...]) -> tuple[Ints, Ints]:
        """Ticks of what evicts these pages' translations and of a chase over a line of each, shape (rows, 2): as they
        are then, and with translations brought back. Before the first, those of pages so far off are brought back."""
        params, context, units = self._params, self._context, self._units
        line = units.region.line_size
        half = params.translation_bytes // line // 2
        lines = pages + (np.arange(len(pages)) + self._rng.integers(0, half)) % half * line
        context.machine.link(units.region, lines)
        rows = len(evictors.placements[UPPER])
        bases = {**evictors.placements, TARGET: np.repeat(lines[:1], rows)}
        begin = Probe().start(0, dither=False)
        end = Probe().stop(0).fence().wait(params.settle_cycles).fence().start(1).chase(TARGET, len(pages)).stop(1)
        other = lines + half * line - lines[0]
        shared = Probe()
        for distance in distances:
            shared += _flush_rows(TARGET, other + self._away(pages, distance) - pages)
        probes = (
            begin + evictors.before + shared + evictors.after + end,
            begin + evictors.before + evictors.after + _flush_rows(TARGET, other) + end,
        )
        sample, control = (
            context.machine.run(
                probe, {base: bases[base] for base in probe.bases}, cpu=context.cpu, warmup=rows - params.rows
            )
            for probe in probes
        )
        return sample, control

    def _upper_draw(self, pieces: int, others: int) -> tuple[Ints, Ints]:
        """No page that makes TLBs lose translations shares an entry with a target or one that asks for upper levels."""
        params, rng, region = self._params, self._rng, self._units.region
        page_bytes, rows = self._units.page_bytes, params.rows + params.warm
        self._touch(self._units.count)
        groups = params.upper_bytes // page_bytes // params.apart_pages
        chosen = rng.permutation(self._pieces)[: pieces + params.targets]
        group = np.stack([rng.permutation(groups)[:2] for _ in chosen]) * params.apart_pages
        inside = (group + rng.integers(0, params.apart_pages, group.shape)) * page_bytes
        targets, asked = (chosen + inside[:, 0])[: params.targets], chosen + inside[:, 1]
        if self._units.pages <= params.beside:  # entries of the page table that lie beside the targets', as in streams
            asked[: params.targets] = self._away(region.address + targets, params.beside) - region.address
        free = np.ones(region.size // page_bytes // params.apart_pages, dtype=bool)
        free[np.concatenate([targets, asked]) // page_bytes // params.apart_pages] = False
        lost = np.arange(len(free) * params.apart_pages)
        lost = rng.permutation(lost[free[lost // params.apart_pages]])[:others]
        everywhere = Base("everywhere")
        lose = _flush_rows(everywhere, np.concatenate([lost * page_bytes, asked]))
        placements = {everywhere: np.full(rows, region.address), UPPER: np.full(rows, region.address)}
        return self._timed(_Evictors(Probe(), lose, placements), region.address + targets, ())

    def _store_draw(self, others: int, after_stores: bool) -> tuple[Ints, Ints]:
        """As `_draw`, with single stores timed one by one: they don't wait for each other."""
        params, units, rng, region = self._params, self._units, self._rng, self._units.region
        rows, line = params.rows + params.warm, region.line_size
        self._touch(self._reserved + others)
        lines = params.translation_bytes // line
        places = self._places()[: params.stored]
        offsets = places * units.unit_bytes + rng.permutation(lines // 2)[: params.stored] * line
        chosen = self._reserved + rng.permutation(others)
        away = chosen * units.unit_bytes + rng.integers(0, lines, others) * line
        base = Base("stored")
        rest = _rows(Probe().store(base) if after_stores else Probe().flush(base), away)
        near = _rows(Probe().store(base), offsets + lines // 2 * line)
        timed = Probe().fence().wait(params.settle_cycles).fence()
        for number, offset in enumerate(offsets.tolist(), 1):
            timed = timed.start(number).store(base + offset).stop(number)
        begin, end = Probe().start(0, dither=False), Probe().stop(0)
        sides = (begin + rest + end + timed, begin + rest + near + end + timed)
        places_of = {base: np.full(rows, region.address)}
        sample, control = (
            self._context.machine.run(p, places_of, cpu=self._context.cpu, warmup=params.warm) for p in sides
        )
        scale = params.targets // params.stored  # as if there were as many as in a chase
        return sample * scale, control * scale

    def _away(self, addresses: Ints, distance: int) -> Ints:
        """The same places in pages so far off (exclusive or of page numbers)."""
        page_bytes = self._units.page_bytes
        away: Ints = (addresses // page_bytes ^ distance) * page_bytes + addresses % page_bytes
        return away

    def _inner_bytes(self, numbers: Ints) -> Ints:
        """Where in these units the page lies that is used: not always the same, so that all sets are used alike."""
        inner: Ints = folded(numbers, self._units.pages) * self._units.page_bytes
        return inner

    def _flushes(self, numbers: Ints, begins: Ints, placements: dict[Base, Ints]) -> Probe:
        """Flushes of a line in each of these units, counted from `begins`, shape (rows,), which gets placements."""
        units, span, line = self._units, self._params.span_bytes, self._units.region.line_size
        inner = self._inner_bytes(numbers)
        places = self._rng.integers(0, units.page_bytes // line, len(numbers)) * line
        offsets = numbers * units.unit_bytes + inner + places
        parts = offsets // span
        probe = Probe()
        for part in np.unique(parts).tolist():
            base = Base(f"others{part}")
            placements[base] = begins + part * span
            probe += _flush_rows(base, offsets[parts == part] - part * span)
        return probe

    def _touch(self, units: int) -> None:
        """Let the system give the pages of so many units, which all probes ask for first, so that no access faults.
        Raises `ProbeError` where memory has fewer."""
        if units > self._units.count:
            raise ProbeError(f"{units} units of pages are asked for in memory of {self._units.count}")
        if units > self._touched:
            step = min(self._units.page_bytes, self._units.region.page_size)
            offsets = np.arange(self._touched * self._units.unit_bytes, units * self._units.unit_bytes, step)
            places = {TARGET: self._units.region.address + offsets}
            self._context.machine.run(Probe().start().flush(TARGET).stop(), places, cpu=self._context.cpu)
            self._touched = units


def _flush_rows(base: Base, offsets: Ints) -> Probe:
    """A flush at each offset."""
    return _rows(Probe().flush(base), offsets)


def _rows(access: Probe, offsets: Ints) -> Probe:
    """This access at each offset, made at once: there may be thousands."""
    rows = np.repeat(access.rows, len(offsets), axis=0)
    rows[:, COLUMNS.index("offset")] = offsets
    return Probe(rows.tobytes(), access.bases) if len(offsets) else Probe()
