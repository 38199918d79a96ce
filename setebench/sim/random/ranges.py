"""What random machines are drawn from, and why: `RANGES` is the whole story, by table and field of a machine file.

A float is the share of machines for which something holds; a list is a range, of numbers with fractions or of whole
ones; a tuple holds values to choose from, and what stands there several times is drawn as often. Sizes and policies
name a part that has them; where many do, the usual ones are meant by the years. Published measurements: 7-cpu.com,
uops.info (cache policies by nanoBench: Abel and Reineke, ISPASS 2020), chipsandcheese.com, the vendors' manuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

KINDS = (("load",), ("load", "store"), ("load", "store", "prefetch"))
NAMED = 3  # digits of a number that is drawn

RANGES: dict[str, Any] = {
    # clock: reference counters of 1 to 3.6 GHz, cores from half to twice that (turbo, fixed-rate counters)
    "clock.ticks_per_second": [1.0e9, 3.6e9],
    "clock.ticks_per_cycle": [0.5, 1.3],
    "clock.drift_period_cycles": [1e9, 1e10],  # a second or so
    "clock_fine": 0.5,  # counters that move by single ticks, the others by a step
    "clock_step": [10.0, 36.0],  # 26 on the reference guest, 36 on parts with a 100 MHz base clock
    "bracket.lfence": [18.0, 80.0],
    "bracket.rdtscp": [25.0, 90.0],
    "bracket.cpuid": [100.0, 250.0],  # on bare metal
    "bracket_trapped": [2000.0, 16000.0],  # in a guest: the call leaves to the hypervisor
    "clock_jitter": [0.0, 4.0],
    "clock_drift": [0.0, 0.04],  # guests drift with their neighbours' power
    # noise: from a quiet machine to a guest with neighbours
    "noise_kind": ("quiet", "normal", "guest", "shared", "recorded", "recorded", "recorded"),
    "recording": ("emerald-rapids-guest", "zen-4-guest", "zen-4-guest-busy"),
    "recorded_shared": 0.3,  # of machines whose recording says nothing of co-runners
    "noise.interrupt_interval_cycles": [3e6, 2e7],  # a tick of 250 to 1000 Hz
    "noise.interrupt_cycles": [3000.0, 20000.0],
    "noise.interrupt_lines": [16, 128],
    "shared.co_runner_interval_cycles": [2e8, 3e9],
    "shared.co_runner_cycles": [1e8, 1e9],
    "shared.co_runner_issue_share": [0.1, 0.5],
    "co_runner_entries": [0.1, 0.5],  # of the level-1 miss entries
    # in a guest of a Zen 4 host 5 to 25 % of the private lines were gone a millisecond later, in bursts
    "loses": 0.3,  # of guests and of those beside whom somebody runs
    "loss_per_millisecond": [0.05, 0.25],
    "loss_milliseconds": (0.02, 0.05, 0.2, 0.5, 2.0),
    "line_size": (64,) * 18 + (32, 128),  # 128: POWER, Apple M1; 32: first levels of Cortex-A5 to A9
    # cores: mostly two or more, so that coherence can be seen
    "in_order": 0.3,
    "blocking": 0.5,  # of in-order cores, on loads and on stores; the paper's does both
    "blocking_prefetch": 0.1,  # of these
    "most_cpus": 32,
    "in_order_width": (1, 2),
    "vector_extra": (0.0, 1.0, 2.0, 3.0),
    "core.cores": (1, 2, 2, 2, 2, 3, 4, 4, 6, 8, 12, 16),
    "core.threads_per_core": (1, 1, 2, 4),
    "core.issue_width": (3, 4, 6, 8),
    "core.reorder_window": (192, 224, 352, 448, 512),
    "core.load_queue": (16, 24, 24, 48, 48, 72, 128, 192, 256),  # a fifth are shorter than the miss queue: hidden
    "core.store_queue": (56, 64, 104, 128),
    "core.multiply_cycles": (3.0, 4.0),
    "core.integer_to_vector_cycles": [1.0, 4.0],
    "core.vector_to_integer_cycles": [1.0, 4.0],
    "core.access_sizes": ((8, 16), (8, 16, 32), (8, 16, 32, 64)),  # SSE, AVX, AVX-512
    "core.flush_cycles": [20.0, 80.0],
    # caches: sizes of parts sold from 1996 to 2025; 128 sets: 32 KiB of 4 ways (Cortex-A53), one bit more than a page
    "l1.sets": (32, 64, 64, 64, 64, 64, 128, 128),
    "l1.ways": (3, 4, 4, 6, 8, 8, 8, 10, 12, 12, 16),  # 3: Alpha 21164; 6: Bonnell; 16: VIA
    "l1.latency_cycles": (2.0, 3.0, 4.0, 4.0, 5.0, 5.0),
    "l1.hashed_index": 0.05,  # GPUs' first levels (Khairy et al., ISCA 2020)
    "l1.ports": (2, 2, 3, 4),
    # KNC 8 and 58, Nehalem to Broadwell 10 and 16, Zen 2 22, Zen 5 64 of 124
    "l1.mshr_entries": (4, 6, 8, 10, 12, 16, 16, 20, 22, 24, 32, 48, 64, 96, 124, 128),
    "l1.replacement": ("lru", "lru", "tree_plru", "tree_plru", "tree_plru", "random", "fifo", "bit_plru", "srrip"),
    "mshr_split": (0.2, 0.1, 0.2),  # machines that keep part of it from loads, software and hardware prefetches
    "mshr_part": (0.5, 0.52, 0.75),
    # ways predicted by a hash of the virtual address, as AMD's from Bulldozer on (Lipp et al., AsiaCCS 2020)
    "way_predicted": 0.25,
    "way.way_tag_bits": (6, 8, 8),
    "way.mispredicted_way_cycles": [3.0, 12.0],
    # sets and ways: 128 KiB to 4 MiB, also 3 and 5 times a power of two
    "l2_shape": (
        *((256, 8), (512, 8), (1024, 4), (512, 12), (1024, 8)),  # Cortex-A35, Nehalem, Skylake, -, Zen
        *((1024, 12), (1024, 16), (1024, 20), (2048, 12)),  # -, Skylake-SP and Zen 4, Tiger Lake, -
        *((2048, 16), (2048, 20), (4096, 12), (4096, 16)),  # Raptor Lake, Lunar Lake, Arrow Lake, Gracemont
    ),
    "l2.latency_cycles": [10, 24],
    "l2.inclusion": ("inclusive", "neither", "neither", "exclusive"),
    "l2.hashed_index": 0.3,
    "l2.ports": (1, 2),
    "l2.replacement": (
        *("lru", "lru", "tree_plru", "tree_plru", "random", "fifo", "bit_plru", "srrip"),
        *("H00_M1_R2_U1", "H00_M1_R0_U1"),  # Skylake; Cannon Lake and Ice Lake
    ),
    "l2_mshr_factor": (0.75, 1.0, 1.5, 2.0, 3.0, 4.0),  # of level 1
    "l2_mshr_most": 192,
    "l3_present": 0.7,
    "l3_growth": [2.0, 24.0],  # of level 2's lines
    "l3_most": 1 << 22,  # lines: 256 MiB, but what is large takes long to fill
    "l3.ways": (8, 11, 12, 12, 15, 16, 16, 16, 20),
    "l3.latency_cycles": [30, 70],
    "l3.inclusion": ("inclusive", "inclusive", "exclusive", "victim", "neither"),  # victim: Skylake-SP, Zen
    "l3.hashed_index": 0.8,
    "l3.mshr_entries": (128, 256),
    "l3.replacement": (
        *("lru", "lru", "tree_plru", "random", "bit_plru", "srrip", "brrip"),
        *("H11_M1_R1_U2", "H11_M1_R0_U0", "H11_MR161_R0_U0", "H00_M1_R0_U1"),  # Ivy Bridge, Haswell on, its other kind
    ),
    "fill_interval": (0.5, 1.0),  # 64 or 128 bytes per cycle into a level
    # what inference can't know beforehand: policies that nobody has published of any CPU, odd numbers of sets
    "rare_policy": 0.08,  # of levels
    "rare_policies": (
        *("fifo", "fifo", "brrip", "H21_M1_R0_U0_UMO", "H21_M2_R0_U2"),
        *("H10_M2_R1_U1", "H00_M2_R2_U1", "H20_M1_R0_U3", "H11_MR82_R0_U0"),
    ),
    "odd_sets": 0.2,  # of last levels
    "odd_part": (0.625, 0.75, 0.75, 0.875),  # of a power of two; 0.75: slices of Zen 3's stacked caches
    # TLBs: entries and ways, 0 for fully associative
    "tlb_l1": (
        *((16, 0), (32, 0), (48, 0), (64, 0), (72, 0), (96, 0), (160, 0)),  # Bonnell to Cortex, Zen, Firestorm
        *((32, 4), (64, 4), (96, 6), (128, 4)),  # Nehalem to Lion Cove
    ),
    "tlb_l2": (
        *((512, 4), (512, 8), (640, 5), (1024, 8), (1280, 5), (1536, 12), (1536, 6)),  # Nehalem to Skylake, Zen
        *((2048, 16), (3072, 12), (3072, 24), (4096, 16)),  # Zen 2, Firestorm, Zen 4, Zen 5
    ),
    "tlb_l1_2m": (8, 16, 32, 48, 64, 72, 96),
    "tlb_l2_2m_missing": 0.15,  # Sandy Bridge
    "tlb_hashed": (0.2, 0.4),  # of first levels with sets, of second ones (Gras et al., USENIX Security 2018)
    "tlb_penalty": [6, 30],
    "tlb_walk_extra": [15, 60],
    "tlb_walkers": (1, 2, 4, 6),
    # memory
    "memory_latency": [150, 500],
    "memory_spread": [0.0, 0.08],  # of the latency
    "memory_interval": (0.0, 0.5, 1.0, 2.0),  # up to 100 GB/s; small enough for the miss queues to fill
    "memory_pages": ("small", "real", "real", "splintered"),
    "memory.page_fault_4k_cycles": [700.0, 4000.0],
    "memory.page_fault_2m_cycles": [2e4, 3e5],
    # software prefetch
    "hints.t0": ("l1",) * 9 + ("l2",),  # l2: Pentium 4
    "hints.t1": ("l2", "l2", "l1", "l3"),
    "hints.t2": ("l2", "l2", "l1", "l3"),
    "hints.nta": ("l1", "l1", "l2"),
    "hints.w": ("l1",) * 7 + ("l2", "none", "", ""),  # none: Intel's before Broadwell took it for no operation
    "software.on_l1_tlb_miss": 0.95,
    "software.on_l2_tlb_miss": 0.9,
    "software.on_page_fault": 0.05,
    "software.across_page": 0.9,
    "software.when_full": ("stalls", "stalls", "drops"),
    "software.lower_hint_takes_l1_entry": 0.5,
    # coherence: another core's caches answer later than the slowest own one and before memory
    "coherence_extra": [20, 120],
    "coherence_modified": (0.0, 0.0, 15.0),
    "coherence_shared": 0.3,
    "coherence_distances": 0.4,  # machines where some cores are further than others
    "coherence_clusters": (1, 2, 4),  # cores: single ones, core complexes of Zen, sub-NUMA clusters
    "coherence_distance": [5, 80],
    "coherence.invalidate_cycles": [20.0, 150.0],
    "shared_by_smt": 0.8,  # of miss queues and of prefetchers
    # prefetchers: each of these is drawn on its own, so every combination comes up; half of the machines have, at each
    # level, one of another kind instead
    "l1_present": {"next_line": 0.3, "stream": 0.2, "stride": 0.45, "region": 0.2},
    "l2_present": {"pair": 0.35, "next_line": 0.15, "stride": 0.15, "up_down": 0.15, "stream": 0.6},
    "published": 0.4,  # of levels
    "l1_published": ("spatial", "reference_prediction", "ip_classes", "lead", "lead", "stream_buffer"),
    "l2_published": ("stream_buffer", "best_offset", "feedback_stream", "lead", "lead", "spatial"),
    "beside": 0.35,  # of these levels, whose neighbour-line prefetchers stay
    "trained_by": KINDS,
    "trained_by_l1_prefetcher": 0.5,
    "stalls": 0.2,  # that wait for a miss entry rather than drop
    "crosses_2m": 0.3,  # that go on past 4 KiB inside a 2 MiB page
    "crosses_4k": 0.15,  # of those of level 1, anywhere (Golden Cove, Zen 4)
    "fills_further": 0.2,  # strides of level 1 that fill level 2, level 2's that fill level 3 (Intel 248966)
    "next_line.trigger": (1, 2, 3),
    "next_line.streams": (4, 8, 16),
    "next_line.only_misses": 0.3,
    "next_line.degree": (1, 1, 2, 3, 4),
    # streamers: Knights Corner's and Sandy Bridge's; distances of the Intel manual (20) and around it
    "stream.trigger": (2, 3, 4, 5),
    "stream.degree": (1, 2, 3, 4),
    "stream.max_distance": (8, 12, 16, 20, 24, 32),
    "stream.directions": ("both", "both", "up"),
    "stream.streams": (8, 16, 32, 64),
    "stream.leads_by": ("batch", "batch", "new_line", "access"),
    "stream_late": 0.2,  # that begin late, as some of Golden Cove do
    "stream_late_trigger": (6, 8, 10, 12, 16),
    "stream_any_order": 0.2,  # at level 2, for which distinct lines count
    "stream_edges": 0.5,  # that need fewer accesses at a page's ends
    "stream_ramps": {3: (1, 2), 4: (2, 3)},  # by degree, in half of them
    "stream_ramp": 0.5,
    "stream_by_l1_prefetcher": 0.5,  # that one request of a level-1 prefetcher is enough for (Sandy Bridge)
    "stream_per_page": (1, 2),
    "stride.trigger": (2, 3, 4, 5),
    "stride.degree": (1, 1, 2),
    "stride.max_distance": (1, 2, 4, 6),
    "stride.min_stride_bytes": (1, 1, 1, 1, 64, 64, 64, 8, 32, 128),  # the last ones lie between what is asked
    "stride.max_stride_bytes": (512, 1024, 2048),
    "stride.directions": ("both", "both", "up"),
    "stride.entries": (8, 16, 24, 32),
    "stride.ip_bits": (6, 8, 10, 12),
    "stride.indexed_by": ("ip", "ip", "ip+page"),  # at level 1; level 2 doesn't see instruction addresses
    "region.region_size_bytes": (1024, 1024, 2048, 2048, 4096, 8192, 512, 512),  # 8192: of lines of 128 bytes
    "region.active_regions": (8, 16, 32),
    "region.entries": (32, 64, 128),
    "region.indexed_by": ("ip", "ip+offset", "offset"),
    "region.ip_bits": (8, 10, 12),
    "spatial.region_size_bytes": (1024, 2048, 2048, 4096, 512),
    "spatial.active_regions": (8, 16, 32),
    "spatial.entries": (64, 128, 256),
    "spatial.ip_bits": (10, 12, 16),
    "stream_buffer.buffers": (1, 4, 8, 10),
    "stream_buffer.depth": (2, 4, 8),
    "best_offset.max_offset": (8, 16, 32, 63),
    "best_offset.round_max": (50, 100),
    "best_offset.recent_entries": (64, 128, 256),
    "reference_prediction.entries": (64, 256, 512),
    "reference_prediction.lookahead": (1, 2, 4, 8),
    "reference_prediction.starts": ("transient", "steady"),
    "feedback_stream.streams": (16, 32, 64),
    "feedback_stream.max_distance": (4, 8, 16),
    "feedback_stream.feedback_interval": (64, 128, 512),
    "feedback_stream.leads_by": "access",
    "ip_classes.instructions": (64, 128),
    "ip_classes.stream_degree": (4, 6),
    "ip_classes.stride_degree": (2, 3, 4),
    "ip_classes.complex_degree": (0, 2, 3),
    # what runs show of prefetchers that learn distances, maps or paths
    "lead.leads": ((0, 1), (0, 0, 2), (0, 0, 1, 2, 3), (0, 0, 0, 4), (0, 3), (*(0,) * 7, 1), (*(0,) * 7, 1, 2, 3)),
    "lead.nearest": (1, 1, 1, 3),
    "lead.runs": (16, 32, 64),
    # PMU
    "pmu_registers": (4, 6, 8),  # Intel's with SMT up to Cascade Lake, AMD's since Zen, Ice Lake's
    "pmu_faulty": 0.5,
    "pmu_slight": 0.2,  # of machines, whose scaled counts are off by 1 to 4 %, less than can be seen of many
    "pmu.scaled": (0.5, 2.0, 3.0, 4.0, 8.0, 16.0, 0.62, 0.8, 1.25),
    "pmu_slightly_scaled": (0.96, 0.97, 0.98, 0.99, 1.01, 1.02, 1.03, 1.04),
    "pmu.multiplexed": [0.33, 0.5],
    "pmu.undercounts_smt": [0.02, 0.4],
    "pmu.background": [0.01, 0.3],
}


class Draw:
    """Draws by name from `RANGES`, deterministic in the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng((seed, 0x7277))  # another stream than that of the layout in memory

    def __call__(self, name: str) -> Any:
        """A value from the range of this name."""
        return self.value(RANGES[name])

    def value(self, known: Any) -> Any:
        """A value from this range; see the module's text."""
        if isinstance(known, tuple):
            return known[int(self.rng.integers(len(known)))]
        if isinstance(known, float):
            return bool(self.rng.random() < known)
        if isinstance(known, list):
            low, high = known
            if isinstance(low, int):
                return int(self.rng.integers(low, high + 1))
            return float(f"{self.rng.uniform(low, high):.{NAMED}g}")
        return known

    def fields(self, prefix: str) -> dict[str, Any]:
        """A value of every field of that table or kind."""
        names = (name for name in RANGES if name.startswith(f"{prefix}."))
        return {name.removeprefix(f"{prefix}."): self(name) for name in names}

    def fitting(self, name: str, fits: Callable[[Any], bool]) -> Any:
        """One of those listed values that fit; there must be one."""
        return self.value(tuple(value for value in RANGES[name] if fits(value)))
