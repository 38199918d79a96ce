"""Sampling loads on recorded PMUs, with a kernel of the tests' own whose ring buffers are plain memory."""

from __future__ import annotations

import os
import struct

import pytest
from fake_kernel import FakeKernel
from recorded_pmus import pmus

from setebench.diagnose.observing.observe import TimeSampling, Wish
from setebench.errors import UnsupportedError
from setebench.native.perf._perf import Page
from setebench.native.perf.attributes import Attributes
from setebench.native.perf.kernel import EventPage, PerfError
from setebench.native.perf.sampling import Sampler, SampleRecord
from setebench.native.perf.sampling.loads import LoadSampler, load_event
from setebench.native.perf.sysfs import Pmu, parse_format

PAGE = 4096
HEAD = 1024


class RingKernel(FakeKernel):
    """Maps pages of plain memory, into which tests write records."""

    def __init__(self, refuse_maps: int = 0) -> None:
        super().__init__()
        self.memories: dict[int, bytearray] = {}
        self.refuse_maps = refuse_maps

    def map_page(self, fd: int, data_pages: int = 0, own: bool = False) -> EventPage:
        if self.refuse_maps:
            raise PerfError(self.refuse_maps)
        self.memories[fd] = bytearray((1 + data_pages) * PAGE)
        return Page.of_memory(self.memories[fd])

    def write(self, fd: int, record: bytes) -> None:
        (head,) = struct.unpack_from("=Q", self.memories[fd], HEAD)
        self.memories[fd][PAGE + head : PAGE + head + len(record)] = record
        struct.pack_into("=Q", self.memories[fd], HEAD, head + len(record))


def load_record(address: int, latency: int, source: int, time: int = 5, cpu: int = 0) -> bytes:
    """As an event with `loads.SAMPLE_TYPE` writes it: ip, pid and tid, time, address, CPU, weight, source."""
    body = struct.pack("=QIIQQIIQQ", 0x401000, 7, 8, time, address, cpu, 0, latency, source)
    return struct.pack("=IHH", 9, 2 | 1 << 14, 8 + len(body)) + body


FROM_MEMORY = 2 | (2 | 1 << 7) << 5 | (2 | 8) << 26 | 13 << 33  # a load, memory hit, TLB hit


def test_intel_by_the_kernels_own_event() -> None:
    event = load_event(pmus("haswell_ep"), 1009, 30)
    sampled = event.sampled
    assert (sampled.config, sampled.config1, sampled.sample_period) == (0x1CD, 30, 1009)
    assert sampled.freq
    assert sampled.precise_ip >= 2 and sampled.exclude_kernel and sampled.disabled and event.loads_only
    assert event.leader is None


def test_amd_by_operations_with_the_kernels_filter() -> None:
    event = load_event(pmus("zen5"), 997, 30)
    assert event.sampled.type == pmus("zen5")["ibs_op"].type
    assert event.sampled.config == 1 << 19 and event.sampled.config2 == 1 and event.sampled.exclude_kernel
    assert event.sampled.freq and event.sampled.sample_period == 997 and not event.loads_only
    older = pmus("zen5")
    older["ibs_op"] = Pmu(name="ibs_op", type=11, formats={"cnt_ctl": parse_format("config:19")})
    plain = load_event(older, 997, 30).sampled
    assert not plain.exclude_kernel and plain.config2 == 0


def test_samples_of_loads_come_out_with_latency_and_level() -> None:
    kernel = RingKernel()
    with LoadSampler(load_event(pmus("zen5"), 997, 30), pid=7, cpus=(0, 1), kernel=kernel) as sampler:
        first, second = sampler.fds
        kernel.write(second, load_record(0x7000, 300, FROM_MEMORY, time=9, cpu=1))
        kernel.write(first, load_record(0x8000, 20, 4, time=3))  # a store
        kernel.write(first, load_record(0x9000, 400, FROM_MEMORY, time=12))
        records = sampler.drain()
    samples = [record for record in records if isinstance(record, SampleRecord)]
    assert [record.who.time for record in samples] == [3, 9, 12]  # over all buffers
    loads = [record for record in samples if record.source and record.source.operation == "load"]
    assert [(record.address, record.weights and record.weights.latency_cycles) for record in loads] == [
        (0x7000, 300),
        (0x9000, 400),
    ]
    assert all(record.source and (record.source.level, record.source.tlb) == ("memory", "hit") for record in loads)
    assert not kernel.events


@pytest.mark.parametrize(("number", "said"), [(1, "perf_event_mlock_kb"), (22, "CPU of its own"), (12, "32")])
def test_a_buffer_that_is_refused_leaves_nothing_open(number: int, said: str) -> None:
    kernel = RingKernel(refuse_maps=number)
    with pytest.raises(UnsupportedError, match="no samples") as caught:
        Sampler(Attributes(type=1), data_pages=32, kernel=kernel)
    assert not kernel.events and said in str(caught.value)


def test_a_diagnosed_programs_loads_are_sampled_beside_its_time_and_are_no_time() -> None:
    kernel = RingKernel()
    wish = Wish(samples_hz=100)
    with TimeSampling(kernel, wish, attached=True, pmus=pmus("zen5")) as sampling:
        sampling.open_threads(os.getpid(), (8,), ())
        times, loads = kernel.events
        assert kernel.events[times].attributes.type == 1 and kernel.events[loads].attributes.config == 1 << 19
        assert kernel.events[loads].attributes.clockid == kernel.events[times].attributes.clockid
        now = sampling.begin_ns + 1000
        kernel.write(times, struct.pack("=IHHQIIQ", 9, 2, 32, 0x401000, 7, 8, now))
        kernel.write(loads, load_record(0x7000, 300, FROM_MEMORY, time=now))
        kernel.write(loads, load_record(0x7000, 9, 4, time=now))  # a store
        profile = sampling.profile()
        assert sum(hit.samples for hit in profile.hits([1.0])) == 1
        (load,) = profile.loads()
        assert (load.latency_cycles, load.level, load.tlb_hit, load.address) == (300, "memory", True, 0x7000)
    assert not kernel.events


def test_time_is_sampled_where_loads_are_refused() -> None:
    kernel = RingKernel()
    kernel.refuse = lambda event: 13 if event.attributes.type != 1 else 0  # EACCES
    with TimeSampling(kernel, Wish(), attached=True, pmus=pmus("zen5")) as sampling:
        sampling.open_threads(os.getpid(), (8,), ())
        assert len(kernel.events) == 1 and not sampling.reason
    with TimeSampling(RingKernel(), Wish(), attached=True, pmus=pmus("guest")) as sampling:
        sampling.open_threads(os.getpid(), (8,), ())
        assert sampling.profile().loads() == ()
