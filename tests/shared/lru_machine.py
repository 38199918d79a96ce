"""A machine of pointer chases alone, written apart from the simulator: two TLBs and two caches, least recently used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bare_machine import BareMachine, facts_of
from numba import njit
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.probe import Kind, Probe, placement_table

Lines = NDArray[np.int64]

PAGE, HUGE, BRACKET, L1_CYCLES = 4096, 2 << 20, 30, 5.0
LINEAR, HASHED, CHANCE = range(3)


@dataclass(frozen=True)
class Table:
    """`sets` of `ways` entries, a miss in which costs `cycles` more than a hit in the first table; sets are chosen by
    bits of the number, by a hash of it, or so that they get theirs by chance (nested page tables)."""

    sets: int
    ways: int
    cycles: float
    index: int = LINEAR


@dataclass(frozen=True)
class Noise:
    """What is not still: the clock's `step` in ticks; how much its rate wanders between runs; how many bursts
    of 2,000 cycles fall into 3,000 cycles; the share of runs in which a co-runner makes loads `slower`."""

    step: int = 1
    wander: float = 0.0
    bursts: float = 0.0
    stolen: float = 0.0
    slower: float = 1.0


@njit(cache=False)
def _missed(tags: Any, shape: Any, number: int) -> bool:
    """Look up a number in a table, whose row is as new as it can be first."""
    sets = shape[0]
    where = number % sets
    if shape[2] == HASHED:
        where = (number ^ (number // sets) ^ (number // sets // sets)) % sets
    elif shape[2] == CHANCE:
        where = (number * 2654435761 % 4294967296 >> 7) % sets
    row, way = tags[where], 0
    while way < shape[1] - 1 and row[way] != number:
        way += 1
    missed = row[way] != number
    for each in range(way, 0, -1):
        row[each] = row[each - 1]
    row[0] = number
    return missed


@njit(cache=False)
def _chase(state: Any, shapes: Any, costs: Any, path: Any, begin: int, steps: int) -> float:
    """Cycles of a chase: `path` has the next one, page and line of each line, shape (n, 3)."""
    at, cycles = begin, 0.0
    for _ in range(steps):
        for first in (0, 2):  # TLBs, then caches
            if _missed(state[first], shapes[first], path[at, 1 + first // 2]):
                lost = _missed(state[first + 1], shapes[first + 1], path[at, 1 + first // 2])
                cycles += costs[first + 1] if lost else costs[first]
        cycles += L1_CYCLES
        at = path[at, 0]
    return cycles


class LruMachine(BareMachine):
    """Two TLBs for small and two for large pages, a first cache of 48 KiB, a second one of 2 MiB."""

    def __init__(
        self,
        small: tuple[Table, Table],
        large: tuple[Table, Table] | None = None,
        noise: Noise | None = None,
        **facts: Any,
    ) -> None:
        super().__init__()
        sizes = (PAGE, HUGE) if large else (PAGE,)
        self.facts = facts_of("lru", **{"page_sizes": sizes, "memory_bytes": 32 << 30, **facts})
        caches = Table(PAGE // self.facts.line_size, 12, 11.0), Table(2048, 16, 60.0, CHANCE)
        self._tables = {PAGE: (*small, *caches), HUGE: (*(large or small), *caches)}
        self._noise, self._rng, self._end = noise or Noise(), np.random.default_rng(7), 1 << 32
        self._chains: list[Lines] = []
        self._page_size = PAGE

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        begin = -(-self._end // page_size) * page_size
        self._end, self._chains, tables = begin + size, [], self._tables[page_size]
        self._page_size = page_size
        self._shapes = np.array([[each.sets, each.ways, each.index] for each in tables])
        self._costs = np.array([each.cycles for each in tables])
        self._state = tuple(np.full((each.sets, each.ways), -1) for each in tables)
        return Region(begin, size, page_size, self.facts.line_size)

    def link(self, region: Region, addresses: Lines) -> None:
        self._chains = [addresses, *self._chains[:2]]  # no question here has more at once

    def _path(self) -> tuple[Lines, Lines]:
        """All lines that are linked, ascending, and what a chase has to know of each."""
        every = np.concatenate([*self._chains, np.zeros(0, dtype=np.int64)])
        following = np.concatenate([*(np.roll(each, -1) for each in self._chains), np.zeros(0, dtype=np.int64)])
        lines, newest = np.unique(every, return_index=True)
        following = np.searchsorted(lines, following[newest])
        return lines, np.stack([following, lines // self._page_size, lines // self.facts.line_size], axis=1)

    def run(self, probe: Probe, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> NDArray[np.int64]:
        table, noise, lines, path = placement_table(probe, placements), self._noise, *self._path()
        cycles, slower = np.zeros((len(table), max(probe.intervals, 1))), 1.0
        if self._rng.random() < noise.stolen:
            slower = noise.slower
        for repetition, where in enumerate(table):
            interval, times = -1, 1
            for operation in probe.operations:
                spent = 0.0
                if operation.kind is Kind.START:
                    interval, spent = operation.interval or 0, BRACKET
                elif operation.kind is Kind.CHASE and operation.operand is not None:
                    begin = int(np.searchsorted(lines, where[probe.bases.index(operation.operand.base)]))
                    spent = slower * _chase(self._state, self._shapes, self._costs, path, begin, operation.count)
                elif operation.kind in (Kind.ADD, Kind.WAIT):
                    spent = times * operation.count
                times = operation.count if operation.kind is Kind.REPEAT else times
                cycles[repetition, interval] += spent if interval >= 0 else 0.0
                interval = -1 if operation.kind is Kind.STOP else interval
        cycles *= 1 + noise.wander * self._rng.standard_normal()
        cycles += 2000 * (self._rng.random(cycles.shape) < noise.bursts * cycles / 3000)
        read = np.floor(cycles / noise.step + self._rng.random(cycles.shape)) * noise.step
        return read[warmup:].astype(np.int64)
