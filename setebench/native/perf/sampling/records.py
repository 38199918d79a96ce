"""Records of the kernel's ring buffers, from bytes to fields.

Layout: linux/perf_event.h, `enum perf_event_type`. A record's fields depend on what its event was opened with
(`sample_type`, `read_format`, `sample_id_all`), so `parse_record` takes the event's attributes. Events that share a
buffer must be alike in these.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from setebench.native.perf.attributes import Attributes, ReadFormat, Sample
from setebench.native.perf.sampling.data_source import DataSource, Weights, decode_data_source, decode_weights
from setebench.native.perf.sampling.kinds import (
    Ended,
    Lost,
    Mapped,
    Other,
    Record,
    Renamed,
    SampleId,
    SampleRecord,
    Started,
    ThreadCount,
    Throttled,
)

HEADER = struct.Struct("=IHH")
MODES = {1: "kernel", 2: "user", 3: "hypervisor", 4: "guest_kernel", 5: "guest_user"}
_MODE_BITS = 7
_EXACT_ADDRESS = 1 << 14
_OF_EXEC = 1 << 13
_PROT_EXEC = 4
_CONTEXT = (1 << 64) - 4096
"""Entries of a call chain from here on say whose addresses follow (PERF_CONTEXT_*), and are no addresses."""
_BRANCH_HW_INDEX = 1 << 17
_BRANCH_COUNTERS = 1 << 19
_BRANCH_ENTRY_BYTES = 24
_NEVER_ASKED = Sample.REGS_USER | Sample.STACK_USER | Sample.REGS_INTR
"""Fields whose length depends on what `Attributes` can't ask for."""


