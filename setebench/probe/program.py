"""Building probes: every method appends rows to the table of a new, longer probe. Placements say at which addresses the
bases of a probe lie, repetition by repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.errors import ProbeError
from setebench.probe import kernels
from setebench.probe.operands import (
    IP_SPAN_BITS,
    Base,
    InstructionAddress,
    Operand,
    Operation,
    merge_address,
    named,
)
from setebench.probe.table import (
    ACCESS_SIZES,
    BRACKETS,
    COLUMNS,
    FENCES,
    FLUSHES,
    HINTS,
    MAX_INTERVALS,
    ROW_BYTES,
    WORD,
    WORKS,
    Kind,
    count_intervals,
    load_row,
    pack,
)

MOST_OFFSET = 1 << 31  # of a displacement in machine code, either way
MOST_INSTRUCTIONS, MOST_TIMES = 1 << 16, 10**9  # of one operation that is as many instructions, and of loops


class Place(TypedDict, total=False):
    """Where the instruction of an access lies, and what it waits for.

    `ip` names an instruction address that all accesses with that name share; `ip_bits` places it (its low 26 bits).
    `after` makes the address depend on an earlier load's value, so this access cannot start before that one is done: -1
    is the latest load of the probe, -2 the one before, 0 the first."""

    ip: str | None
    ip_bits: int | None
    after: int | None


@dataclass(frozen=True)
class Probe:
    """A sequence of operations; every method returns a longer probe and leaves this one as it was.

    Raises `ProbeError` for operands, sizes, names or references that make no sense.
    """

    packed: bytes = b""
    bases: tuple[Base, ...] = ()
    instruction_addresses: tuple[InstructionAddress, ...] = ()

    # -- accesses ---------------------------------------------------------------------------------------------------

    def load(self, where: Base | Operand, size: int = WORD, **place: Unpack[Place]) -> Probe:
        """Load `size` bytes (8, 16, 32 or 64)."""
        return self._access(Kind.LOAD, where, place, size=_access_size(size))

    def store(self, where: Base | Operand, size: int = WORD, **place: Unpack[Place]) -> Probe:
        """Store `size` zero bytes (8, 16, 32 or 64)."""
        return self._access(Kind.STORE, where, place, size=_access_size(size))

    def prefetch(self, where: Base | Operand, hint: str = "t0", **place: Unpack[Place]) -> Probe:
        """Software prefetch with `hint` t0, t1, t2, nta or w."""
        return self._access(Kind.PREFETCH, where, place, variant=_choice("prefetch hint", hint, HINTS))

    def flush(self, where: Base | Operand, how: str = "clflush", *, after: int | None = None) -> Probe:
        """Write the line back and, but for `clwb`, throw it out of every cache.

        `how` is clflush, clflushopt or clwb."""
        return self._access(Kind.FLUSH, where, {"after": after}, variant=_choice("flush", how, FLUSHES))

    def chase(
        self, start: Base | Operand, steps: int, size: int = WORD, *, after: int | None = None, work: str = ""
    ) -> Probe:
        """Follow `steps` pointers that `Machine.link` laid, starting with the one at `start`: `steps` dependent loads.

        With `size` 16, 32 or 64 each pointer is loaded by a vector load and moved to an integer register, so a step is
        one vector load and one vector-to-integer transfer.

        With `work` each step has `CHASE_WORK` integer multiplications, 8 bytes a load only (Molka et al. 2017, 4.3):
        "free" ones need neither the chase nor each other, so they run while a step misses; "chained" ones multiply the
        pointer itself by 1, one after the other, so nothing is in flight meanwhile.
        """
        variant = _choice("work of a chase", work, WORKS)
        if work and size != WORD:
            raise ProbeError(f"a chase with work loads {WORD} bytes, not {size}")
        count = _positive("chase", steps)
        return self._access(Kind.CHASE, start, {"after": after}, size=_access_size(size), variant=variant, count=count)

    def stream(
        self, where: Base | Operand, kernel: str, array_bytes: int, width: int = WORD, *, rolled: bool = False
    ) -> Probe:
        """One pass of a streaming kernel (a name of `kernels.KERNELS`) over arrays of `array_bytes` bytes
        each: the first at `where`, each next `kernels.array_spacing(array_bytes)` bytes on.

        `where` must be a multiple of 64; `array_bytes` is one of 256, and a power of two in random order. `width` is
        the size of each access; kernels that only prefetch have none. A `rolled` loop makes one access to each array a
        round (`kernels.round_bytes`); all but random order have one."""
        variant = _choice("kernel", kernel, kernels.NAMES)
        chosen = kernels.KERNELS[kernel]
        if rolled not in chosen.forms:
            raise ProbeError(f"the streaming kernel {kernel} has no rolled loop")
        most = kernels.MOST_ARRAY_BYTES
        if array_bytes % kernels.BLOCK_BYTES or not 0 < array_bytes <= most:
            raise ProbeError(f"arrays of a stream have a multiple of 256 bytes, at most {most}, not {array_bytes}")
        if chosen.random and array_bytes & (array_bytes - 1):
            raise ProbeError(f"a random order needs an array whose size is a power of two, not {array_bytes} bytes")
        size = _access_size(width) if chosen.accesses else 0
        return self._access(Kind.STREAM, where, {}, size=size, variant=variant, count=array_bytes, dither=int(rolled))

    # -- order and time ---------------------------------------------------------------------------------------------

    def fence(self, kind: str = "m") -> Probe:
        """m: memory operations before are done before any after (mfence and, where that isn't serialising, lfence);
        l: instructions before are done before any after start (lfence); s: stores in order (sfence); serialize: the
        paper's cpuid, which in a guest can cost thousands of cycles."""
        return self._append(Kind.FENCE, variant=_choice("fence", kind, FENCES))

    def wait(self, cycles: int) -> Probe:
        """About `cycles` core cycles of instructions that touch no memory. They don't hold back later independent
        operations of an out-of-order core: put a fence behind them where that matters."""
        return self._append(Kind.WAIT, count=_positive("wait", cycles))

    def nop(self, count: int) -> Probe:
        """`count` no-operations."""
        return self._append(Kind.NOP, count=_positive("nop", count, MOST_INSTRUCTIONS))

    def multiply(self, count: int, *, chained: bool = True) -> Probe:
        """`count` integer multiplications, each needing the one before (`chained`) or none."""
        return self._append(Kind.MULTIPLY, count=_positive("multiply", count, MOST_INSTRUCTIONS), variant=int(chained))

    def add(self, count: int) -> Probe:
        """`count` chained register additions: one core cycle each: the calibration that turns ticks into cycles."""
        return self._append(Kind.ADD, count=_positive("add", count, MOST_INSTRUCTIONS))

    def transfer(self, count: int) -> Probe:
        """`count` chained round trips of a value from an integer register to a vector register and back."""
        return self._append(Kind.TRANSFER, count=_positive("transfer", count, MOST_INSTRUCTIONS))

    def barrier(self) -> Probe:
        """Wait until every CPU of a `Machine.run_together` has come to its barrier with the same number."""
        return self._append(Kind.BARRIER)

    # -- intervals --------------------------------------------------------------------------------------------------

    def start(self, interval: int = 0, *, bracket: str | None = None, dither: bool = True) -> Probe:
        """Start the clock of `interval`. With `dither` a random wait of up to two clock steps comes first: it makes the
        mean of coarse samples unbiased, and costs nothing where the clock is fine. Turn it off between two phases that
        must follow each other at once. `bracket` names how the clock is read; by default the machine's best way."""
        return self._mark(Kind.START, interval, bracket, int(dither))

    def stop(self, interval: int = 0, *, bracket: str | None = None) -> Probe:
        """Stop the clock of `interval` once everything since its start is done. `bracket` must equal the start's."""
        return self._mark(Kind.STOP, interval, bracket, 0)

    def paired(self, reference: Probe, *questions: Probe, leads: Sequence[Probe] = ()) -> Probe:
        """This probe, then the reference, nothing, each of the questions, and the reference again, each in an interval
        of its own, back to back: interval 0, 1, 2 to n + 1, and n + 2.

        The reference is work of a known number of core cycles. A core's clock wanders by percents within a second, so
        only its ratio to a reference beside it says how many cycles a question took; the empty interval behind the
        first reference is what a bracket adds (an empty interval behind evictions would be cold, and too long).
        `leads` are what is done before each question and not timed. `stats.pairs` turns the ticks into cycles."""
        probe, untimed = self, (Probe(), Probe(), *leads)
        for number, part in enumerate((reference, Probe(), *questions, reference)):
            probe = (probe + untimed[number] if number < len(untimed) else probe).start(number)
            probe = (probe + part).stop(number)
        return probe

    # -- composition ------------------------------------------------------------------------------------------------

    def repeat(self, count: int, body: Probe, *, advance: int = 0) -> Probe:
        """Run `body` `count` times in a loop, so its instructions keep their addresses; each round moves every operand
        by `advance` bytes. Loops don't nest, and hold no start, stop or barrier."""
        inner = {Kind(kind) for kind in body.rows[:, 0]}
        if inner & {Kind.REPEAT, Kind.START, Kind.STOP, Kind.BARRIER}:
            raise ProbeError("a repeated body can't hold another repeat, a start, a stop or a barrier")
        if not inner:
            raise ProbeError("a repeated body needs at least one operation")
        if not -MOST_OFFSET <= advance < MOST_OFFSET:
            raise ProbeError(f"an advance of {advance} bytes does not fit 32 bits")
        opened = self._append(Kind.REPEAT, count=_positive("repeat", count), offset=advance)
        return (opened + body)._append(Kind.END)

    def __add__(self, other: Probe) -> Probe:
        """This probe followed by `other`; equal bases and instruction addresses are the same ones."""
        bases = list(dict.fromkeys((*self.bases, *other.bases)))
        addresses = list(self.instruction_addresses)
        for address in other.instruction_addresses:
            merge_address(addresses, address)
        rows = other.rows.copy()
        labels = [address.label for address in addresses]
        _renumber(rows, "base", [bases.index(base) for base in other.bases])
        _renumber(rows, "ip", [labels.index(address.label) for address in other.instruction_addresses])
        _renumber(rows, "after", range(len(self), len(self) + len(other)))
        return Probe(self.packed + rows.tobytes(), tuple(bases), tuple(addresses))

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.packed) // ROW_BYTES

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The operations as a read-only table, shape (operations, len(COLUMNS)); see `COLUMNS`."""
        return np.frombuffer(self.packed, dtype=np.int64).reshape(-1, len(COLUMNS))

    @cached_property
    def intervals(self) -> int:
        """How many intervals the probe times: one more than the highest number used.

        Raises `ProbeError` where an interval is started or stopped twice, never stopped, or numbers are left out."""
        return count_intervals(self.rows)

    @property
    def operations(self) -> Iterator[Operation]:
        """The operations one by one, with names."""
        for row in self.rows.tolist():
            yield named(self.bases, self.instruction_addresses, row)

    def __str__(self) -> str:
        from setebench.probe.notation import render  # notation builds on this module

        return render(self)

    # -- building ---------------------------------------------------------------------------------------------------

    def _append(self, kind: Kind, **columns: int) -> Probe:
        return Probe(self.packed + pack(kind, **columns), self.bases, self.instruction_addresses)

    def _mark(self, kind: Kind, interval: int, bracket: str | None, dither: int) -> Probe:
        if not 0 <= interval < MAX_INTERVALS:
            raise ProbeError(f"intervals are numbered 0 to {MAX_INTERVALS - 1}, not {interval}")
        variant = -1 if bracket is None else _choice("bracket", bracket, BRACKETS)
        return self._append(kind, interval=interval, variant=variant, dither=dither)

    def _access(self, kind: Kind, where: Base | Operand, place: Place, **columns: int) -> Probe:
        operand = Operand(where) if isinstance(where, Base) else where
        if not -MOST_OFFSET <= operand.offset < MOST_OFFSET:
            raise ProbeError(f"offset {operand.offset} of {operand.base.name} does not fit 32 bits; use another base")
        bases = self.bases if operand.base in self.bases else (*self.bases, operand.base)
        addresses, ip, after = self.instruction_addresses, -1, place.get("after")
        label, bits = place.get("ip"), place.get("ip_bits")
        if bits is not None and not 0 <= bits < 2**IP_SPAN_BITS:
            raise ProbeError(f"ip_bits must lie in 0 to 2**{IP_SPAN_BITS} - 1, not {bits}")
        if label is not None or bits is not None:
            merged = list(addresses)
            ip = merge_address(merged, InstructionAddress(f"@{bits:#x}" if label is None else label, bits))
            addresses = tuple(merged)
        columns |= {"base": bases.index(operand.base), "offset": operand.offset, "ip": ip}
        columns |= {} if after is None else {"after": load_row(self.rows, after)}
        return Probe(self.packed + pack(kind, **columns), bases, addresses)


def _renumber(rows: NDArray[np.int64], name: str, numbers: Sequence[int]) -> None:
    column = rows[:, COLUMNS.index(name)]
    used = column >= 0
    if used.any():
        column[used] = np.asarray(numbers, dtype=np.int64)[column[used]]


def _positive(what: str, count: int, most: int = MOST_TIMES) -> int:
    """The count. Raises `ProbeError` unless it lies in 1 to `most`."""
    if not 0 < count <= most:
        raise ProbeError(f"{what} takes a count from 1 to {most}, not {count}")
    return count


def _choice(what: str, name: str, names: tuple[str, ...]) -> int:
    """Index of the name. Raises `ProbeError` for an unknown one."""
    if name not in names:
        raise ProbeError(f"unknown {what} {name!r}; one of {', '.join(names)}")
    return names.index(name)


def _access_size(size: int) -> int:
    """The size in bytes. Raises `ProbeError` for one that no access has."""
    if size not in ACCESS_SIZES:
        raise ProbeError(f"an access has 8, 16, 32 or 64 bytes, not {size}")
    return size


# -- placements -------------------------------------------------------------------------------------------------------


Placements = Mapping[Base, ArrayLike] | int
"""For every base one address per repetition (or one for all); for a probe without bases the number of repetitions."""


def _addresses(base: Base, given: ArrayLike) -> NDArray[np.int64]:
    """`given` as int64, never rounded or wrapped: an address that is a little wrong measures something else."""
    column = np.asarray(given)
    if column.ndim > 1:
        raise ProbeError(f"{base.name} needs one address per repetition, not an array of {column.ndim} dimensions")
    fits = column.dtype.kind == "i" or (column.dtype.kind == "u" and not (column > np.iinfo(np.int64).max).any())
    if column.size and not fits:
        raise ProbeError(f"{base.name} has an address that is no signed 64-bit integer")
    return column.astype(np.int64, copy=False)


def placement_table(probe: Probe, placements: Placements) -> NDArray[np.int64]:
    """The addresses of `probe.bases`, shape (repetitions, bases), C-contiguous int64.

    Bases of the mapping that the probe does not use still say how many repetitions there are.
    Raises `ProbeError` for a missing base, arrays of different lengths, or addresses that are no 64-bit integers.
    """
    if isinstance(placements, int):
        if probe.bases:
            raise ProbeError(f"no placement for {', '.join(base.name for base in probe.bases)}")
        if placements < 0:
            raise ProbeError(f"the number of repetitions can't be {placements}")
        return np.empty((placements, 0), dtype=np.int64)
    columns = {base: _addresses(base, given) for base, given in placements.items()}
    lengths = {len(column) for column in columns.values() if column.ndim}
    if len(lengths) > 1:
        raise ProbeError(f"placements differ in length: {sorted(lengths)}")
    repetitions = lengths.pop() if lengths else 1
    missing = [base.name for base in probe.bases if base not in columns]
    if missing:
        raise ProbeError(f"no placement for {', '.join(missing)}")
    table = np.empty((repetitions, len(probe.bases)), dtype=np.int64)
    for index, base in enumerate(probe.bases):
        table[:, index] = columns[base]
    return table
