"""Records of ring buffers and pages of events, written byte by byte as the kernel's header lays them out, and read
back."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setebench.native.perf._perf import Page
from setebench.native.perf.attributes import Attributes, ReadFormat, Sample
from setebench.native.perf.kernel import PerfError
from setebench.native.perf.sampling import (
    Ended,
    Lost,
    Mapped,
    Other,
    SampleRecord,
    Started,
    Throttled,
    decode_data_source,
    parse_record,
)
from setebench.native.perf.sampling.kinds import SampleId

PEBS = Attributes(
    type=4,
    config=0x1CD,
    sample_period=1009,
    precise_ip=2,
    sample_id_all=True,
    sample_type=Sample.IP | Sample.TID | Sample.TIME | Sample.ADDR | Sample.CPU | Sample.WEIGHT | Sample.DATA_SRC,
)
EVERYTHING = Attributes(
    type=4,
    sample_id_all=True,
    read_format=ReadFormat.GROUP | ReadFormat.TIME_ENABLED | ReadFormat.TIME_RUNNING | ReadFormat.ID,
    sample_type=Sample((1 << 25) - 1)
    & ~(Sample.REGS_USER | Sample.STACK_USER | Sample.REGS_INTR | Sample.AUX | Sample.WEIGHT),
)
WHO = struct.pack("=IIQII", 11, 12, 1234, 3, 0)
"""What sample_id_all puts behind a record of an event with PEBS's fields: TID, TIME, CPU."""


def record(kind: int, body: bytes, misc: int = 2) -> bytes:
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


def source(**fields: int) -> int:
    """A data-source word; bits of `union perf_mem_data_src`."""
    low = {
        "op": 0,
        "level": 5,
        "snoop": 19,
        "lock": 24,
        "tlb": 26,
        "number": 33,
        "remote": 37,
        "snoopx": 38,
        "block": 40,
    }
    return sum(value << low[name] for name, value in fields.items())


LOAD, HIT, MISS = 2, 2, 4


@pytest.mark.parametrize(
    ("word", "level", "hit", "snoop", "tlb"),
    [
        # as kernels write them for PEBS: older field and newer field together
        (source(op=LOAD, level=HIT | 8, snoop=2, tlb=HIT | 8 | 16, number=1), "l1", True, "none", "hit"),
        (source(op=LOAD, level=HIT | 16, snoop=2, tlb=HIT | 8, number=12), "lfb", True, "none", "hit"),
        (source(op=LOAD, level=HIT | 32, snoop=2, tlb=HIT | 8, number=2), "l2", True, "none", "hit"),
        (source(op=LOAD, level=HIT | 64, snoop=2, tlb=MISS | 16, number=3), "l3", True, "none", "miss"),
        (source(op=LOAD, level=HIT | 64, snoop=16, tlb=HIT | 8, number=3), "l3", True, "hitm", "hit"),
        (source(op=LOAD, level=HIT | 128, snoop=8, tlb=HIT | 8, number=13), "memory", True, "miss", "hit"),
        (source(op=LOAD, level=HIT | 256, number=13, remote=1), "remote_memory", True, "", ""),
        (source(op=LOAD, level=HIT | 1024, snoop=16, number=11, remote=1), "remote_cache", True, "hitm", ""),
        # older kernels: no newer field
        (source(op=LOAD, level=HIT | 128, snoop=1, tlb=1), "memory", True, "", ""),
        (source(op=LOAD, level=HIT | 256), "remote_memory", True, "", ""),
        # as for IBS: newer field alone
        (source(op=LOAD, number=3, snoopx=2, tlb=HIT | 16), "l3", True, "peer", "hit"),
        (source(op=LOAD, number=3, remote=1), "remote_cache", True, "", ""),
        (source(op=LOAD, number=9), "cxl", True, "", ""),
        # only what it was not
        (source(op=LOAD, level=MISS | 64, number=3), "l3", False, "", ""),
        # nothing: as software events have it
        (0x1E05080021, "", None, "", ""),
        (0, "", None, "", ""),
    ],
)
def test_data_sources(word: int, level: str, hit: bool | None, snoop: str, tlb: str) -> None:
    found = decode_data_source(word)
    assert (found.level, found.hit, found.snoop, found.tlb) == (level, hit, snoop, tlb)