class _Cursor:
    """Takes fields off the bytes of a record, from the front."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        begin = self.skip(form.size)
        return form.unpack_from(self.data, begin)

    def word(self) -> int:
        return int(self.take(_U64)[0])

    def skip(self, size: int) -> int:
        begin = self.at
        if size < 0 or begin + size > self.end:
            raise ValueError(f"a record of {len(self.data)} bytes ends within a field")
        self.at = begin + size
        return begin


_U64 = struct.Struct("=Q")
_PAIR = struct.Struct("=II")
_QUAD = struct.Struct("=IIII")
_MAP = struct.Struct("=IIQQQ")
_MAP2 = struct.Struct("=8xQ8xII")


def parse_record(data: bytes, attributes: Attributes) -> Record:
    """The record whose bytes `EventPage.drain` gave, of an event with these attributes.

    Raises ValueError for bytes that end within a field, and for samples with registers or stacks."""
    if len(data) < HEADER.size:
        raise ValueError(f"a record of {len(data)} bytes has no header")
    kind, misc, size = HEADER.unpack_from(data)
    if size != len(data):
        raise ValueError(f"a record of {len(data)} bytes says that it has {size}")
    parse = _PARSERS.get(kind)
    return Other(kind=kind) if parse is None else parse(_Cursor(data, HEADER.size, size), misc, attributes)


# -- samples ----------------------------------------------------------------------------------------------------------


def _sample(cursor: _Cursor, misc: int, attributes: Attributes) -> SampleRecord:
    kinds = Sample(attributes.sample_type)
    if kinds & _NEVER_ASKED:
        raise ValueError("samples with registers or stacks of the user are not read here")
    number = cursor.word() if Sample.IDENTIFIER in kinds else None
    ip = _wanted(cursor, kinds, Sample.IP)
    pid, tid = cursor.take(_PAIR) if Sample.TID in kinds else (None, None)
    time, address, event, stream = (
        _wanted(cursor, kinds, kind) for kind in (Sample.TIME, Sample.ADDR, Sample.ID, Sample.STREAM_ID)
    )
    cpu = cursor.take(_PAIR)[0] if Sample.CPU in kinds else None
    period = _wanted(cursor, kinds, Sample.PERIOD)
    chain = _inner_fields(cursor, kinds, attributes)
    weights, source = _weights(cursor, kinds), _source(cursor, kinds)
    _wanted(cursor, kinds, Sample.TRANSACTION)
    physical, _, page_bytes = (
        _wanted(cursor, kinds, kind) for kind in (Sample.PHYS_ADDR, Sample.CGROUP, Sample.DATA_PAGE_SIZE)
    )
    return SampleRecord(
        mode=MODES.get(misc & _MODE_BITS, ""),
        exact=bool(misc & _EXACT_ADDRESS),
        who=SampleId(pid, tid, time, event if number is None else number, stream, cpu),
        ip=ip,
        address=address,
        physical_address=physical,
        period=period,
        chain=chain,
        weights=weights,
        source=source,
        page_bytes=page_bytes,
    )


def _wanted(cursor: _Cursor, kinds: Sample, kind: Sample) -> int | None:
    return cursor.word() if kind in kinds else None


def _inner_fields(cursor: _Cursor, kinds: Sample, attributes: Attributes) -> tuple[int, ...]:
    """The call chain; counts, raw data and branches around it are passed over."""
    if Sample.READ in kinds:
        _pass_values(cursor, ReadFormat(attributes.read_format))
    chain: tuple[int, ...] = ()
    if Sample.CALLCHAIN in kinds:
        entries = [cursor.word() for _ in range(_bounded(cursor, cursor.word(), 8))]
        chain = tuple(entry for entry in entries if entry < _CONTEXT)
    if Sample.RAW in kinds:
        (size,) = struct.unpack_from("=I", cursor.data, cursor.skip(4))
        cursor.skip(size)
    if Sample.BRANCH_STACK in kinds:
        _pass_branches(cursor, attributes.branch_sample_type)
    return chain


def _bounded(cursor: _Cursor, count: int, size: int) -> int:
    """A count of entries that the record can hold. Raises ValueError for another."""
    if count * size > cursor.end - cursor.at:
        raise ValueError(f"a record of {len(cursor.data)} bytes claims {count} entries of {size} bytes")
    return count


def _pass_values(cursor: _Cursor, form: ReadFormat) -> None:
    extra = (ReadFormat.ID in form) + (ReadFormat.LOST in form)
    times = (ReadFormat.TIME_ENABLED in form) + (ReadFormat.TIME_RUNNING in form)
    if ReadFormat.GROUP in form:
        count = cursor.word()
        cursor.skip(8 * times)
        cursor.skip(_bounded(cursor, count, 8 * (1 + extra)) * 8 * (1 + extra))
    else:
        cursor.skip(8 * (1 + times + extra))


def _pass_branches(cursor: _Cursor, branch_type: int) -> None:
    count = _bounded(cursor, cursor.word(), _BRANCH_ENTRY_BYTES)
    cursor.skip(8 * bool(branch_type & _BRANCH_HW_INDEX) + count * _BRANCH_ENTRY_BYTES)
    if branch_type & _BRANCH_COUNTERS:
        cursor.skip(8 * count)


def _weights(cursor: _Cursor, kinds: Sample) -> Weights | None:
    if not kinds & (Sample.WEIGHT | Sample.WEIGHT_STRUCT):
        return None
    return decode_weights(cursor.word(), structured=Sample.WEIGHT_STRUCT in kinds)


def _source(cursor: _Cursor, kinds: Sample) -> DataSource | None:
    return decode_data_source(cursor.word()) if Sample.DATA_SRC in kinds else None


# -- other records ----------------------------------------------------------------------------------------------------

_TRAILER = (
    (Sample.TID, 8),
    (Sample.TIME, 8),
    (Sample.ID, 8),
    (Sample.STREAM_ID, 8),
    (Sample.CPU, 8),
    (Sample.IDENTIFIER, 8),
)


def _who(cursor: _Cursor, attributes: Attributes) -> SampleId:
    """What `sample_id_all` puts behind every record that isn't a sample. Takes it off the end."""
    if not attributes.sample_id_all:
        return SampleId()
    kinds = Sample(attributes.sample_type)
    length = sum(size for kind, size in _TRAILER if kind in kinds)
    begin = cursor.end - length
    if begin < cursor.at:
        raise ValueError(f"a record of {len(cursor.data)} bytes has no room for whose it is")
    tail = _Cursor(cursor.data, begin, cursor.end)
    cursor.end = begin
    pid, tid = tail.take(_PAIR) if Sample.TID in kinds else (None, None)
    time, event, stream = (_wanted(tail, kinds, kind) for kind in (Sample.TIME, Sample.ID, Sample.STREAM_ID))
    cpu = tail.take(_PAIR)[0] if Sample.CPU in kinds else None
    number = _wanted(tail, kinds, Sample.IDENTIFIER)
    return SampleId(pid, tid, time, event if number is None else number, stream, cpu)


