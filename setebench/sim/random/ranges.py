"""What random machines are drawn from, and why: `RANGES` is the whole story.

Values that no probe could distinguish from outside are not drawn at random (a load queue smaller than the
miss queue would hide it, say). What stands in a list several times is drawn as often. Sizes and policies name a part
that has them; where many do, the usual ones are meant by the years. Published measurements: 7-cpu.com, uops.info (cache
policies by nanoBench: Abel and Reineke, ISPASS 2020), chipsandcheese.com, the vendors' optimization guides and manuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    "noise.kind": ("quiet", "normal", "normal", "guest", "shared", "stolen"),
    "noise.interrupt_interval_cycles": (3e6, 2e7),  # a tick of 250 to 1000 Hz
    "noise.interrupt_cycles": (3000.0, 20000.0),
    "noise.interrupt_lines": (16, 128),
    "noise.stall_interval_cycles": (1e5, 1e6),
    "noise.stall_cycles": (100.0, 800.0),
    # shared: an SMT co-runner on the core's other thread for a part of the time, with entries, issue slots and lines
    "noise.co_runner_interval_cycles": (2e8, 3e9),
    "noise.co_runner_cycles": (1e8, 1e9),
    "noise.co_runner_entries": (0.1, 0.5),  # of the level-1 miss entries
    "noise.co_runner_issue_share": (0.1, 0.5),
    "noise.co_runner_line_interval_cycles": (50.0, 2000.0),
    # stolen: whole milliseconds go to other guests in episodes, 2 to 20 % of the time in them
    "noise.steal_interval_cycles": (2e7, 2e8),
    "noise.steal_cycles": (2e6, 1.2e7),  # 1 to 4 ms at 2 to 3 GHz
    "noise.steal_lines": (256, 8192),
    "noise.episode_interval_cycles": (1e9, 1e10),
    "noise.episode_cycles": (5e8, 5e9),
    "noise.jumps": (0.25,),  # share of all but quiet machines whose frequency goes up and down in steps
    "noise.jump": (0.005, 0.04),  # one or two steps of 100 MHz (Haswell-EP: Hackenberg et al., IPDPSW 2015)
    "noise.jump_period_cycles": (5e7, 3e9),
    "noise.drift_period_cycles": (1e9, 1e10),  # a second or so
    "noise.drift": (0.0, 0.04),  # guests drift with their neighbours' power
    "noise.recorded": (0.5,),  # share of all but quiet machines whose clock replays a recording instead
    # in guests others take places in a directory of the whole host: in one of a Zen 4 host 5 to 25 % of the lines of
    # the private caches were found gone to memory a millisecond later, in bursts
    "loss.present": (0.3,),  # share of guests
    "loss.per_millisecond": (0.05, 0.25),
    "loss.microseconds": (20.0, 50.0, 200.0, 500.0, 2000.0),  # between bursts: from nearly steady to a few large ones
    "line_size": (64,) * 18 + (32, 128),  # 128: POWER, Apple M1; 32: first levels of Cortex-A5 to A9
    # cores: mostly two or more, so that coherence can be seen
    "core.in_order": (0.3,),  # share of machines
    "core.cores": (1, 2, 2, 2, 2, 3, 4, 4, 6, 8, 12, 16),
    "core.cpus": (32,),  # most threads in all: more cost simulated time and show nothing new
    "core.threads": (1, 1, 2, 4),
    "core.in_order_width": (1, 2),
    "core.width": (3, 4, 6, 8),
    "core.reorder_window": (192, 224, 352, 448, 512),
    "core.load_queue": (128, 160, 192, 256),  # above every demand miss queue drawn
    "hidden.queues": (0.2,),  # share of machines on which something hides level 1's miss queue
    "hidden.by_load_queue": (0.5,),  # of these, share with a load queue as long or shorter, the others have slow memory
    "hidden.load_queue": (0.5, 0.75, 1.0),  # of the entries
    "hidden.memory_interval": (1.0, 2.0),  # of a latency by entries: cycles between two lines
    "core.store_queue": (56, 64, 104, 128),
    "core.multiply_cycles": (3.0, 4.0),
    "core.transfer_cycles": (1.0, 4.0),
    "core.flush_cycles": (20.0, 80.0),
    "core.flush_cached_extra": (0.0, 0.0, 20.0, 50.0),
    "core.blocking": (0.5,),  # share of in-order cores that block on loads; and on stores; the paper's does both
    "core.blocking_prefetch": (0.1,),  # share of blocking cores that block on software prefetches too
    "core.access_sizes": ((8, 16), (8, 16, 32), (8, 16, 32, 64)),  # SSE, AVX, AVX-512
    "core.smt_extra_cycles": (0.0, 4.0, 10.0),
    # caches: sizes of parts sold between 1996 and 2025
    # 64 sets of 64 bytes are page-sized ways: virtually indexed, physically tagged. 128: 32 KiB of 4 ways (Cortex-A53
    # and A76 by half), which needs one more bit; 32: 16 KiB of 8 ways
    "l1.sets": (32, 64, 64, 64, 64, 64, 128, 128),
    "l1.ways": (
        3,
        4,
        4,
        6,
        8,
        8,
        8,
        10,
        12,
        12,
        16,
    ),  # 3: Alpha 21164's second; 6: Bonnell; 10: ARM X4 by half; 16: VIA
    "l1.latency": (2, 3, 4, 4, 5, 5),
    "l1.physical": (0.3,),  # share of machines that index by translated bits; it shows where a way is more than a page
    "l1.hashed": (0.05,),  # GPUs' first levels (Khairy et al., ISCA 2020); skewed ones differ by way as well
    # ways predicted by a hash of the virtual address, as in AMD's cores from Bulldozer on: 8 bits, and the second level
    # serves what is mispredicted (Lipp et al., "Take A Way", AsiaCCS 2020)
    "way.predicted": (0.25,),  # share of machines
    "way.tag_bits": (6, 8, 8),
    "way.mispredicted": (3.0, 12.0),
    # sets and ways: 128 KiB to 4 MiB, also 3 and 5 times a power of two
    "l2.shape": (
        (256, 8),  # 128 KiB: Cortex-A35
        (512, 8),  # 256 KiB: Nehalem to Broadwell
        (1024, 4),  # 256 KiB: Skylake's client parts
        (512, 12),  # 384 KiB
        (1024, 8),  # 512 KiB: Zen to Zen 3
        (1024, 12),  # 768 KiB
        (1024, 16),  # 1 MiB: Skylake-SP, Zen 4
        (1024, 20),  # 1.25 MiB: Tiger Lake, Golden Cove's client parts
        (2048, 12),  # 1.5 MiB
        (2048, 16),  # 2 MiB: Raptor Lake, Sapphire Rapids
        (2048, 20),  # 2.5 MiB: as much as Lunar Lake's
        (4096, 12),  # 3 MiB: Arrow Lake
        (4096, 16),  # 4 MiB: clusters of Gracemont
    ),
    "l2.latency": (10, 24),
    # slices and sets of each; with the ways up to 512 MiB, mostly far less: what is large takes long to fill
    "l3.shape": (
        (1, 4096),  # 3 to 5 MiB: parts of 2010
        (1, 8192),
        (1, 16384),  # 16 MiB of 16 ways: a core complex of Zen 2
        (1, 32768),  # 32 MiB: of Zen 3
        (2, 2048),  # 4 MiB of 16 ways: two slices of Sandy Bridge
        (4, 2048),  # 8 MiB: four of them
        (6, 2048),  # Coffee Lake
        (8, 2048),
        (8, 4096),
        (7, 2048),  # fused-off ones leave odd numbers
        (10, 2048),
        (14, 2048),
        (18, 2048),  # 11 ways: Skylake-SP
        (22, 2048),
        (28, 2048),  # 38.5 MiB of 11 ways: Cascade Lake-SP
        (40, 2048),  # 60 MiB of 12 ways: Ice Lake-SP
        (60, 2048),  # 112.5 MiB of 15 ways: Sapphire Rapids
        (32, 8192),  # 256 MiB of 16 ways
        (60, 8192),  # 480 MiB of 16 ways: about as much as Granite Rapids'
    ),
    "l3.ways": (8, 11, 12, 12, 15, 16, 16, 16, 20),
    "l3.partitioned": (0.1,),  # share of machines: cache allocation, or what other guests leave
    "l3.allocated_ways": (2, 3, 4, 6),
    "l3.most_lines": (1 << 23,),  # 512 MiB of 64-byte lines
    "l3.hashed": (0.8,),  # of those with one slice
    "l3.directory": (0.5,),  # of those that aren't inclusive: Skylake-SP (Yan et al., IEEE S&P 2019)
    "l3.directory_ways": (12,),
    "l3.directory_room": (1.1, 2.0),  # times the lines of all second levels
    # a cache of memory, as the eDRAM of Haswell and Broadwell: 128 MiB; of POWER8's memory buffers
    "l4.present": (0.12,),  # share of machines whose third level isn't too large
    "l4.shape": ((65536, 16), (131072, 16), (131072, 12)),  # 64 to 128 MiB
    "l4.least_lines": (1 << 20,),
    "l4.latency_more": (40, 100),  # over the third level
    "l4.replacement": ("lru", "random", "fifo", "srrip"),
    "l3.latency": (30, 70),
    "l3.present": (0.7,),  # share of machines with three levels
    "l1.ports": (2, 2, 3, 4),
    "l2.ports": (1, 2),
    "fill_interval": (0.5, 1.0),  # 64 or 128 bytes per cycle into a level
    "l2.inclusion": ("inclusive", "neither", "neither", "exclusive"),
    "l2.hashed": (0.3,),  # share of machines
    "l3.inclusion": ("inclusive", "inclusive", "exclusive", "victim", "neither"),  # victim: Skylake-SP, Zen
    # Tree-PLRU: first levels of all Intel cores; random: ARM; FIFO: XScale's; bit-PLRU: last levels of Nehalem and
    # Sandy Bridge; QLRU: second and last levels from Ivy Bridge on, by nanoBench on uops.info; SRRIP and BRRIP: Jaleel
    # et al., ISCA 2010
    "l1.replacement": ("lru", "lru", "tree_plru", "tree_plru", "tree_plru", "random", "fifo", "bit_plru", "srrip"),
    "l2.replacement": (
        "lru",
        "lru",
        "tree_plru",
        "tree_plru",
        "random",
        "fifo",
        "bit_plru",
        "srrip",
        "H00_M1_R2_U1",  # Skylake's second level
        "H00_M1_R0_U1",  # Cannon Lake's and Ice Lake's
    ),
    "l3.replacement": (
        "lru",
        "lru",
        "tree_plru",
        "random",
        "bit_plru",
        "srrip",
        "brrip",
        "H11_M1_R1_U2",  # Ivy Bridge
        "H11_M1_R0_U0",  # Haswell to Coffee Lake
        "H11_MR161_R0_U0",  # the other kind of their sets
        "H00_M1_R0_U1",
    ),
    # what inference can't know beforehand: variants that nobody has published of any CPU, and policies of papers
    "policy.rare": (0.2,),  # share of machines with one, at some level
    "policy.rare_ones": (
        "fifo",
        "nru",
        "nru",
        "bip",
        "H21_M1_R0_U0_UMO",
        "H21_M2_R0_U2",
        "H10_M2_R1_U1",
        "H00_M2_R2_U1",
        "H20_M1_R0_U3",
        "H11_MR82_R0_U0",
    ),
    "sets.odd": (0.2,),  # share of machines whose second or third level has such a part of a power of two of sets
    "sets.part": (0.625, 0.75, 0.75, 0.875),  # 0.75: slices of 12288 sets of Zen 3's stacked caches
    "vector_extra": (0.0, 1.0, 2.0, 3.0),
    # miss queues: the published range (KNC 8 and 58, Nehalem to Broadwell 10 and 16, Zen 2 22, Zen 5 64 of 124)
    "l1.mshr": (4, 6, 8, 10, 12, 16, 16, 20, 22, 24, 32, 48, 64, 96, 124, 128),
    "mshr_part": (0.5, 0.52, 0.75),  # of a queue, where only some are for one kind: 64 of 124
    "l1.mshr_split": (0.2,),  # share of machines that keep part of them from demand loads
    "l1.mshr_prefetch_limited": (0.1,),  # share of machines that keep part of them from software prefetches
    "l1.mshr_hardware_limited": (0.2,),  # and from hardware prefetchers
    "l2.mshr_factor": (0.75, 1.0, 1.5, 2.0, 3.0, 4.0),  # of level 1
    "l2.mshr_most": (192,),
    "l3.mshr": (128, 256),
    # TLBs
    # entries and ways, 0 for fully associative
    "tlb.l1_shape": (
        (16, 0),  # Bonnell
        (32, 0),  # Cortex-A72
        (48, 0),  # Cortex-A76
        (64, 0),  # Zen to Zen 3
        (72, 0),  # Zen 4
        (96, 0),  # Zen 5
        (160, 0),  # Firestorm
        (32, 4),
        (64, 4),  # Nehalem to Sunny Cove
        (96, 6),  # Golden Cove
        (128, 4),  # as many as Lion Cove's
    ),
    "tlb.l1_penalty": (6, 30),
    "tlb.l2_shape": (
        (512, 4),  # Nehalem, Sandy Bridge
        (512, 8),
        (640, 5),
        (1024, 8),  # Haswell
        (1280, 5),  # Cortex-A76
        (1536, 12),  # Skylake, Zen
        (1536, 6),  # Broadwell
        (2048, 16),  # Zen 2 and 3; Sunny Cove by 8
        (3072, 12),  # Firestorm
        (3072, 24),  # Zen 4
        (4096, 16),  # Zen 5
    ),
    "tlb.walk_extra": (15, 60),  # over the level-1 penalty
    "tlb.l1_2m_entries": (8, 16, 32, 48, 64, 72, 96),
    "tlb.l2_2m_missing": (0.15,),  # share of machines without a level 2 for 2 MiB pages (Sandy Bridge)
    "tlb.l1_index": ("linear", "linear", "linear", "hashed", "skewed"),  # of sets; skewed: Seznec, ISCA 1993
    "tlb.l2_index": (
        "linear",
        "linear",
        "hashed",
        "skewed",
    ),  # hashed: Skylake's, by XOR (Gras et al., USENIX Sec. 2018)
    "tlb.l1_pages_per_entry": (1, 1, 1, 4),  # 4: Zen's coalescing (AMD's optimization guide); Pham et al., MICRO 2012
    "tlb.l2_pages_per_entry": (1, 1, 1, 4, 8),
    "tlb.own_for_stores": (0.25,),  # share of machines
    "tlb.store_entries": (16, 32, 64),  # 16: Golden Cove
    "tlb.store_2m_entries": (8, 16),
    "tlb.walkers": (1, 2, 4, 6),
    # upper levels of page tables at hand (Barr, Cox and Rixner, ISCA 2010; van Schaik et al., 2017, by measurement)
    "tlb.walk_cache": (0.5,),  # share of machines on which it shows
    "tlb.walk_cache_entries": (16, 24, 32, 64),
    "tlb.walk_cache_miss": (10, 60),
    # memory
    "memory.latency": (150, 500),
    "memory.spread_share": (0.0, 0.08),  # of the latency
    "memory.interval": (0.0, 0.5, 1.0, 2.0),  # up to 100 GB/s; small enough for the miss queues to fill
    "memory.frame_run": (1, 1, 4, 16),  # small pages in a row that a buddy allocator had in a row
    "memory.banks": (0, 0, 64, 128, 256),
    "memory.rows": (0.6,),  # share of machines with banks that keep rows open
    "memory.row_bytes": (2048, 8192, 8192, 16384),  # 8 KiB: DDR4 of 8 chips (JESD79-4)
    "memory.row_saves": (0.1, 0.3),  # of the latency: precharge and activation, 14 ns each, of 80 to 150 ns
    "memory.bank_busy": (10.0, 40.0),
    "memory.scattered": (0.5,),  # share of splintered 2 MiB pages whose parts are scattered over memory
    "memory.pages": ("small", "real", "real", "splintered"),
    "memory.fault_4k": (700.0, 4000.0),
    "memory.fault_2m": (2e4, 3e5),
    # another socket's memory: loads take 1.5 to 2.2 times as long, links have a half to a quarter of the bandwidth
    # (Molka et al. 2017, Tables 1 and 2, for Haswell-EP; the vendors' figures since are alike)
    "remote.present": (0.15,),
    "remote.further_share": (0.4, 1.2),  # of memory's latency
    "remote.interval_factor": (1.5, 4.0),  # times that of memory
    # software prefetch
    "hints.t0": ("l1",) * 9 + ("l2",),  # l2: Pentium 4
    "hints.t1": ("l2", "l2", "l1", "l3"),  # l3 where there is one
    "hints.nta": ("l1", "l1", "l2"),
    "hints.w": (0.8,),  # share of machines that have it
    "hints.w_fills": ("l1",) * 7 + ("l2", "none"),  # none: Intel's before Broadwell took it for no operation
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
    "stream.late": (0.2,),  # share that begins late, as some of Golden Cove do
    "stream.late_trigger": (6, 8, 10, 12, 16),
    "stream.any_order": (0.2,),  # share at level 2 for which distinct lines count, in whatever order
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
    # what neighbours, tables and outer levels may do otherwise
    "varied.fills_l2": (0.2,),  # share of strides of level 1 that leave level 1 alone, as some streams there
    "varied.fills_l3": (0.15,),  # share at level 2 that fills level 3 (Intel's streamer may: manual 248966)
    "varied.fifo": (0.3,),  # share of tables that replace what was there longest
    "varied.shared_by_cores": (0.1,),  # share at level 2: beside a second level of several cores (Core 2, Gracemont)
    "varied.physically_on": (0.4,),  # share at level 2 that goes on in the physically next page
    "varied.least_run": (16,),  # neighbouring pages that lie so in physical memory, where that shows
    "shared_by_smt": (0.8,),  # share of prefetchers whose state SMT threads share
    # coherence
    "coherence.extra": (20.0, 120.0),  # a remote hit over the slowest own cache
    "coherence.modified_extra": (0.0, 0.0, 15.0),
    "coherence.shared": (0.3,),  # share of machines where another core delivers a shared line
    "coherence.per_sharer": (0.0, 0.0, 5.0),
    "coherence.distances": (0.4,),  # share of machines where some cores are further than others
    "coherence.distance": (0, 15),
    "coherence.clusters": (0.4,),  # share of those whose cores are in clusters, all equally far from the others
    "coherence.cluster_cores": (2, 4, 8),
    "coherence.cluster_distance": (10, 80),  # core complexes of Zen; sub-NUMA clusters
    "coherence.invalidate": (20.0, 150.0),
}


class Draw:
    """Draws by name from `RANGES`, or from other ranges, deterministic in the seed."""

    def __init__(self, seed: int, *stream: int, ranges: dict[str, tuple[Any, ...]] = RANGES) -> None:
        """`stream` names numbers of their own, so that what is drawn from them changes nothing else of the seed."""
        self.rng = np.random.default_rng((seed, 0x5E7E, *stream))
        self._ranges = ranges

    def real(self, name: str, digits: int = 2) -> float:
        """Uniform in a range of two numbers, rounded so that files stay readable."""
        low, high = self._ranges[name]
        return round(float(self.rng.uniform(low, high)), digits)

    def whole(self, name: str) -> int:
        """A whole number, uniform from low to high inclusive."""
        low, high = self._ranges[name]
        return int(self.rng.integers(low, high + 1))

    def of(self, values: Sequence[Any]) -> Any:
        """One of these."""
        return values[int(self.rng.integers(len(values)))]

    def one(self, name: str) -> Any:
        """One of the listed values."""
        return self.of(self._ranges[name])

    def fields(self, kind: str) -> dict[str, Any]:
        """One of the listed values of every field of that kind."""
        return {name.partition(".")[2]: self.one(name) for name in self._ranges if name.startswith(f"{kind}.")}

    def fitting(self, name: str, fits: Callable[[Any], bool]) -> Any:
        """One of those listed values that fit; there must be one."""
        return self.of([value for value in self._ranges[name] if fits(value)])

    def most(self, name: str) -> Any:
        """The only value of a range that is a limit; nothing is drawn."""
        (value,) = self._ranges[name]
        return value

    def chance(self, name: str) -> bool:
        """True for the given share of machines."""
        return bool(self.rng.random() < self._ranges[name][0])
