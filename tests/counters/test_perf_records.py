"""Records of ring buffers, written byte by byte as the kernel's header lays them out, and read back; how loads are
sampled on recorded PMUs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_pmus import pmus

from setebench.native.perf.attributes import Attributes, Sample
from setebench.native.perf.sampling import (
    LOAD_FIELDS,
    Lost,
    Mapped,
    Renamed,
    SampleRecord,
    Started,
    ThreadCount,
    load_event,
    parse_record,
    served_by,
    tlb_hit,
)
from setebench.native.perf.sysfs import Pmu, parse_format

TIME = Attributes(type=1, sample_id_all=True, sample_type=Sample.IP | Sample.TID | Sample.TIME)
LOADS = Attributes(type=4, sample_id_all=True, sample_type=int(LOAD_FIELDS))
WHO = struct.pack("=IIQ", 11, 12, 1234)
"""What sample_id_all puts behind a record of an event with these fields: TID, TIME."""


def record(kind: int, body: bytes, misc: int = 2) -> bytes:
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


def source(level: int, bits: int, tlb: int, operation: int = 2, remote: int = 0) -> int:
    """A data-source word; bits of `union perf_mem_data_src`."""
    return operation | bits << 5 | tlb << 26 | level << 33 | remote << 37


@pytest.mark.parametrize(
    ("word", "level", "hit"),
    [
        (source(13, 2 | 1 << 7, 2 | 8), "memory", True),
        (source(0, 2 | 1 << 7, 4), "memory", False),
        (source(0, 2 | 1 << 3, 0), "l1", None),
        (source(12, 0, 2), "lfb", True),
        (source(0, 2 | 1 << 4, 2), "lfb", True),
        (source(13, 2 | 1 << 8, 2, remote=1), "remote", True),
        (source(3, 2 | 1 << 6, 2), "l3", True),
        (source(13, 2 | 1 << 7, 2, operation=4), "", True),
        (0, "", None),
    ],
)
def test_who_served_a_load_and_whether_its_address_was_in_the_tlb(word: int, level: str, hit: bool | None) -> None:
    assert (served_by(word), tlb_hit(word)) == (level, hit)


def test_samples_of_time_and_of_loads() -> None:
    body = struct.pack("=QIIQ", 0x401000, 7, 8, 99)
    assert parse_record(record(9, body), TIME) == SampleRecord(pid=7, tid=8, time=99, ip=0x401000)
    kernel = parse_record(record(9, body, misc=1), TIME)
    assert isinstance(kernel, SampleRecord) and kernel.in_kernel
    word = source(13, 2 | 1 << 7, 2)
    load = parse_record(record(9, body + struct.pack("=QQQ", 0x7000, 300, word)), LOADS)
    assert load == SampleRecord(pid=7, tid=8, time=99, ip=0x401000, address=0x7000, latency_cycles=300, source=word)


def test_other_records() -> None:
    assert parse_record(record(2, struct.pack("=QQ", 5, 17) + WHO), TIME) == Lost(17)
    assert parse_record(record(13, struct.pack("=Q", 3) + WHO), TIME) == Lost(3)
    started = struct.pack("=IIIIQ", 20, 10, 21, 12, 77) + WHO
    assert parse_record(record(7, started), TIME) == Started(time=77, pid=20, parent_pid=10, tid=21, parent_tid=12)
    named = struct.pack("=II", 5, 6) + b"worker\0\0" + WHO
    expected = Renamed(time=1234, pid=5, tid=6, name="worker", of_exec=True)
    assert parse_record(record(3, named, misc=1 << 13), TIME) == expected
    counted = struct.pack("=IIQQQQ", 5, 6, 1, 100, 90, 4321) + WHO
    assert parse_record(record(8, counted), TIME) == ThreadCount(6, 4321, 100, 90)
    assert parse_record(record(4, started), TIME) is None  # a thread that ended: nothing needs it


def test_mapped_files_have_the_name_that_the_kernel_gives_whatever_its_bytes() -> None:
    body = struct.pack("=IIQQQIIQQII", 5, 6, 0x10000, 0x2000, 0x1000, 8, 1, 99, 0, 5, 2)
    found = parse_record(record(10, body + b"/bin/\xff\0\0" + WHO), TIME)
    assert found == Mapped(time=1234, pid=5, start=0x10000, end=0x12000, offset=0x1000, path="/bin/\udcff", inode=99)


@given(st.sampled_from([2, 3, 7, 8, 9, 10, 13]), st.integers(0, 12))
def test_a_record_cut_anywhere_is_refused_or_read_and_never_worse(kind: int, words: int) -> None:
    try:
        parse_record(record(kind, b"\x7f" * 8 * words), LOADS)
    except ValueError as error:
        assert "ends within a field" in str(error)


# -- how loads are sampled --------------------------------------------------------------------------------------------


def test_intel_by_the_kernels_own_event() -> None:
    event = load_event(pmus("haswell_ep"), 1009, 30)
    assert event is not None and event.leader is None
    sampled = event.sampled
    assert (sampled.config, sampled.config1, sampled.sample_period, sampled.freq) == (0x1CD, 30, 1009, True)
    assert sampled.precise_ip >= 2 and sampled.exclude_kernel and sampled.disabled


def test_amd_by_operations_with_the_kernels_filter() -> None:
    event = load_event(pmus("zen5"), 997, 30)
    assert event is not None and event.sampled.type == pmus("zen5")["ibs_op"].type
    assert event.sampled.config == 1 << 19 and event.sampled.config2 == 1 and event.sampled.exclude_kernel
    older = pmus("zen5") | {"ibs_op": Pmu(name="ibs_op", type=11, formats={"cnt_ctl": parse_format("config:19")})}
    plain = load_event(older, 997, 30)
    assert plain is not None and not plain.sampled.exclude_kernel and plain.sampled.config2 == 0


def test_no_loads_are_sampled_without_a_way() -> None:
    assert load_event(pmus("guest"), 997, 30) is None
