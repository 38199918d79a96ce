"""A machine of one's own: an in-order core with one cache of 16 KiB, written from docs/machine-plugins.md alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np

from setebench.errors import ProbeFault, UnsupportedError, UsageError
from setebench.machine import Facts, Region, Ticks
from setebench.probe import ACCESSES, Kind, Placements, Probe, placement_table

LINE_BYTES, SETS, WAYS = 64, 32, 8
HIT_CYCLES, MISS_CYCLES, BRACKET_CYCLES, CYCLES_PER_TICK, STEP_TICKS = 5.0, 120.0, 30.0, 1.6, 8
COST = {Kind.WAIT: 1, Kind.NOP: 0.25, Kind.MULTIPLY: 3, Kind.ADD: 1, Kind.TRANSFER: 4}
"""Core cycles per count of the operations that touch no memory."""


class ToyMachine:
    """Does one operation after the other, so that fences, `after` and placed instruction addresses change nothing."""

    facts = Facts(
        name="toy",
        kind="plugin",
        cpus=(0,),
        siblings=((0,),),
        ticks_per_second=2.0e9,
        memory_bytes=16 << 20,
        prefetch_hints=("t0",),
    )

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._cycles = 0.0
        self._free_address = 1 << 20
        self._pointers: dict[int, int] = {}
        self._sets: list[dict[int, None]] = [{} for _ in range(SETS)]  # lines of a set, least recently used first

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        if page_size not in self.facts.page_sizes or size > self.facts.memory_bytes:
            raise UnsupportedError(f"{self.facts.name} has 16 MiB in pages of 4096 bytes")
        region = Region(self._free_address, -(-size // page_size) * page_size, page_size, LINE_BYTES)
        self._free_address += region.size
        return region

    def release(self, region: Region) -> None:
        """Addresses are only numbers here: nothing to give back."""

    def link(self, region: Region, addresses: Any) -> None:
        self._pointers |= dict(zip(addresses.tolist(), np.roll(addresses, -1).tolist(), strict=True))

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        _refuse_foreign(probe, self.facts)
        if cpu not in (None, 0):
            raise UsageError(f"{self.facts.name} has one CPU, 0")
        table = placement_table(probe, placements)
        ticks = np.zeros((len(table), probe.intervals), dtype=np.int64)
        for row, bases in zip(ticks, table.tolist(), strict=True):
            for number, operation, shift in _unrolled(probe.rows.tolist()):
                self._do(number, operation, bases, shift, row)
        return ticks[warmup:]

    def run_together(self, probes: Mapping[int, Probe], placements: Placements, *, warmup: int = 0) -> dict[int, Ticks]:
        return {cpu: self.run(probe, placements, cpu=cpu, warmup=warmup) for cpu, probe in probes.items()}

    def close(self) -> None:
        self._pointers.clear()

    def _do(self, number: int, operation: list[int], bases: list[int], shift: int, row: Ticks) -> None:
        kind, base, offset, _size, _variant, amount, _ip, _after, interval, dither = operation
        if kind in ACCESSES:
            self._access(number, kind, bases[base] + offset + shift, amount)
        elif kind == Kind.START:
            self._cycles += dither * 2 * STEP_TICKS * CYCLES_PER_TICK * self._rng.random()
            row[interval] = -self._clock()
        elif kind == Kind.STOP:
            self._cycles += BRACKET_CYCLES
            row[interval] += self._clock()
        else:
            self._cycles += COST.get(Kind(kind), 0) * amount

    def _clock(self) -> int:
        return int(self._cycles / CYCLES_PER_TICK) // STEP_TICKS * STEP_TICKS

    def _access(self, number: int, kind: int, address: int, steps: int) -> None:
        if kind == Kind.FLUSH:
            self._set(address).pop(address // LINE_BYTES, None)
            return
        self._touch(address)
        for _ in range(steps - 1):
            if address not in self._pointers:
                raise ProbeFault("SIGSEGV", number, address, "chase")
            address = self._pointers[address]
            self._touch(address)

    def _set(self, address: int) -> dict[int, None]:
        return self._sets[address // LINE_BYTES % SETS]

    def _touch(self, address: int) -> None:
        lines, line = self._set(address), address // LINE_BYTES
        self._cycles += HIT_CYCLES if line in lines else MISS_CYCLES
        if line in lines:
            del lines[line]
        elif len(lines) == WAYS:
            del lines[next(iter(lines))]
        lines[line] = None


def _refuse_foreign(probe: Probe, facts: Facts) -> None:
    sizes = set(probe.rows[:, 3].tolist()) - {0, *facts.access_sizes}
    hints = {operation.variant for operation in probe.operations if operation.kind == Kind.PREFETCH}
    if sizes or hints - set(facts.prefetch_hints):
        raise UnsupportedError(f"{facts.name} has accesses of 8 bytes only, and the prefetch hint t0 only")


def _unrolled(rows: list[list[int]]) -> Iterator[tuple[int, list[int], int]]:
    """(number, operation, bytes to add to its operand) in the order of execution."""
    number = 0
    while number < len(rows):
        if rows[number][0] == Kind.REPEAT:
            end = next(n for n in count(number) if rows[n][0] == Kind.END)
            for turn in range(rows[number][5]):
                yield from ((n, rows[n], turn * rows[number][2]) for n in range(number + 1, end))
            number = end
        else:
            yield number, rows[number], 0
        number += 1


def toy(*, cpu: int | None, seed: int) -> ToyMachine:
    """The factory: `--machine toy_machine:toy`."""
    if cpu not in (None, 0):
        raise UsageError("toy has one CPU, 0")
    return ToyMachine(seed)
