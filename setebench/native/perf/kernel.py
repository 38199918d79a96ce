"""What the code above needs of the kernel, as one object: the compiled module `_perf`, or a fake of it in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from setebench.native.perf._perf import PerfError, Reading
from setebench.native.perf.attributes import Attributes

__all__ = [
    "CLOSE_ON_EXEC",
    "EVERYBODY",
    "NO_GROUP",
    "THIS_THREAD",
    "EventPage",
    "Kernel",
    "PerfError",
    "Reading",
    "close_all",
]

THIS_THREAD = 0
"""`pid` for events of the calling thread."""
EVERYBODY = -1
"""`pid` for events of whatever runs on a CPU; `cpu` for events of a thread on whatever CPU it runs."""
NO_GROUP = -1
CLOSE_ON_EXEC = 8
"""PERF_FLAG_FD_CLOEXEC: a program that is started later does not inherit the descriptor."""


class EventPage(Protocol):
    """The page that the kernel keeps about one open event, with its ring buffer where one was asked for."""

    @property
    def index(self) -> int:
        """1 more than the hardware counter that the event has now; 0 where it has none."""
        ...

    @property
    def can_rdpmc(self) -> bool:
        """Whether the kernel lets this thread read the event's counter by an instruction, now."""
        ...

    def count(self) -> int | None:
        """The count by rdpmc where `can_rdpmc`, else None: read the descriptor then."""
        ...

    def drain(self) -> list[bytes]:
        """Whole records from the ring buffer, oldest first; they are gone from it then."""
        ...

    def close(self) -> None:
        """Unmap it. May be called twice."""
        ...


class Kernel(Protocol):
    """Calls of the kernel about events. All but `read_values` and `map_page` raise `PerfError`, and so do these."""

    def open_event(
        self,
        attributes: Attributes,
        pid: int = THIS_THREAD,
        cpu: int = -1,
        group_fd: int = NO_GROUP,
        flags: int = CLOSE_ON_EXEC,
    ) -> int:
        """A descriptor for this event of thread `pid` (0: the caller; -1: everybody on `cpu`)."""
        ...

    def enable(self, fd: int, group: bool = False) -> None:
        """Let an event count, or with `group` the leader `fd` and all its members."""
        ...

    def disable(self, fd: int, group: bool = False) -> None:
        """Stop counting; the count stays."""
        ...

    def read_values(self, fd: int, count: int) -> Reading | None:
        """Times and values of a group of `count` events (opened with `attributes.GROUP`); None where the kernel gave
        no bytes: the pinned group found no free counter."""
        ...

    def map_page(self, fd: int, data_pages: int = 0, own: bool = False) -> EventPage:
        """Map the event's page, and a ring buffer of `data_pages` (a power of two) behind it. `own`: the event counts
        the calling thread on any CPU, so that this thread may read its counter by rdpmc."""
        ...

    def close(self, fd: int) -> None:
        """Close the descriptor; the event goes with it."""
        ...


def close_all(kernel: Kernel, fds: Sequence[int]) -> None:
    """Close these descriptors, members before their leader (the order of opening reversed)."""
    for fd in reversed(fds):
        kernel.close(fd)
