"""Samples of events: records of the kernel's ring buffers made readable, and the buffers themselves.

Layout of records: linux/perf_event.h, `enum perf_event_type`; they are words of 64 bits but for names. What PEBS or
IBS say of a load the kernel translates into a data-source word (`union perf_mem_data_src`). How loads are sampled
the kernel names: a PMU `ibs_op`, or an event `mem-loads` of the core's PMU, with `mem-loads-aux` as leader of its group
where that is listed too. Nothing here knows a CPU's model.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self, TypeVar

import msgspec

from setebench.errors import UnsupportedError
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Sample
from setebench.native.perf.encode import Encoder, placed_terms
from setebench.native.perf.messages import Request, explain, no_buffer, read_situation
from setebench.native.perf.sysfs import Pmu, core_pmus

T = TypeVar("T")
DATA_PAGES = 16
"""64 KiB a buffer: over a thousand samples of a few words, and eight CPUs' buffers fit into the 516 KiB that the kernel
lets every user lock by default (perf_event_mlock_kb)."""
ANY_CPU = (-1,)

_HEADER = struct.Struct("=IHH")
_HALF = (1 << 32) - 1
_KERNEL_MODE, _MODE_BITS, _OF_EXEC = 1, 7, 1 << 13
_SAMPLE_FIELDS = (
    *(Sample.IDENTIFIER, Sample.IP, Sample.TID, Sample.TIME, Sample.ADDR, Sample.ID, Sample.STREAM_ID, Sample.CPU),
    *(Sample.PERIOD, Sample.WEIGHT, Sample.DATA_SRC),
)
"""What may be asked for, in the order in which a sample holds it; a word each."""
_TRAILER_FIELDS = (Sample.TID, Sample.TIME, Sample.ID, Sample.STREAM_ID, Sample.CPU, Sample.IDENTIFIER)
"""What `sample_id_all` puts behind every other record."""


# -- records ----------------------------------------------------------------------------------------------------------


class SampleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One sample; 0 for what was not asked for. `address` is that of the data, `ip` of the instruction; `time` in ns of
    the event's clock; `source` the data-source word of a sampled load, which took `latency_cycles`."""

    pid: int = 0
    tid: int = 0
    time: int = 0
    ip: int = 0
    address: int = 0
    in_kernel: bool = False
    latency_cycles: int = 0
    source: int = 0


class ThreadCount(NamedTuple):
    """What an event that is inherited counted of one thread of its own, written as the thread ended (`inherit_stat`).
    `enabled` and `running` in ns."""

    tid: int
    value: int
    enabled: int
    running: int


class Lost(NamedTuple):
    """So many records found no room in the buffer."""

    records: int


class Mapped(msgspec.Struct, frozen=True, kw_only=True):
    """A process mapped code. `offset` is that of the mapping's begin in the file; `inode` is 0 for memory without."""

    time: int
    pid: int
    start: int
    end: int
    offset: int
    path: str
    inode: int = 0


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """A thread got a name, by itself or by starting a program (`of_exec`)."""

    time: int
    pid: int
    tid: int
    name: str
    of_exec: bool


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """Thread `parent_tid` of process `parent_pid` started thread `tid` of process `pid`."""

    time: int
    pid: int
    parent_pid: int
    tid: int
    parent_tid: int


Record = SampleRecord | Lost | Mapped | Renamed | Started | ThreadCount


def parse_record(data: bytes, attributes: Attributes) -> Record | None:
    """The record that these bytes are, of an event with these attributes (with `sample_id_all`); None for kinds that
    nothing here needs. Raises ValueError for bytes that end within a field."""
    kind, misc, _size = _HEADER.unpack_from(data)
    words = struct.unpack_from(f"={len(data) // 8 - 1}Q", data, _HEADER.size)
    parse = _PARSERS.get(kind)
    try:
        return None if parse is None else parse(words, misc, attributes, data)
    except IndexError as error:
        raise ValueError(f"a record of {len(data)} bytes ends within a field") from error


Words = tuple[int, ...]


def _sample(words: Words, misc: int, attributes: Attributes, _data: bytes) -> SampleRecord:
    asked = Sample(attributes.sample_type)
    fields = [field for field in _SAMPLE_FIELDS if field in asked]
    if len(words) < len(fields):
        raise IndexError
    found = dict(zip(fields, words, strict=False))
    pid, tid = _halves(found.get(Sample.TID, 0))
    return SampleRecord(
        pid=pid,
        tid=tid,
        time=found.get(Sample.TIME, 0),
        ip=found.get(Sample.IP, 0),
        address=found.get(Sample.ADDR, 0),
        in_kernel=misc & _MODE_BITS == _KERNEL_MODE,
        latency_cycles=found.get(Sample.WEIGHT, 0),
        source=found.get(Sample.DATA_SRC, 0),
    )


