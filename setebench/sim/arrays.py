"""The arrays that the kernel runs on: handed out word by word, empty, and as views of what lies in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.spec.fields import literals, table_fields

Ints = NDArray[np.int64]
SYSTEM_PAGES = 512  # the first 2 MiB belong to the simulated system; interrupts touch them


class Frames:
    """Physical frames of one size, handed out in random order as they are needed: `count` of them, the first at number
    `first`, one every `step` numbers. A bit says which were handed out, so a machine may offer as much memory as real
    ones do."""

    def __init__(self, first: int, count: int, step: int, rng: np.random.Generator) -> None:
        self._first, self._step, self._rng = first, step, rng
        self._used = np.zeros(count, dtype=np.bool_)

    def take(self, count: int) -> Ints:
        """So many free frames in random order; there must be as many. Shape (count,)."""
        size, taken = len(self._used), np.zeros(0, dtype=np.int64)
        if np.count_nonzero(self._used) + count >= size // 2:
            taken = self._rng.permutation(np.flatnonzero(~self._used))[:count]
        while len(taken) < count:  # of many free ones those drawn blindly are mostly free
            drawn = self._rng.integers(0, size, 2 * (count - len(taken)) + 16)
            both = np.concatenate([taken, drawn[~self._used[drawn]]])
            taken = both[np.sort(np.unique(both, return_index=True)[1])][:count]
        self._used[taken] = True
        return self._first + self._step * taken

    def give_back(self, frames: Ints) -> None:
        """Make frames that were taken free again."""
        self._used[(frames - self._first) // self._step] = False


@dataclass(frozen=True)
class Arrays:
    """Configuration `c`, state `s` and clock settings `f`; `layout.py` says what lies where. `small_frames` and
    `huge_frames` are the physical 4 KiB frames and 2 MiB blocks on offer."""

    c: Ints
    s: Ints
    f: NDArray[np.float64]
    small_frames: Frames
    huge_frames: Frames


class Space:
    """Hands out words of the state array one after the other. `ports` has where each port lies, and its interval."""

    def __init__(self) -> None:
        self.words = at.S_WORDS
        self.ports: list[tuple[int, int]] = []

    def take(self, words: int, alignment: int = 1) -> int:
        """Where so many words begin, at a multiple of `alignment`."""
        begin = -(-self.words // alignment) * alignment
        self.words = begin + words
        return begin

    def port(self, interval: int, number: int = 1) -> int:
        """Where ports begin each use of which takes an interval; none waits where that is 0."""
        begin = self.take(at.PORT_WORDS * number)
        self.ports += [(begin + at.PORT_WORDS * each, interval) for each in range(number) if interval]
        return begin


def virtual_pages(machine: spec.Machine) -> int:
    """Pages of address space: somewhat more than there is memory, as regions leave gaps."""
    return SYSTEM_PAGES + (machine.memory.bytes * 5 // 4 >> at.PAGE_BITS)


def units(cycles: float) -> int:
    """Cycles in the kernel's fixed-point time."""
    return round(cycles * at.UNIT)


def fill(words: Any, prefix: str, table: msgspec.Struct, first: int = 0) -> None:
    """Copy a table's fields into the words that `layout` has of their names: cycles in fixed-point time, of a choice
    the place of the value, of a list how many there are and the numbers."""
    for name, field in table_fields(type(table)).items():
        word, value = vars(at).get(prefix + name.upper()), getattr(table, name)
        if isinstance(value, str):
            value = literals(field.type).index(value) if literals(field.type) else 0
        cycles = name.endswith("_cycles") or isinstance(table, spec.VectorExtra)
        if word is not None and name in at.LISTS:
            words[first + word : first + word + 1 + len(value)] = [len(value), *value]
        elif word is not None and isinstance(value, int | float):
            words[first + word] = units(value) if cycles else value


def lines_of(c: Ints, s: Ints, index: int) -> Ints:
    """The words of a level's lines, a view of shape (sets of all cores, ways)."""
    v = at.C_LEVEL + index * at.L_WORDS
    sets = int(c[v + at.L_SETS]) * (int(c[at.C_CORES]) if index < 2 else 1)
    stride, first = int(c[v + at.L_SET_WORDS]), int(c[v + at.L_LINES])
    return s[first : first + sets * stride].reshape(sets, stride)[:, : int(c[v + at.L_WAYS])]


def events_of(c: Ints, s: Ints) -> Ints:
    """What was counted so far, a view of shape (cores, EVENT_WORDS)."""
    return s[c[at.C_EVENTS] : c[at.C_EVENTS] + c[at.C_CORES] * at.EVENT_WORDS].reshape(-1, at.EVENT_WORDS)


def threads_of(c: Ints, s: Ints) -> Ints:
    """The words of hardware threads, a view of shape (CPUs, T_WORDS)."""
    cpus = int(c[at.C_CORES] * c[at.C_THREADS_PER_CORE])
    return s[c[at.C_THREADS] : c[at.C_THREADS] + cpus * at.T_WORDS].reshape(-1, at.T_WORDS)
