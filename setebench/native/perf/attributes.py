"""What an event is asked for with: `struct perf_event_attr` of the kernel, as a record and as its bytes.

Layout and bits: linux/perf_event.h (user interface header of the kernel, stable by its own promise) and
perf_event_open(2).
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

import msgspec

USUAL_BYTES = 112
"""Size of the structure that kernels since 4.8 know (PERF_ATTR_SIZE_VER5); all fields but `config3` lie within."""
LARGEST_BYTES = 136
"""With `config3` (PERF_ATTR_SIZE_VER8, Linux 6.3)."""
SMALLEST_BYTES = 64
"""What every kernel knows (PERF_ATTR_SIZE_VER0)."""

_LAYOUT = struct.Struct("=II QQQQQ II QQQQ Ii QI HH II QQ")


class Type(IntEnum):
    """Types that the kernel defines itself; those of other PMUs stand in /sys/bus/event_source/devices/*/type."""

    HARDWARE = 0
    SOFTWARE = 1
    TRACEPOINT = 2
    HW_CACHE = 3
    RAW = 4
    BREAKPOINT = 5


class Software(IntEnum):
    """`config` of software events: what the kernel itself counts."""

    CPU_CLOCK = 0
    TASK_CLOCK = 1
    PAGE_FAULTS = 2
    CONTEXT_SWITCHES = 3
    CPU_MIGRATIONS = 4
    PAGE_FAULTS_MIN = 5
    PAGE_FAULTS_MAJ = 6
    ALIGNMENT_FAULTS = 7
    EMULATION_FAULTS = 8
    DUMMY = 9


class Hardware(IntEnum):
    """`config` of generic hardware events, which the kernel translates for the CPU it knows."""

    CPU_CYCLES = 0
    INSTRUCTIONS = 1
    CACHE_REFERENCES = 2
    CACHE_MISSES = 3
    BRANCH_INSTRUCTIONS = 4
    BRANCH_MISSES = 5


class Breakpoint(IntFlag):
    """`bp_type`: what a breakpoint stops at."""

    READ = 1
    WRITE = 2
    EXECUTE = 4


class ReadFormat(IntFlag):
    """What read(2) returns beside the count."""

    TIME_ENABLED = 1
    TIME_RUNNING = 2
    ID = 4
    GROUP = 8
    LOST = 16


TIMES = ReadFormat.TIME_ENABLED | ReadFormat.TIME_RUNNING
GROUP = TIMES | ReadFormat.GROUP
"""The format that `read_values` decodes."""


class Sample(IntFlag):
    """`sample_type`: fields of a sample, in the order in which the kernel writes them (see `sampling`)."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    READ = 1 << 4
    CALLCHAIN = 1 << 5
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    RAW = 1 << 10
    BRANCH_STACK = 1 << 11
    REGS_USER = 1 << 12
    STACK_USER = 1 << 13
    WEIGHT = 1 << 14
    DATA_SRC = 1 << 15
    IDENTIFIER = 1 << 16
    TRANSACTION = 1 << 17
    REGS_INTR = 1 << 18
    PHYS_ADDR = 1 << 19
    AUX = 1 << 20
    CGROUP = 1 << 21
    DATA_PAGE_SIZE = 1 << 22
    CODE_PAGE_SIZE = 1 << 23
    WEIGHT_STRUCT = 1 << 24


FLAG_BITS = {
    "disabled": 0,
    "inherit": 1,
    "pinned": 2,
    "exclusive": 3,
    "exclude_user": 4,
    "exclude_kernel": 5,
    "exclude_hv": 6,
    "exclude_idle": 7,
    "mmap": 8,
    "comm": 9,
    "freq": 10,
    "inherit_stat": 11,
    "enable_on_exec": 12,
    "task": 13,
    "watermark": 14,
    "mmap_data": 17,
    "sample_id_all": 18,
    "exclude_host": 19,
    "exclude_guest": 20,
    "exclude_callchain_kernel": 21,
    "exclude_callchain_user": 22,
    "mmap2": 23,
    "comm_exec": 24,
    "use_clockid": 25,
    "context_switch": 26,
    "inherit_thread": 35,
    "remove_on_exec": 36,
}
"""Bits of the word of flags by the name of their field; two bits from 15 on are `precise_ip`."""
_PRECISE_SHIFT = 15


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One event to be opened. Fields have the kernel's names and meanings (perf_event_open(2)).

    `sample_period` is a frequency in samples a second where `freq` is set; `wakeup` counts samples, or bytes where
    `watermark` is set. `bp_address` and `bp_bytes` of a breakpoint share their place with `config1` and `config2`."""

    type: int
    config: int = 0
    config1: int = 0
    config2: int = 0
    config3: int = 0
    sample_period: int = 0
    sample_type: int = 0
    read_format: int = GROUP
    wakeup: int = 0
    bp_type: int = 0
    bp_address: int = 0
    bp_bytes: int = 0
    branch_sample_type: int = 0
    clockid: int = 0
    sample_max_stack: int = 0
    precise_ip: int = 0
    disabled: bool = False
    inherit: bool = False
    pinned: bool = False
    exclusive: bool = False
    exclude_user: bool = False
    exclude_kernel: bool = False
    exclude_hv: bool = False
    exclude_idle: bool = False
    mmap: bool = False
    comm: bool = False
    freq: bool = False
    inherit_stat: bool = False
    enable_on_exec: bool = False
    task: bool = False
    watermark: bool = False
    mmap_data: bool = False
    sample_id_all: bool = False
    exclude_host: bool = False
    exclude_guest: bool = False
    exclude_callchain_kernel: bool = False
    exclude_callchain_user: bool = False
    mmap2: bool = False
    comm_exec: bool = False
    use_clockid: bool = False
    context_switch: bool = False
    inherit_thread: bool = False
    remove_on_exec: bool = False

    @property
    def flags(self) -> int:
        """The word of flags."""
        word = (self.precise_ip & 3) << _PRECISE_SHIFT
        for name, bit in FLAG_BITS.items():
            word |= getattr(self, name) << bit
        return word

    @property
    def bytes_needed(self) -> int:
        """Bytes from the begin of the structure to the end of the last field that isn't zero; at least 64."""
        return max(SMALLEST_BYTES, -(-len(self._all().rstrip(b"\0")) // 8) * 8)

    def packed(self, size: int | None = None) -> bytes:
        """The structure with its size in it: 112 bytes, or 136 where `config3` is used, unless another size is given.

        Raises ValueError for a size that would cut off a field in use, or for a number that its field can't hold."""
        chosen = (LARGEST_BYTES if self.config3 else USUAL_BYTES) if size is None else size
        if chosen < self.bytes_needed:
            raise ValueError(f"an event with fields up to byte {self.bytes_needed} does not fit {chosen} bytes")
        whole = self._all().ljust(chosen, b"\0")[:chosen]
        return whole[:4] + struct.pack("=I", chosen) + whole[8:]

    def _all(self) -> bytes:
        try:
            return _LAYOUT.pack(*self._fields())
        except struct.error as error:
            raise ValueError(f"not an event: {error}") from error

    def _fields(self) -> tuple[int, ...]:
        first, second = self.config1, self.config2
        if self.type == Type.BREAKPOINT:
            first, second = self.bp_address, self.bp_bytes
        return (
            *(self.type, 0, self.config, self.sample_period, self.sample_type, self.read_format, self.flags),
            *(self.wakeup, self.bp_type, first, second, self.branch_sample_type),
            *(0, 0, self.clockid, 0, 0),  # registers and stack of the user: never sampled here
            *(self.sample_max_stack, 0, 0, 0, 0, self.config3),
        )
