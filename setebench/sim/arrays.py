"""The arrays that the kernel runs on: handed out word by word, empty, and as views of what lies in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.frames import Frames

Ints = NDArray[np.int64]
SYSTEM_PAGES = 512  # the first 2 MiB belong to the simulated system; interrupts touch them


@dataclass(frozen=True)
class Arrays:
    """Configuration `c`, state `s` and clock settings `f`; `layout.py` says what lies where. `small_frames` and
    `huge_frames` are the physical 4 KiB frames and 2 MiB blocks on offer, `remote_frames` those 2 MiB blocks that
    lie in another socket's memory."""

    c: Ints
    s: Ints
    f: NDArray[np.float64]
    small_frames: Frames
    huge_frames: Frames
    remote_frames: Frames


class Space:
    """Hands out words of the state array one after the other."""

    def __init__(self) -> None:
        self.words = at.S_WORDS

    def take(self, words: int, alignment: int = 1) -> int:
        """Where so many words begin, at a multiple of `alignment`."""
        begin = -(-self.words // alignment) * alignment
        self.words = begin + words
        return begin


def virtual_pages(machine: spec.Machine) -> int:
    """Pages of address space: somewhat more than there is memory, as regions leave gaps."""
    remote = machine.remote_memory.bytes if machine.remote_memory else 0
    return SYSTEM_PAGES + ((machine.memory.bytes + remote) * 5 // 4 >> at.PAGE_BITS)


def units(cycles: float) -> int:
    """Cycles in the kernel's fixed-point time."""
    return round(cycles * at.UNIT)


def fill(words: Any, prefix: str, table: msgspec.Struct, first: int = 0) -> None:
    """Copy a table's numbers into the words that `layout` has of their names, cycles in fixed-point time."""
    for name, value in msgspec.structs.asdict(table).items():
        word = vars(at).get(prefix + name.upper())
        if word is not None and isinstance(value, int | float):
            cycles = name.endswith("_cycles") or isinstance(table, spec.VectorExtra)
            words[first + word] = units(value) if cycles else value


def lines_of(c: Ints, s: Ints, index: int) -> Ints:
    """The words of a level's lines, a view of shape (sets of all cores, ways)."""
    v = at.C_LEVEL + index * at.L_WORDS
    sets = int(c[v + at.L_SETS]) * (int(c[at.C_CORES]) if index < 2 else 1)
    stride, first = int(c[v + at.L_SET_WORDS]), int(c[v + at.L_LINES])
    return s[first : first + sets * stride].reshape(sets, stride)[:, : int(c[v + at.L_WAYS])]


def aligned_zeros(words: int) -> Ints:
    """Zeros that begin a line of the host's caches."""
    s = np.zeros(words + at.HOST_LINE_WORDS, dtype=np.int64)
    first = -(s.ctypes.data // 8) % at.HOST_LINE_WORDS
    return s[first : first + words]