def _halves(word: int) -> tuple[int, int]:
    return word & _HALF, word >> 32


def _trailer(words: Words, attributes: Attributes) -> tuple[int, int]:
    """Bytes behind a record that say whose it is, and its time."""
    fields = [field for field in _TRAILER_FIELDS if field in Sample(attributes.sample_type)]
    if len(words) < len(fields):
        raise IndexError
    tail = words[len(words) - len(fields) :]
    return 8 * len(fields), dict(zip(fields, tail, strict=True)).get(Sample.TIME, 0)


def _name(data: bytes, begin: int, behind: int) -> str:
    """Names are bytes of any kind: what isn't UTF-8 is escaped as Python's files do."""
    return data[begin : len(data) - behind].split(b"\0", 1)[0].decode("utf-8", errors="surrogateescape")


def _mapped(words: Words, _misc: int, attributes: Attributes, data: bytes) -> Mapped:
    behind, time = _trailer(words, attributes)
    start, size, offset, inode = words[1], words[2], words[3], words[5]
    path = _name(data, 72, behind)
    return Mapped(time=time, pid=words[0] & _HALF, start=start, end=start + size, offset=offset, path=path, inode=inode)


def _renamed(words: Words, misc: int, attributes: Attributes, data: bytes) -> Renamed:
    behind, time = _trailer(words, attributes)
    pid, tid = _halves(words[0])
    return Renamed(time=time, pid=pid, tid=tid, name=_name(data, 16, behind), of_exec=bool(misc & _OF_EXEC))


def _started(words: Words, _misc: int, _attributes: Attributes, _data: bytes) -> Started:
    (pid, parent_pid), (tid, parent_tid) = _halves(words[0]), _halves(words[1])
    return Started(time=words[2], pid=pid, parent_pid=parent_pid, tid=tid, parent_tid=parent_tid)


def _thread_count(words: Words, _misc: int, _attributes: Attributes, _data: bytes) -> ThreadCount:
    """Of an event that is alone in its group: its identity, the number 1, both times, the count."""
    return ThreadCount(words[0] >> 32, words[4], words[2], words[3])


_PARSERS: dict[int, Callable[[Words, int, Attributes, bytes], Record]] = {
    2: lambda words, *_: Lost(words[1]),
    3: _renamed,
    7: _started,
    8: _thread_count,
    9: _sample,
    10: _mapped,
    13: lambda words, *_: Lost(words[0]),
}
"""By the kernel's number of the record's kind (enum perf_event_type)."""


# -- where a load was served ------------------------------------------------------------------------------------------

_LEVEL_NUMBERS = {1: "l1", 2: "l2", 3: "l3", 4: "l4", 9: "cxl", 11: "any_cache", 12: "lfb", 13: "memory"}
_LEVEL_BITS = {3: "l1", 4: "lfb", 5: "l2", 6: "l3", 7: "memory"}
"""Bits of the older field of levels. Those of remote memory and caches are 8 to 11."""
_LOAD = 2


def served_by(source: int) -> str:
    """The level that served a sampled load: l1, lfb (a line on its way already), l2, l3, memory, remote; "" where the
    hardware did not say, or where the access was no load."""
    bits, remote = source >> 5 & 0x3FFF, source >> 37 & 1
    if source & 0x1F not in (0, _LOAD):
        return ""
    if remote or bits >> 8 & 0xF:
        return "remote"
    newer = _LEVEL_NUMBERS.get(source >> 33 & 0xF, "")
    return newer or next((name for bit, name in _LEVEL_BITS.items() if bits >> bit & 1), "")


def tlb_hit(source: int) -> bool | None:
    """Whether its address was in a TLB; None where the hardware did not say."""
    return {2: True, 4: False}.get(source >> 26 & 6)