def everything() -> bytes:
    """All fields that are read or passed over, in the kernel's order."""
    body = struct.pack("=QQIIQQQQII", 77, 0x401000, 11, 12, 1234, 0x7000, 78, 79, 3, 0)
    body += struct.pack("=Q", 1009)
    body += struct.pack("=QQQQQQQ", 2, 500, 400, 10, 77, 20, 78)  # a group read: two values with their numbers
    body += struct.pack("=QQQQ", 3, (1 << 64) - 512, 0x401000, 0x402000)  # a chain: user context, two addresses
    body += struct.pack("=I12s", 12, b"raw")
    body += struct.pack("=Q48s", 2, b"")  # two branches
    body += struct.pack("=IHH", 300, 20, 7)  # weights in the longer form
    body += struct.pack("=Q", source(op=LOAD, number=3))
    body += struct.pack("=QQQQQ", 5, 0xABC000, 9, 4096, 4096)  # transaction, physical address, cgroup, page sizes
    return record(9, body)


def test_every_field_of_a_sample_is_where_it_is() -> None:
    found = parse_record(everything(), EVERYTHING)
    assert isinstance(found, SampleRecord)
    assert found.who == SampleId(11, 12, 1234, 77, 79, 3)
    assert (found.period, found.chain) == (1009, (0x401000, 0x402000))
    assert found.weights is not None
    assert (found.weights.latency_cycles, found.weights.instruction_cycles, found.weights.retire_cycles) == (300, 20, 7)
    assert found.source is not None and found.source.level == "l3"
    assert (found.physical_address, found.page_bytes) == (0xABC000, 4096)


def test_other_records() -> None:
    assert parse_record(record(2, struct.pack("=QQ", 5, 40) + WHO), PEBS) == Lost(
        records=40, who=SampleId(11, 12, 1234, None, None, 3)
    )
    assert parse_record(record(13, struct.pack("=Q", 7)), Attributes(type=1)) == Lost(records=7, who=SampleId())
    assert parse_record(record(5, struct.pack("=QQQ", 9, 5, 6)), PEBS) == Throttled(on=True, time=9, id=5)
    assert parse_record(record(6, struct.pack("=QQQ", 9, 5, 6)), PEBS) == Throttled(on=False, time=9, id=5)
    started = struct.pack("=IIIIQ", 20, 10, 21, 11, 99)
    assert parse_record(record(7, started + WHO), PEBS) == Started(
        pid=20, parent_pid=10, tid=21, parent_tid=11, time=99
    )
    assert parse_record(record(4, started + WHO), PEBS) == Ended(pid=20, parent_pid=10, tid=21, parent_tid=11, time=99)
    assert parse_record(record(15, b""), PEBS) == Other(kind=15)


def test_mapped_files() -> None:
    place = struct.pack("=IIQQQ", 11, 12, 0x400000, 8192, 4096)
    older = parse_record(record(1, place + b"/bin/a\0\0" + WHO), PEBS)
    assert isinstance(older, Mapped) and (older.path, older.executable, older.offset_bytes) == ("/bin/a", True, 4096)
    data = parse_record(record(1, place + b"/bin/a\0\0" + WHO, 2 | 1 << 13), PEBS)
    assert isinstance(data, Mapped) and not data.executable
    longer = place + struct.pack("=24sII", b"", 5, 2) + b"/lib/\xff.so\0\0\0\0\0\0\0" + WHO
    found = parse_record(record(10, longer), PEBS)
    assert isinstance(found, Mapped) and found.executable and found.size_bytes == 8192
    assert found.path == "/lib/\udcff.so" and found.who.tid == 12


@pytest.mark.parametrize("whole", [everything(), record(2, struct.pack("=QQ", 5, 40) + WHO), record(10, b"\0" * 80)])
def test_a_record_cut_anywhere_is_refused_or_read_and_never_worse(whole: bytes) -> None:
    for end in range(len(whole)):
        cut = whole[:end]
        with pytest.raises(ValueError):
            parse_record(cut, EVERYTHING)  # its size says more than there is
        if end >= 8:
            shortened = cut[:6] + struct.pack("=H", end) + cut[8:]
            try:
                parse_record(shortened, EVERYTHING)
            except ValueError as error:
                assert "record of" in str(error)


@given(st.integers(0, 16), st.integers(0, 2**16 - 1), st.binary(max_size=200), st.integers(0, 2**25 - 1))
def test_no_bytes_do_worse_than_a_refusal(kind: int, misc: int, body: bytes, sample_type: int) -> None:
    attributes = Attributes(type=1, sample_type=sample_type, sample_id_all=bool(misc & 1))
    try:
        parse_record(record(kind, body, misc), attributes)
    except ValueError as error:
        assert str(error)


# -- pages of events in memory of our own ----------------------------------------------------------------------------


PAGE = 4096
NOT_DEPRECATED_BIT, USER_RDPMC = 1 << 1, 1 << 2
LOCK, INDEX, OFFSET, CAPABILITIES, WIDTH, HEAD, TAIL = 8, 12, 16, 40, 48, 1024, 1032


ALLOWED = NOT_DEPRECATED_BIT | USER_RDPMC


