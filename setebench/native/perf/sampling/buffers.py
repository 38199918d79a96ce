"""Sampled events with their ring buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from setebench.errors import UnsupportedError
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Sample
from setebench.native.perf.kernel import NO_GROUP, EventPage, Kernel, PerfError, close_all
from setebench.native.perf.messages import Request, explain, no_buffer, read_situation
from setebench.native.perf.sampling.kinds import Lost, Record, SampleRecord
from setebench.native.perf.sampling.records import parse_record

T = TypeVar("T")
DATA_PAGES = 16
"""64 KiB a buffer: over a thousand samples of a few words, and eight CPUs' buffers fit into the 516 KiB that the kernel
lets every user lock by default (perf_event_mlock_kb)."""
ANY_CPU = (-1,)


class Sampler:
    """Samples of one event of a thread, or on each of some CPUs, from `enable` on.

    A context manager that closes it. An event that new threads inherit can have a buffer per CPU only: name the
    CPUs then."""

    def __init__(
        self,
        attributes: Attributes,
        pid: int = 0,
        cpus: Sequence[int] = ANY_CPU,
        data_pages: int = DATA_PAGES,
        kernel: Kernel = _perf,
    ) -> None:
        """Open it, at rest where the attributes say `disabled`. `pid` 0 is the calling thread, -1 everybody.

        Raises `UnsupportedError` with the reason where the kernel refuses."""
        self._kernel = kernel
        self._attributes = attributes
        self._fds: list[int] = []
        self._pages: list[EventPage] = []
        self.lost = 0
        """Records that found no room so far, as far as they were drained."""
        try:
            for cpu in cpus:
                self._open(pid, cpu, data_pages)
        except BaseException:
            self.close()
            raise

    def _open(self, pid: int, cpu: int, data_pages: int) -> None:
        fd = self._opened(self._attributes, pid, cpu)
        self._fds.append(fd)
        page = self._asked(lambda: self._kernel.map_page(fd, data_pages), lambda number: no_buffer(number, data_pages))
        self._pages.append(page)

    def _opened(self, attributes: Attributes, pid: int, cpu: int, group_fd: int = NO_GROUP) -> int:
        request = Request(attributes=attributes, pid=pid, cpu=cpu)
        return self._asked(
            lambda: self._kernel.open_event(attributes, pid, cpu, group_fd),
            lambda number: explain(number, request, read_situation()),
        )

    @staticmethod
    def _asked(call: Callable[[], T], reason: Callable[[int], str]) -> T:
        try:
            return call()
        except PerfError as error:
            raise UnsupportedError(f"no samples: {reason(error.errno or 0)}") from error

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable (poll) as `wakeup` says."""
        return tuple(self._fds)

    def enable(self) -> None:
        """Begin to take samples, or go on."""
        for fd in self._fds:
            self._kernel.enable(fd)

    def disable(self) -> None:
        """Stop; what is in the buffers stays there."""
        for fd in self._fds:
            self._kernel.disable(fd)

    def drain(self) -> list[Record]:
        """Records since the last call, buffer by buffer, in the order of their time where samples have one.

        Raises ValueError for records that are not of these attributes."""
        records = [parse_record(data, self._attributes) for page in self._pages for data in page.drain()]
        self.lost += sum(record.records for record in records if isinstance(record, Lost))
        if self._attributes.sample_type & Sample.TIME and len(self._pages) > 1:
            records.sort(key=_time)
        return records

    def samples(self) -> list[SampleRecord]:
        """The samples among `drain`; what else was there is dropped."""
        return [record for record in self.drain() if isinstance(record, SampleRecord)]

    def close(self) -> None:
        """Unmap and close everything. May be called twice."""
        while self._pages:
            self._pages.pop().close()
        fds, self._fds = self._fds, []
        close_all(self._kernel, fds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _time(record: Record) -> int:
    """When it happened; 0 for records that do not say, which come first."""
    who = getattr(record, "who", None)
    time = getattr(record, "time", None) if who is None else who.time
    return int(time or 0)