# -- buffers ----------------------------------------------------------------------------------------------------------


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
        leader: Attributes | None = None,
    ) -> None:
        """Open it, at rest where the attributes say `disabled`. `pid` 0 is the calling thread, -1 everybody. `leader`:
        an event that the sampled one needs as leader of its group.

        Raises `UnsupportedError` with the reason where the kernel refuses."""
        self._attributes = attributes
        self._leaders: list[int] = []
        self._fds: list[int] = []
        self._pages: list[_perf.Page] = []
        self.lost = 0
        """Records that found no room so far, as far as they were drained."""
        try:
            for cpu in cpus:
                if leader is not None:
                    self._leaders.append(_opened(leader, pid, cpu))
                self._fds.append(fd := _opened(attributes, pid, cpu, *self._leaders[-1:]))
                self._pages.append(_mapped_buffer(fd, data_pages))
        except BaseException:
            self.close()
            raise

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors of the sampled event."""
        return tuple(self._fds)

    def enable(self) -> None:
        """Begin to take samples, or go on."""
        for fd in (*self._leaders, *self._fds):
            _perf.enable(fd)

    def disable(self) -> None:
        """Stop; what is in the buffers stays there."""
        for fd in (*self._fds, *self._leaders):
            _perf.disable(fd)

    def drain(self) -> list[Record]:
        """Records since the last call, buffer by buffer."""
        parsed = (parse_record(data, self._attributes) for page in self._pages for data in page.drain())
        records = [record for record in parsed if record is not None]
        self.lost += sum(record.records for record in records if isinstance(record, Lost))
        return records

    def close(self) -> None:
        """Unmap and close everything. May be called twice."""
        while self._pages:
            self._pages.pop().close()
        fds, self._fds, self._leaders = [*self._fds, *self._leaders], [], []
        for fd in fds:
            _perf.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(attributes: Attributes, pid: int, cpu: int, group_fd: int = -1) -> int:
    try:
        return _perf.open_event(attributes, pid, cpu, group_fd)
    except _perf.PerfError as error:
        request = Request(attributes=attributes, pid=pid, cpu=cpu)
        reason = explain(error.errno or 0, request, read_situation())
        raise UnsupportedError(f"no samples: {reason}") from error


def _mapped_buffer(fd: int, data_pages: int) -> _perf.Page:
    try:
        return _perf.Page(fd, data_pages)
    except _perf.PerfError as error:
        raise UnsupportedError(f"no samples: {no_buffer(error.errno or 0, data_pages)}") from error


def permitted(attributes: Attributes, open_it: Callable[[Attributes], Sampler]) -> Sampler:
    """A sampler of the event, without the kernel's part where this user may not see it. Raises `UnsupportedError`."""
    try:
        return open_it(attributes)
    except UnsupportedError:
        return open_it(msgspec.structs.replace(attributes, exclude_kernel=True, exclude_hv=True))


# -- sampled loads ----------------------------------------------------------------------------------------------------

LOAD_FIELDS = Sample.IP | Sample.TID | Sample.TIME | Sample.ADDR | Sample.WEIGHT | Sample.DATA_SRC
OPERATIONS = "ibs_op"
LEAST_PRECISE = 2
"""Below, the sampled address is not that of the load (perf_event_open(2), precise_ip)."""


class LoadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """How loads are sampled here. `leader`: an event that must lead the sampled one's group."""

    sampled: Attributes
    leader: Attributes | None = None

    def like(self, event: Attributes) -> LoadEvent:
        """For the threads and from the moment that another event of the same program has, by its clock."""
        names = ("inherit", "enable_on_exec", "use_clockid", "clockid")
        same = {name: getattr(event, name) for name in names}
        leader = self.leader and msgspec.structs.replace(self.leader, **same)
        return LoadEvent(sampled=msgspec.structs.replace(self.sampled, **same), leader=leader)


def load_event(pmus: Mapping[str, Pmu], samples_hz: int, least_cycles: int) -> LoadEvent | None:
    """The event that samples loads so many times a second and CPU (the kernel adapts its period), those that took
    `least_cycles` and more where the hardware can choose so. At rest until it is enabled. None where this kernel names
    no way, or (under a hypervisor) takes no precise samples."""
    if OPERATIONS in pmus:
        pmu = pmus[OPERATIONS]  # leaving the kernel out, as users must, takes a filter of newer kernels
        terms = placed_terms(pmu, {term: 1 for term in ("cnt_ctl", "swfilt") if term in pmu.formats})
        event = msgspec.structs.replace(Attributes(type=pmu.type), **terms)
        return LoadEvent(sampled=_sampling(event, samples_hz, "swfilt" in pmu.formats))
    core = next((each for each in core_pmus(dict(pmus)) if "mem-loads" in each.events), None)
    precise = int((core and core.caps.get("max_precise")) or LEAST_PRECISE)
    if core is None or precise < LEAST_PRECISE:
        return None
    event = _encoded(pmus, f"{core.name}/mem-loads,ldlat={least_cycles}/")
    sampled = _sampling(msgspec.structs.replace(event, precise_ip=min(precise, 3)), samples_hz, True)
    if "mem-loads-aux" not in core.events:
        return LoadEvent(sampled=sampled)
    aux = msgspec.structs.replace(_encoded(pmus, f"{core.name}/mem-loads-aux/"), disabled=True, exclude_kernel=True)
    return LoadEvent(sampled=sampled, leader=msgspec.structs.replace(aux, precise_ip=0))


def _encoded(pmus: Mapping[str, Pmu], text: str) -> Attributes:
    return Encoder(dict(pmus), {}).encode(text).terms[0].attributes


def _sampling(attributes: Attributes, samples_hz: int, exclude_kernel: bool) -> Attributes:
    how = {"freq": True, "sample_period": samples_hz, "sample_type": int(LOAD_FIELDS), "disabled": True}
    return msgspec.structs.replace(attributes, sample_id_all=True, exclude_kernel=exclude_kernel, **how)
