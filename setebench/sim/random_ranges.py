"""What random machines are drawn from, and why: `RANGES` is the whole story.

Values that could not be told apart from outside by any probe are not drawn at random (a load queue smaller than the
miss queue would hide it, say). Lines have 64 bytes, as on every x86-64 CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

RANGES: dict[str, tuple[Any, ...]] = {
    # clock: reference counters of 1 to 3.6 GHz, cores from half to twice that (turbo, fixed-rate counters)
    "clock.ticks_per_second": (1.0e9, 3.6e9),
    "clock.ticks_per_cycle": (0.5, 1.3),
    "clock.fine": (0.5,),  # share of machines whose counter moves by single ticks; the others by a step below
    "clock.step_ticks": (10.0, 36.0),  # 26 on the reference guest, 36 on parts with a 100 MHz base clock
    "clock.lfence_cycles": (18.0, 80.0),
    "clock.rdtscp_cycles": (25.0, 90.0),
    "clock.cpuid_cycles": (100.0, 250.0),  # on bare metal
    "clock.cpuid_trapped_cycles": (2000.0, 16000.0),  # in a guest: the call leaves to the hypervisor
    "clock.jitter_cycles": (0.0, 4.0),
    # noise: from a quiet machine to a guest with neighbours
    "noise.kind": ("quiet", "normal", "guest"),
    "noise.interrupt_interval_cycles": (3e6, 2e7),  # a tick of 250 to 1000 Hz
    "noise.interrupt_cycles": (3000.0, 20000.0),
    "noise.interrupt_lines": (16, 128),
    "noise.stall_interval_cycles": (1e5, 1e6),
    "noise.stall_cycles": (100.0, 800.0),
    "noise.drift_period_cycles": (1e9, 1e10),  # a second or so
    "noise.drift": (0.0, 0.04),  # guests drift with their neighbours' power
    # cores: two or more, so that coherence can be seen
    "core.in_order": (0.3,),  # share of machines
    "core.cores": (1, 2, 2, 2, 4),
    "core.threads": (1, 1, 2, 4),
    "core.in_order_width": (1, 2),
    "core.width": (3, 4, 6, 8),
    "core.reorder_window": (192, 224, 352, 448, 512),
    "core.load_queue": (128, 160, 192, 256),  # above every demand miss queue drawn, or it would hide it
    "core.store_queue": (56, 64, 104, 128),
    "core.multiply_cycles": (3.0, 4.0),
    "core.transfer_cycles": (1.0, 4.0),
    "core.flush_cycles": (20.0, 80.0),
    "core.flush_cached_extra": (0.0, 0.0, 20.0, 50.0),
    "core.blocking": (0.5,),  # share of in-order cores that block on loads; and on stores; the paper's does both
    "core.blocking_prefetch": (0.1,),  # share of blocking cores that block on software prefetches too
    "core.access_sizes": ((8, 16), (8, 16, 32), (8, 16, 32, 64)),  # SSE, AVX, AVX-512
    "core.smt_extra_cycles": (0.0, 4.0, 10.0),
    # caches: sizes of parts sold between 2008 and 2025
    "l1.sets": (64,),  # page-sized ways: virtually indexed, physically tagged
    "l1.ways": (4, 8, 8, 10, 12),
    "l1.latency": (2, 3, 4, 4, 5, 5),
    "l2.sets": (512, 1024, 2048),
    "l2.ways": (4, 8, 16, 20),
    "l2.latency": (10, 24),
    "l3.sets": (8192, 16384, 32768),  # always larger than level 2
    "l3.ways": (8, 12, 16),
    "l3.latency": (30, 70),
    "l3.present": (0.7,),  # share of machines with three levels
    "l1.ports": (2, 2, 3, 4),
    "l2.ports": (1, 2),
    "fill_interval": (0.5, 1.0),  # 64 or 128 bytes per cycle into a level
    "l2.inclusion": ("inclusive", "neither", "neither", "exclusive"),
    "l2.hashed": (0.3,),  # share of machines
    "l3.inclusion": ("inclusive", "exclusive", "neither"),
    "replacement": ("lru", "lru", "tree_plru", "random"),
    "vector_extra": (0.0, 1.0, 2.0, 3.0),
    # miss queues: the published range (KNC 8 and 58, Nehalem to Broadwell 10 and 16, Zen 2 22, Zen 5 64 of 124)
    "l1.mshr": (6, 8, 10, 12, 16, 22, 24, 32, 48),
    "l1.mshr_split": (0.2,),  # share of machines that keep part of them from demand loads
    "l1.mshr_prefetch_limited": (0.1,),  # share of machines that keep part of them from software prefetches
    "l1.mshr_hardware_limited": (0.2,),  # and from hardware prefetchers
    "l2.mshr_factor": (0.75, 1.0, 1.5, 2.0, 3.0, 4.0),  # of level 1
    "l3.mshr": (128, 256),
    # TLBs
    "tlb.l1_entries": (32, 48, 64, 72, 96),
    "tlb.l1_set_associative": (0.3,),  # share of machines, four ways; the others are fully associative
    "tlb.l1_penalty": (6, 30),
    "tlb.l2_entries": (512, 1024, 1536, 2048),
    "tlb.walk_extra": (15, 60),  # over the level-1 penalty
    "tlb.l1_2m_entries": (8, 16, 32, 64),
    "tlb.l2_2m_missing": (0.15,),  # share of machines without a level 2 for 2 MiB pages (Sandy Bridge)
    "tlb.walkers": (1, 2, 4, 6),
    # memory
    "memory.latency": (150, 500),
    "memory.spread_share": (0.0, 0.08),  # of the latency
    "memory.interval": (0.0, 0.5, 1.0, 2.0),  # up to 100 GB/s; small enough for the miss queues to fill
    "memory.banks": (0, 0, 0, 64, 128),
    "memory.bank_busy": (10.0, 40.0),
    "memory.scattered": (0.5,),  # share of splintered 2 MiB pages whose parts are scattered over memory
    "memory.pages": ("small", "real", "real", "splintered"),
    "memory.fault_4k": (700.0, 4000.0),
    "memory.fault_2m": (2e4, 3e5),
    # software prefetch
    "hints.t1": ("l2", "l2", "l1", "l3"),  # l3 where there is one
    "hints.nta": ("l1", "l1", "l2"),
    "hints.w": (0.8,),  # share of machines that have it
    "prefetch.drops": (0.3,),  # share of machines that drop prefetches rather than stall
    "hints.nta_bypasses_l2": (0.3,),  # where level 2 isn't inclusive
    "prefetch.on_l1_tlb_miss": (0.95,),
    "prefetch.on_l2_tlb_miss": (0.9,),
    "prefetch.on_page_fault": (0.05,),
    "prefetch.across_page": (0.9,),
    "prefetch.takes_l1_entry": (0.5,),
    # prefetchers: each kind is drawn on its own, so every combination comes up
    "next_line.present": (0.3,),
    "next_line.trigger": (1, 2, 3),
    "next_line.streams": (4, 8, 16),
    "l1_stream.present": (0.2,),
    "stride.present": (0.45,),
    "stride.trigger": (2, 3, 4, 5),
    "stride.degree": (1, 2),
    "stride.max_distance": (1, 2, 4, 6),
    "stride.min_stride": (1, 1, 64),
    "stride.indexed_by": ("ip", "ip", "ip+page"),  # at level 1; level 2 doesn't see instruction addresses
    "stride.max_stride": (512, 1024, 2048),
    "stride.entries": (8, 16, 24, 32),
    "stride.ip_bits": (6, 8, 10, 12),
    "region.present": (0.2,),
    "region.size": (1024, 2048, 4096),
    "region.trigger": (1, 2),
    "region.active": (8, 16, 32),
    "region.entries": (32, 64, 128),
    "region.indexed_by": ("ip", "ip+offset", "offset"),
    "region.fills": ("l1", "l2"),
    "pair.present": (0.35,),
    "l2_next_line.present": (0.15,),
    "l2_stride.present": (0.15,),
    "up_down.present": (0.15,),
    "l2_stream.present": (0.6,),
    "stream.trigger": (2, 3, 4, 5),
    "stream.at_page_edge": (0.5,),  # share that need fewer accesses at the ends of a page (Knights Corner)
    "stream.by_l1_prefetcher": (0.5,),  # share that one request of a level-1 prefetcher is enough for (Sandy Bridge)
    "stream.degree": (1, 2, 4),
    "stream.ramp": ((), (2, 3)),  # with degree 4, as Knights Corner's
    "stream.l1_fills": ("l1", "l2"),
    "stream.directions": ("both", "both", "up"),
    "stream.max_distance": (8, 12, 16, 20, 32),
    "stream.streams": (8, 16, 32),
    "stream.streams_per_page": (1, 2),
    "next_line.only_misses": (0.3,),
    "trained_by": (("load",), ("load", "store"), ("load", "store", "prefetch")),
    "trained_by_l1_prefetcher": (0.5,),  # share of level-2 prefetchers
    "prefetcher.stalls": (0.2,),  # share of prefetchers that wait for a miss entry rather than drop
    "crosses.2m": (0.3,),  # share of stream and stride prefetchers that go on past 4 KiB inside a 2 MiB page
    "crosses.4k": (0.15,),  # share of level-1 stride prefetchers that go on past 4 KiB anywhere (Golden Cove, Zen 4)
    "shared_by_smt": (0.8,),  # share of prefetchers whose state SMT threads share
    # coherence
    "coherence.extra": (20.0, 120.0),  # a remote hit over the slowest own cache
    "coherence.modified_extra": (0.0, 0.0, 15.0),
    "coherence.shared": (0.3,),  # share of machines where another core delivers a shared line
    "coherence.per_sharer": (0.0, 0.0, 5.0),
    "coherence.distances": (0.4,),  # share of machines where some cores are further than others
    "coherence.distance": (0, 15),
    "coherence.invalidate": (20.0, 150.0),
}


class Draw:
    """Draws by name from `RANGES`, deterministic in the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng((seed, 0x5E7E))

    def real(self, name: str, digits: int = 2) -> float:
        """Uniform in a range of two numbers, rounded so that files stay readable."""
        low, high = RANGES[name]
        return round(float(self.rng.uniform(low, high)), digits)

    def whole(self, name: str) -> int:
        """A whole number, uniform from low to high inclusive."""
        low, high = RANGES[name]
        return int(self.rng.integers(low, high + 1))

    def one(self, name: str) -> Any:
        """One of the listed values."""
        values = RANGES[name]
        return values[int(self.rng.integers(len(values)))]

    def chance(self, name: str) -> bool:
        """True for the given share of machines."""
        return bool(self.rng.random() < RANGES[name][0])
