"""Samples of page faults on this kernel: every address is known, and what finds no room is counted."""

from __future__ import annotations

import mmap
import threading

import pytest
from counting_here import PAGE, PAGES

from setebench.native.perf.attributes import Attributes, Sample, Software, Type
from setebench.native.perf.sampling import Sampler, SampleRecord

pytestmark = pytest.mark.usefixtures("counting_permitted")


def sampled(more: int) -> Attributes:
    """Every page fault of this thread, with its address and what `more` says."""
    return Attributes(
        type=Type.SOFTWARE,
        config=Software.PAGE_FAULTS,
        exclude_kernel=True,
        disabled=True,
        sample_period=1,
        sample_type=Sample.IP | Sample.TID | Sample.TIME | Sample.ADDR | more,
    )


def test_every_sampled_fault_has_its_address(untouched: tuple[mmap.mmap, int]) -> None:
    memory, address = untouched
    with Sampler(sampled(Sample.DATA_SRC)) as sampler:
        sampler.enable()
        for page in range(PAGES):
            memory[page * PAGE + page] = 1
        sampler.disable()
        records = sampler.drain()
    ours = [record for record in records if isinstance(record, SampleRecord) and record.address is not None]
    faults = [record for record in ours if address <= (record.address or 0) < address + PAGES * PAGE]
    assert [record.address for record in faults] == [address + page * PAGE + page for page in range(PAGES)]
    assert all(record.who.tid == threading.get_native_id() and record.mode == "user" for record in faults)
    assert all(record.source is not None and record.source.level == "" for record in faults)
    times = [record.who.time or 0 for record in faults]
    assert times == sorted(times) and sampler.lost == 0


def test_a_buffer_too_small_says_what_it_lost(untouched: tuple[mmap.mmap, int]) -> None:
    memory, _ = untouched
    with Sampler(sampled(Sample.CPU | Sample.PERIOD), data_pages=1) as sampler:  # 4096 bytes hold 73 records of 56
        sampler.enable()
        for page in range(PAGES - 1):
            memory[page * PAGE] = 1
        kept = len(sampler.samples())
        memory[(PAGES - 1) * PAGE] = 1  # the kernel reports what was lost with the next record
        sampler.disable()
        kept += len(sampler.samples())
    assert 0 < kept < PAGES and kept + sampler.lost >= PAGES
