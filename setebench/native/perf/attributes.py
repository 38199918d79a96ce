"""What an event is opened with: `struct perf_event_attr` of the kernel, as a record and as its bytes.

Layout and bits: linux/perf_event.h (user interface header of the kernel, stable by its own promise) and
perf_event_open(2).
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

import msgspec

EVERYBODY = -1
"""`pid` for events of whatever runs on a CPU; 0 is the calling thread."""
BYTES = 112
"""Size of the structure that kernels since 4.8 know (PERF_ATTR_SIZE_VER5)."""
_LAYOUT = struct.Struct("=II QQQQQ II QQQQ Ii QI HH")
_READ_FORMAT = 1 | 2 | 8
"""Times enabled and running, and the counts of a group: what `_perf.read_values` decodes."""


class Type(IntEnum):
    """Types that the kernel defines itself; those of other PMUs stand in /sys/bus/event_source/devices/*/type."""

    HARDWARE = 0
    SOFTWARE = 1
    RAW = 4


class Software(IntEnum):
    """`config` of software events: what the kernel itself counts."""

    CPU_CLOCK = 0
    TASK_CLOCK = 1
    PAGE_FAULTS = 2
    CONTEXT_SWITCHES = 3
    CPU_MIGRATIONS = 4


class Flag(IntFlag):
    """Bits of the word of flags."""

    DISABLED = 1 << 0
    INHERIT = 1 << 1
    PINNED = 1 << 2
    EXCLUDE_KERNEL = 1 << 5
    EXCLUDE_HV = 1 << 6
    MMAP = 1 << 8
    COMM = 1 << 9
    ENABLE_ON_EXEC = 1 << 12
    TASK = 1 << 13
    SAMPLE_ID_ALL = 1 << 18
    COMM_EXEC = 1 << 24
    USE_CLOCKID = 1 << 25


USER_ONLY = Flag.EXCLUDE_KERNEL | Flag.EXCLUDE_HV


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One event to be opened: of thread `pid` (-1: of everybody) on `cpu` (-1: on any). Other fields have the kernel's
    names and meanings (perf_event_open(2))."""

    type: int
    config: int = 0
    config1: int = 0
    config2: int = 0
    sample_period: int = 0
    sample_type: int = 0
    clockid: int = 0
    flags: int = 0
    pid: int = 0
    cpu: int = -1

    def with_flags(self, flags: int) -> Attributes:
        """The event with these flags too."""
        return msgspec.structs.replace(self, flags=self.flags | flags)

    def packed(self) -> bytes:
        """The structure with its size in it. Raises ValueError for a number that its field can't hold."""
        head = (self.type, BYTES, self.config, self.sample_period, self.sample_type, _READ_FORMAT, self.flags, 0)
        rest = (0, self.config1, self.config2, 0, 0, 0, self.clockid, *(0,) * 4)
        try:
            return _LAYOUT.pack(*head, *rest)
        except struct.error as error:
            raise ValueError(f"not an event: {error}") from error