def _text(cursor: _Cursor) -> str:
    """A name up to its zero byte. Names are bytes of any kind: what isn't UTF-8 is escaped as Python's files do."""
    raw = cursor.data[cursor.at : cursor.end].split(b"\0", 1)[0]
    return raw.decode("utf-8", errors="surrogateescape")


def _lost(cursor: _Cursor, _misc: int, attributes: Attributes) -> Lost:
    who = _who(cursor, attributes)
    cursor.word()  # the event's id, which `who` has, too
    return Lost(records=cursor.word(), who=who)


def _lost_samples(cursor: _Cursor, _misc: int, attributes: Attributes) -> Lost:
    who = _who(cursor, attributes)
    return Lost(records=cursor.word(), who=who)


def _thread_count(cursor: _Cursor, _misc: int, attributes: Attributes) -> ThreadCount:
    """Of an event that is alone in its group."""
    form = ReadFormat(attributes.read_format)
    pid, tid = cursor.take(_PAIR)
    if ReadFormat.GROUP in form:
        cursor.word()  # one event
        enabled, running = (cursor.word() if time in form else 0 for time in _TIMES)
        return ThreadCount(pid=pid, tid=tid, value=cursor.word(), enabled=enabled, running=running)
    value = cursor.word()
    enabled, running = (cursor.word() if time in form else 0 for time in _TIMES)
    return ThreadCount(pid=pid, tid=tid, value=value, enabled=enabled, running=running)


_TIMES = (ReadFormat.TIME_ENABLED, ReadFormat.TIME_RUNNING)


def _throttled(on: bool, cursor: _Cursor, _misc: int, _attributes: Attributes) -> Throttled:
    return Throttled(on=on, time=cursor.word(), id=cursor.word())


def _renamed(cursor: _Cursor, misc: int, attributes: Attributes) -> Renamed:
    who = _who(cursor, attributes)
    pid, tid = cursor.take(_PAIR)
    return Renamed(pid=pid, tid=tid, name=_text(cursor), of_exec=bool(misc & _OF_EXEC), who=who)


def _of_thread(kind: type[Started], cursor: _Cursor, _misc: int, _attributes: Attributes) -> Started:
    pid, parent_pid, tid, parent_tid = cursor.take(_QUAD)
    return kind(pid=pid, parent_pid=parent_pid, tid=tid, parent_tid=parent_tid, time=cursor.word())


def _mapped(cursor: _Cursor, misc: int, attributes: Attributes, *, protected: bool = False) -> Mapped:
    """Older records of mapped files name their protection by one bit alone, set for data; those that are `protected`
    name it in full, behind device, inode and the inode's generation."""
    who = _who(cursor, attributes)
    pid, tid, address, size_bytes, offset_bytes = cursor.take(_MAP)
    inode, protection, _ = cursor.take(_MAP2) if protected else (0, 0 if misc & _OF_EXEC else _PROT_EXEC, 0)
    return Mapped(
        pid=pid,
        tid=tid,
        address=address,
        size_bytes=size_bytes,
        offset_bytes=offset_bytes,
        path=_text(cursor),
        executable=bool(protection & _PROT_EXEC),
        who=who,
        inode=inode,
    )


_PARSERS: dict[int, Callable[[_Cursor, int, Attributes], Record]] = {
    1: _mapped,
    2: _lost,
    3: _renamed,
    4: partial(_of_thread, Ended),
    5: partial(_throttled, True),
    6: partial(_throttled, False),
    7: partial(_of_thread, Started),
    8: _thread_count,
    9: _sample,
    10: partial(_mapped, protected=True),
    13: _lost_samples,
}
"""By the kernel's number of the record's kind (enum perf_event_type)."""
