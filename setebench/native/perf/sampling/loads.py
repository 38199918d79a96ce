"""Samples of loads with their latency and the level that served them, by whatever this CPU's kernel has for it.

The kernel names the ways: a PMU `ibs_op`, or an event `mem-loads` of the core's PMU, with `mem-loads-aux` as leader of
its group where that is listed, too. Nothing here knows a CPU's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from setebench.errors import UnsupportedError
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Sample
from setebench.native.perf.encode import Encoder
from setebench.native.perf.kernel import NO_GROUP, Kernel, close_all
from setebench.native.perf.sampling.buffers import ANY_CPU, DATA_PAGES, Sampler
from setebench.native.perf.sysfs import Pmu, core_pmus

SAMPLE_TYPE = Sample.IP | Sample.TID | Sample.TIME | Sample.ADDR | Sample.CPU | Sample.WEIGHT | Sample.DATA_SRC
OPERATIONS = "ibs_op"
LEAST_PRECISE = 2
"""Below, the sampled address is not that of the load (perf_event_open(2), precise_ip)."""
USUAL_PRECISE = 2
"""Where the kernel does not say how precise it can be."""


class LoadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """How loads are sampled here. `leader`: an event that must lead the sampled one's group. `loads_only`: False where
    other operations are among the samples, to be left out by `DataSource.operation`."""

    sampled: Attributes
    leader: Attributes | None = None
    loads_only: bool = True


def load_event(pmus: Mapping[str, Pmu], samples_hz: int, least_cycles: int) -> LoadEvent:
    """The event that samples loads so many times a second and CPU (the kernel adapts its period), those that took
    `least_cycles` and more where the hardware can choose so. At rest until it is enabled.

    Raises `UnsupportedError` where this kernel names no way."""
    if OPERATIONS in pmus:
        return _operations(pmus[OPERATIONS], samples_hz)
    for pmu in core_pmus(dict(pmus)):
        if "mem-loads" in pmu.events:
            return _loads(pmu, pmus, samples_hz, least_cycles)
    raise UnsupportedError("no loads are sampled: the kernel lists neither a PMU ibs_op nor an event mem-loads here")


def for_program(event: LoadEvent, like: Attributes) -> LoadEvent:
    """The event for the threads and from the moment that another event of the same program has: what it starts is
    sampled where that is, and its samples have that clock."""
    names = ("inherit", "enable_on_exec", "use_clockid", "clockid")
    same = {name: getattr(like, name) for name in names}
    leader = event.leader and msgspec.structs.replace(event.leader, **same)
    return msgspec.structs.replace(event, sampled=msgspec.structs.replace(event.sampled, **same), leader=leader)


def _operations(pmu: Pmu, samples_hz: int) -> LoadEvent:
    """Every kind of operation is sampled. Leaving the kernel out, which ordinary users must, takes a filter that newer
    kernels have."""
    terms = ["cnt_ctl=1"] if "cnt_ctl" in pmu.formats else []
    filtered = "swfilt" in pmu.formats
    sampled = _encoded(pmu, [*terms, *(["swfilt=1"] if filtered else [])], {pmu.name: pmu})
    return LoadEvent(sampled=_sampling(sampled, samples_hz, exclude_kernel=filtered), loads_only=False)


def _loads(pmu: Pmu, pmus: Mapping[str, Pmu], samples_hz: int, least_cycles: int) -> LoadEvent:
    precise = int(pmu.caps.get("max_precise", str(USUAL_PRECISE)) or 0)
    if precise < LEAST_PRECISE:
        raise UnsupportedError(f"no loads are sampled: PMU {pmu.name} takes no precise samples (a hypervisor's limit)")
    sampled = _encoded(pmu, ["mem-loads", f"ldlat={least_cycles}"], pmus)
    leader = None
    if "mem-loads-aux" in pmu.events:
        aux = _encoded(pmu, ["mem-loads-aux"], pmus)
        leader = msgspec.structs.replace(aux, disabled=True, exclude_kernel=True, precise_ip=0)
    sampled = msgspec.structs.replace(sampled, precise_ip=min(precise, 3))
    return LoadEvent(sampled=_sampling(sampled, samples_hz, exclude_kernel=True), leader=leader)


def _encoded(pmu: Pmu, terms: Sequence[str], pmus: Mapping[str, Pmu]) -> Attributes:
    return Encoder(dict(pmus), {}).encode(f"{pmu.name}/{','.join(terms)}/").terms[0].attributes


def _sampling(attributes: Attributes, samples_hz: int, *, exclude_kernel: bool) -> Attributes:
    return msgspec.structs.replace(
        attributes,
        freq=True,
        sample_period=samples_hz,
        sample_type=int(SAMPLE_TYPE),
        disabled=True,
        sample_id_all=True,
        exclude_kernel=exclude_kernel,
    )


class LoadSampler(Sampler):
    """A `Sampler` of loads: opens the leader that the event needs beside it."""

    def __init__(
        self,
        event: LoadEvent,
        pid: int = 0,
        cpus: Sequence[int] = ANY_CPU,
        data_pages: int = DATA_PAGES,
        kernel: Kernel = _perf,
    ) -> None:
        """See `Sampler`."""
        self._leader = event.leader
        self._leaders: list[int] = []
        super().__init__(event.sampled, pid, cpus, data_pages, kernel)

    def _opened(self, attributes: Attributes, pid: int, cpu: int, group_fd: int = NO_GROUP) -> int:
        if self._leader is None:
            return super()._opened(attributes, pid, cpu, group_fd)
        leader = super()._opened(self._leader, pid, cpu, group_fd)
        self._leaders.append(leader)
        return super()._opened(attributes, pid, cpu, leader)

    def enable(self) -> None:
        """See `Sampler.enable`."""
        for fd in self._leaders:
            self._kernel.enable(fd)
        super().enable()

    def disable(self) -> None:
        """See `Sampler.disable`."""
        super().disable()
        for fd in self._leaders:
            self._kernel.disable(fd)

    def close(self) -> None:
        """See `Sampler.close`."""
        super().close()
        leaders, self._leaders = self._leaders, []
        close_all(self._kernel, leaders)
