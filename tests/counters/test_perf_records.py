"""Records of ring buffers, written byte by byte as the kernel's header lays them out, and read back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.native.perf.sampling import Kind, Record, parse_record

WHO = struct.pack("=IIQ", 11, 12, 1234)
"""What `sample_id_all` puts behind a record: thread and time."""
MAPPED = struct.pack("=IIQQQ", 5, 6, 0x10000, 0x2000, 0x1000) + b"/bin/\xff\0\0"


def record(kind: int, body: bytes, misc: int = 2) -> bytes:
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (record(9, struct.pack("=QIIQ", 0x401000, 7, 8, 99), 1), Record(Kind.SAMPLE, 99, 7, 8, 0x401000, flag=True)),
        (record(2, struct.pack("=QQ", 5, 17) + WHO), Record(Kind.LOST, 1234, 0, 0, 17)),
        (record(7, struct.pack("=IIIIQ", 20, 10, 21, 12, 77) + WHO), Record(Kind.BEGAN, 1234, 20, 21, 10, 12)),
        (
            record(3, struct.pack("=II", 5, 6) + b"worker\0\0" + WHO, 1 << 13),
            Record(Kind.NAMED, 1234, 5, 6, name="worker", flag=True),
        ),
        (record(1, MAPPED + WHO), Record(Kind.MAPPED, 1234, 5, 6, 0x10000, 0x12000, 0x1000, "/bin/\udcff")),
        (record(4, struct.pack("=IIIIQ", 20, 10, 21, 12, 77) + WHO), None),  # a thread that ended: nothing needs it
    ],
)
def test_records_say_what_the_kernel_wrote(data: bytes, expected: Record | None) -> None:
    assert parse_record(data) == expected


@given(st.sampled_from([1, 2, 3, 7, 9]), st.integers(0, 12))
def test_a_record_cut_anywhere_is_refused_or_read_and_never_worse(kind: int, words: int) -> None:
    try:
        parse_record(record(kind, b"\x7f" * 8 * words))
    except ValueError as error:
        assert "ends within a field" in str(error)
