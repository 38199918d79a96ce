"""Kinds of records that the kernel puts into ring buffers, as plain data."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from setebench.native.perf.sampling.data_source import DataSource, Weights


class SampleId(NamedTuple):
    """Whose record it is, as far as the event's sample_type asks for it."""

    pid: int | None = None
    tid: int | None = None
    time: int | None = None
    id: int | None = None
    stream_id: int | None = None
    cpu: int | None = None


class SampleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One sample. None: not asked for. `address` is that of the data, `ip` of the instruction, which is `exact` where
    the hardware caught it; `time` in ns of the event's clock; `chain` holds return addresses, innermost first."""

    mode: str
    exact: bool
    who: SampleId
    ip: int | None = None
    address: int | None = None
    physical_address: int | None = None
    period: int | None = None
    chain: tuple[int, ...] = ()
    weights: Weights | None = None
    source: DataSource | None = None
    page_bytes: int | None = None


class ThreadCount(msgspec.Struct, frozen=True, kw_only=True):
    """What an event that is inherited counted of one thread of its own, written as the thread ended (`inherit_stat`).
    `enabled` and `running` in ns."""

    pid: int
    tid: int
    value: int
    enabled: int = 0
    running: int = 0


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """So many records found no room in the buffer."""

    records: int
    who: SampleId


class Throttled(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel stopped taking samples (`on`), or went on: there were more than it allows a second."""

    on: bool
    time: int
    id: int


class Mapped(msgspec.Struct, frozen=True, kw_only=True):
    """A process mapped a file. `offset_bytes` is that of the mapping's begin in the file; `inode` is 0 where older
    kernels don't say it."""

    pid: int
    tid: int
    address: int
    size_bytes: int
    offset_bytes: int
    path: str
    executable: bool
    who: SampleId
    inode: int = 0


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """A thread got a name, by itself or by starting a program (`of_exec`)."""

    pid: int
    tid: int
    name: str
    of_exec: bool
    who: SampleId


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """Thread `parent_tid` of process `parent_pid` started thread `tid` of process `pid`."""

    pid: int
    parent_pid: int
    tid: int
    parent_tid: int
    time: int


class Ended(Started, frozen=True, kw_only=True):
    """The thread `tid` ended."""


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a kind that nothing here needs, by its number."""

    kind: int


Record = SampleRecord | Lost | Throttled | Mapped | Renamed | Started | Ended | Other | ThreadCount
