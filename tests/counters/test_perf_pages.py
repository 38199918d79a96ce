"""Pages of events in memory of our own: counters read behind the kernel's word only, and rings that wrap."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setebench.native.perf._perf import Page
from setebench.native.perf.attributes import Attributes
from setebench.native.perf.kernel import PerfError

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

    def write(self, record: bytes) -> None:
        for byte in record:
            self.memory[PAGE + self.head % self.bytes] = byte
            self.head += 1
        struct.pack_into("=Q", self.memory, HEAD, self.head)

    @property
    def tail(self) -> int:
        return int(struct.unpack_from("=Q", self.memory, TAIL)[0])


def record(length: int, fill: int) -> bytes:
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
        written = [record(length, number) for length in lengths]
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
