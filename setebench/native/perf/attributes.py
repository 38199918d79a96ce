"""What an event is asked for with: `struct perf_event_attr` of the kernel, as a record and as its bytes.

Layout and bits: linux/perf_event.h (user interface header of the kernel, stable by its own promise) and
perf_event_open(2).
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

import msgspec

THIS_THREAD = 0
"""`pid` for events of the calling thread."""
EVERYBODY = -1
"""`pid` for events of whatever runs on a CPU."""

USUAL_BYTES, LARGEST_BYTES = 112, 136
"""Size of the structure that kernels since 4.8 know (PERF_ATTR_SIZE_VER5), and with `config3` (VER8, Linux 6.3)."""
_LAYOUT = struct.Struct("=II QQQQQ II QQQQ Ii QI HH II QQ")
_PRECISE_SHIFT = 15


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


GROUP = 1 | 2 | 8
"""`read_format` that `read_values` decodes: times enabled and running, and the counts of a group."""


class Sample(IntFlag):
    """`sample_type`: fields of a sample (see `sampling`)."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    WEIGHT = 1 << 14
    DATA_SRC = 1 << 15
    IDENTIFIER = 1 << 16


FLAG_BITS = {
    "disabled": 0,
    "inherit": 1,
    "pinned": 2,
    "exclude_user": 4,
    "exclude_kernel": 5,
    "exclude_hv": 6,
    "mmap": 8,
    "comm": 9,
    "freq": 10,
    "inherit_stat": 11,
    "enable_on_exec": 12,
    "task": 13,
    "sample_id_all": 18,
    "exclude_host": 19,
    "exclude_guest": 20,
    "mmap2": 23,
    "comm_exec": 24,
    "use_clockid": 25,
}
"""Bits of the word of flags by the name of their field; two bits from 15 on are `precise_ip`."""


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One event to be opened. Fields have the kernel's names and meanings (perf_event_open(2)).

    `sample_period` is a frequency in samples a second where `freq` is set. `config1` and `config2` of a breakpoint are
    its address and length."""

    type: int
    config: int = 0
    config1: int = 0
    config2: int = 0
    config3: int = 0
    sample_period: int = 0
    sample_type: int = 0
    bp_type: int = 0
    clockid: int = 0
    precise_ip: int = 0
    disabled: bool = False
    inherit: bool = False
    pinned: bool = False
    exclude_user: bool = False
    exclude_kernel: bool = False
    exclude_hv: bool = False
    mmap: bool = False
    comm: bool = False
    freq: bool = False
    inherit_stat: bool = False
    enable_on_exec: bool = False
    task: bool = False
    sample_id_all: bool = False
    exclude_host: bool = False
    exclude_guest: bool = False
    mmap2: bool = False
    comm_exec: bool = False
    use_clockid: bool = False

    def packed(self) -> bytes:
        """The structure with its size in it: 112 bytes, or 136 where `config3` is used.

        Raises ValueError for a number that its field can't hold."""
        size = LARGEST_BYTES if self.config3 else USUAL_BYTES
        flags = (self.precise_ip & 3) << _PRECISE_SHIFT
        for name, bit in FLAG_BITS.items():
            flags |= getattr(self, name) << bit
        head = (self.type, size, self.config, self.sample_period, self.sample_type, GROUP, flags, 0, self.bp_type)
        rest = (self.config1, self.config2, 0, 0, 0, self.clockid, *(0,) * 7, self.config3)
        try:
            return _LAYOUT.pack(*head, *rest)[:size]
        except struct.error as error:
            raise ValueError(f"not an event: {error}") from error
