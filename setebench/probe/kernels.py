"""Streaming kernels: what each reads, writes and computes, to the byte.

`Probe.stream` runs one of these over arrays that lie one behind the other (`array_spacing`). The assembly is in
asm/stream.S; tests hold the instructions and simulated event counts against this table, and the numbers that a kernel
leaves in memory against its `formula`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BLOCK_BYTES = 256
"""Bytes of every array that one round of an unrolled loop handles; arrays are whole blocks, whatever the loop."""

CHUNK_BYTES = 64
"""What kernels that go by lines step over: prefetches, and random order."""

SCALAR = 3.0
"""The constant s of the kernels. Stored, too: some cores save themselves the writing of zeros."""

MOST_ARRAY_BYTES = (1 << 31) - (1 << 13)
"""Arrays of one stream; distances in the machine code have 32 bits."""

ACCUMULATORS = 4
"""Partial sums of a reduction, each as wide as an access."""

RANDOM_FACTOR, RANDOM_STEP = 1664525, 12345
"""The random order: chunk n is followed by chunk n * factor + step modulo the number of chunks. A factor of 1 modulo 4
and an odd step take each chunk of a power of two once (Hull and Dobell 1962)."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel. Arrays are numbered 0, 1, 2, 3 for a, b, c, d, in the order in which they lie in memory.

    `reads` and `writes` name arrays whose every element is read or written once; `bypass` says that writes are
    non-temporal, so that no line is fetched to be overwritten; `fetches` names arrays of which every line is
    prefetched. `flops` counts per element of 8 bytes.
    """

    name: str
    formula: str
    arrays: int = 1
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    fetches: tuple[int, ...] = ()
    flops: int = 0
    bypass: bool = False
    random: bool = False

    @property
    def accesses(self) -> bool:
        """Whether it loads or stores, and so comes in several widths."""
        return bool(self.reads or self.writes)

    @property
    def forms(self) -> tuple[bool, ...]:
        """The forms of loop that it comes in, as `Probe.stream` takes them: unrolled (False) and rolled (True). Random
        order has one, as it teaches no prefetcher by which instruction it comes."""
        return (False,) if self.random else (False, True)

    @property
    def read_bytes(self) -> int:
        """Bytes that the program reads (or prefetches) per block."""
        return BLOCK_BYTES * len(self.reads or self.fetches)

    @property
    def written_bytes(self) -> int:
        """Bytes that the program writes per block."""
        return BLOCK_BYTES * len(self.writes)

    @property
    def allocated_bytes(self) -> int:
        """Bytes per block that caches fetch only because they will be overwritten (write-allocate)."""
        return 0 if self.bypass else BLOCK_BYTES * len(set(self.writes) - set(self.reads))

    @property
    def program_bytes(self) -> int:
        """Bytes per block that the program reads and writes."""
        return self.read_bytes + self.written_bytes

    @property
    def traffic_bytes(self) -> int:
        """Bytes per block that move to and from a level that holds none of the lines in the levels above it."""
        return self.program_bytes + self.allocated_bytes

    @property
    def block_flops(self) -> int:
        """Floating-point operations per block."""
        return self.flops * BLOCK_BYTES // 8


def round_bytes(width: int, rolled: bool) -> int:
    """Bytes of every array that one round of a loop handles.

    A rolled loop makes one access of `width` bytes to each array (0: one prefetch of a chunk), an unrolled one those of
    a block. A prefetcher that follows instruction addresses sees one stream of each array in the first, several in the
    second, and some bring fewer lines then. The second spends fewer instructions on the loop. Which is faster depends
    on the CPU and on where the data lies."""
    return (width or CHUNK_BYTES) if rolled else BLOCK_BYTES


def array_spacing(array_bytes: int) -> int:
    """Distance from one array of a stream to the next, bytes.

    The same place in two arrays differs by 17 lines modulo 4096 bytes, so no load appears, by its low address bits, as
    if it came from a store just before (4 KiB aliasing), and a reduction has room for its sums behind an array."""
    least = array_bytes + ACCUMULATORS * 64
    return least + (17 * 64 - least) % 4096


def stream_bytes(kernel: Kernel, array_bytes: int) -> int:
    """Memory that a stream takes: its arrays, the gaps between, and the room behind the last."""
    return kernel.arrays * array_spacing(array_bytes)


def _kernel(name: str, formula: str, flops: int = 0) -> Kernel:
    """A kernel by its formula: the arrays that it names on the left are written, those on the right read."""
    right = formula.rpartition(" = ")[2]
    written = formula.startswith("a[i] =")
    return Kernel(
        name=name,
        formula=formula,
        arrays=max("abcd".index(letter) for letter in re.findall(r"(\w)\[i\]", formula)) + 1,
        reads=tuple(sorted({"abcd".index(letter) for letter in re.findall(r"(\w)\[i\]", right)})),
        writes=(0,) if written else (),
        flops=flops,
        bypass="non-temporal" in formula,
        random="random" in formula,
    )


_TABLE = (
    _kernel("load", "a[i]"),
    _kernel("store", "a[i] = s"),
    _kernel("store_nt", "a[i] = s, non-temporal"),
    _kernel("copy", "a[i] = b[i]"),
    _kernel("copy_nt", "a[i] = b[i], non-temporal"),
    _kernel("scale", "a[i] = s * b[i]", 1),
    _kernel("add", "a[i] = b[i] + c[i]", 1),
    # s - a[i], not s * a[i]: a thousand passes over the same data neither overflow nor come to rest
    _kernel("update", "a[i] = s - a[i]", 1),
    _kernel("ddot", "sum += a[i] * b[i]", flops=2),
    _kernel("daxpy", "a[i] = a[i] + s * b[i]", 2),
    _kernel("triad", "a[i] = b[i] + s * c[i]", 2),
    _kernel("triad_nt", "a[i] = b[i] + s * c[i], non-temporal", 2),
    _kernel("vector_triad", "a[i] = b[i] + c[i] * d[i]", 2),
    _kernel("random", "a[i], 64-byte chunks in random order"),
    Kernel(name="prefetch_shared", formula="prefetcht0 of every line", fetches=(0,)),
    Kernel(name="prefetch_exclusive", formula="prefetchw of every line", fetches=(0,)),
)

KERNELS = {kernel.name: kernel for kernel in _TABLE}
"""Every kernel by name; the position is the `variant` of a probe's row."""

NAMES = tuple(KERNELS)