def page(index: int = 1, offset: int = 1000, capabilities: int = ALLOWED, width: int = 48) -> bytearray:
    """The kernel's page, by the offsets of linux/perf_event.h."""
    memory = bytearray(PAGE)
    struct.pack_into("=IIq", memory, LOCK, 2, index, offset)
    struct.pack_into("=QH", memory, CAPABILITIES, capabilities, width)
    return memory


@pytest.mark.parametrize(
    ("width", "raw", "count"),
    [
        (48, (1 << 48) - 5, 995),  # counters begin below zero, so that they interrupt as they pass it
        (48, (1 << 47) - 1, 1000 + (1 << 47) - 1),
        (48, 1 << 47, 1000 - (1 << 47)),
        (40, (1 << 40) - 1, 999),
        (32, 0xFFFF_FFFE, 998),
        (64, (1 << 64) - 1, 999),
    ],
)
def test_a_counter_is_a_signed_number_of_its_width(width: int, raw: int, count: int) -> None:
    assert Page.of_memory(page(width=width), [raw]).count() == count


@pytest.mark.parametrize(
    ("index", "capabilities"),
    [
        (0, ALLOWED),  # no counter now
        (1, NOT_DEPRECATED_BIT),  # not allowed
        (1, 0x2),  # as kernels say without a PMU
        (1, USER_RDPMC),  # of kernels before 3.12, where the bits meant something else
        (1, 0),
    ],
)
def test_without_the_kernels_word_no_counter_is_read(index: int, capabilities: int) -> None:
    found = Page.of_memory(page(index, capabilities=capabilities), [1])
    assert found.count() is None and not found.can_rdpmc and found.index == index
    assert found.capabilities == capabilities


def test_a_forked_child_has_no_page() -> None:
    found = Page.of_memory(page(), [1])
    child = os.fork()
    if not child:
        try:
            found.count()
        except PerfError as error:
            os._exit(40 if error.errno == errno.EINVAL else 41)
        os._exit(42)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40
    assert found.count() == 1001


def test_a_closed_page_is_an_error_and_no_fault() -> None:
    found = Page.of_memory(page(), [1])
    found.close()
    found.close()
    with pytest.raises(PerfError):
        found.count()
    with pytest.raises(PerfError):
        found.drain()


# -- ring buffers -----------------------------------------------------------------------------------------------------


class Ring:
    """Writes records as the kernel does: at the head, going on at the buffer's begin."""

    def __init__(self, pages: int = 1, begin: int = 0) -> None:
        self.memory = page() + bytearray(pages * PAGE)
        self.bytes = pages * PAGE
        self.head = begin
        struct.pack_into("=QQ", self.memory, HEAD, begin, begin)

    def write(self, sample_of: bytes) -> None:
        for byte in sample_of:
            self.memory[PAGE + self.head % self.bytes] = byte
            self.head += 1
        struct.pack_into("=Q", self.memory, HEAD, self.head)

    @property
    def tail(self) -> int:
        return int(struct.unpack_from("=Q", self.memory, TAIL)[0])


def sample_of(length: int, fill: int) -> bytes:
    return struct.pack("=IHH", 9, 2, 8 + length) + bytes([fill]) * length


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3).map(lambda n: 1 << n),
    st.integers(0, 1 << 40).map(lambda n: n * 8),
    st.lists(st.lists(st.integers(0, 40).map(lambda n: n * 8), max_size=12), max_size=6),
)
def test_records_come_out_as_they_went_in_wherever_the_ring_wraps(
    pages: int, begin: int, batches: list[list[int]]
) -> None:
    ring = Ring(pages, begin)
    found = Page.of_memory(ring.memory)
    for number, lengths in enumerate(batches):
        written = [sample_of(length, number) for length in lengths]
        for one in written:
            if sum(map(len, written)) <= ring.bytes:
                ring.write(one)
        assert found.drain() == (written if sum(map(len, written)) <= ring.bytes else [])
        assert ring.tail == ring.head
    assert found.drain() == []


# -- attributes -------------------------------------------------------------------------------------------------------


def test_older_kernels_get_the_size_they_know_unless_a_field_needs_more() -> None:
    plain = Attributes(type=4, config=1)
    assert plain.bytes_needed == 64 and len(plain.packed(64)) == 64
    assert struct.unpack_from("=I", plain.packed(72), 4) == (72,)
    assert Attributes(type=4, config2=1).bytes_needed == 72
    with pytest.raises(ValueError, match="does not fit 64 bytes"):
        Attributes(type=4, config2=1).packed(64)
    longest = Attributes(type=4, config3=9)
    assert len(longest.packed()) == 136 and struct.unpack_from("=Q", longest.packed(), 128) == (9,)
    with pytest.raises(ValueError, match="does not fit 112"):
        longest.packed(112)
