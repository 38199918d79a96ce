"""The values that fields of a machine file may take, beyond their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from setebench.probe import ACCESS_SIZES, BRACKETS, HINTS
from setebench.sim import spec
from setebench.sim.spec.pmu import SIMULATED_ROLES

Table = type[msgspec.Struct]


@dataclass(frozen=True)
class Limit:
    """What a value may be beyond its type: `low` to `high` for numbers (and for each number of a list), one of
    `choices`, `least` to `most` elements or characters, `keys` of a dictionary, a power of two."""

    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()
    least: int = 0
    most: int = 1_000_000
    keys: tuple[str, ...] = ()
    power_of_two: bool = False


CYCLES = Limit(0, 1e7)
LATENCY = Limit(0.25, 1e5)
UNLIMITED = Limit()

LIMITS: dict[Table, dict[str, Limit]] = {
    spec.Clock: {
        "ticks_per_cycle": Limit(0.001, 100),
        "ticks_per_second": Limit(1e6, 1e11),
        "step_ticks": Limit(1, 100_000),
        "brackets": Limit(0, 1e6, keys=BRACKETS, least=1),
        "drift": Limit(0, 0.2),
        "drift_period_cycles": Limit(1e4, 1e13),
        "jump": Limit(0, 0.2),
        "jump_period_cycles": Limit(1e4, 1e13),
        "jitter_cycles": Limit(0, 1e4),
    },
    spec.Noise: {
        "interrupt_interval_cycles": Limit(0, 1e13),
        "interrupt_cycles": CYCLES,
        "interrupt_lines": Limit(0, 65536),
        "stall_interval_cycles": Limit(0, 1e13),
        "stall_cycles": CYCLES,
        "co_runner_interval_cycles": Limit(0, 1e13),
        "co_runner_cycles": Limit(1, 1e13),
        "co_runner_entries": Limit(0, 512),
        "co_runner_issue_share": Limit(0, 0.9),
        "co_runner_line_interval_cycles": Limit(0, 1e9),
        "steal_interval_cycles": Limit(0, 1e13),
        "steal_cycles": Limit(0, 1e10),
        "steal_lines": Limit(0, 1 << 20),
        "episode_interval_cycles": Limit(0, 1e13),
        "episode_cycles": Limit(1, 1e13),
        "loss_interval_cycles": Limit(0, 1e13),
        "loss_share": Limit(0, 1),
    },
    spec.VectorExtra: {"bytes16": Limit(0, 1000), "bytes32": Limit(0, 1000), "bytes64": Limit(0, 1000)},
    spec.Core: {
        "cores": Limit(1, 64),
        "threads_per_core": Limit(1, 8),
        "issue_width": Limit(1, 12),
        "reorder_window": Limit(1, 1024),
        "load_queue": Limit(1, 512),
        "store_queue": Limit(1, 512),
        "multiply_cycles": Limit(1, 100),
        "integer_to_vector_cycles": Limit(0, 100),
        "vector_to_integer_cycles": Limit(0, 100),
        "access_sizes": Limit(choices=ACCESS_SIZES, least=1, most=len(ACCESS_SIZES)),
        "flush_cycles": CYCLES,
        "flush_cached_extra_cycles": CYCLES,
        "smt_extra_cycles": Limit(0, 1000),
    },
    spec.Level: {
        "slices": Limit(1, 64),
        "allocated_ways": Limit(0, 32),
        "directory_sets": Limit(0, 1 << 22, power_of_two=True),
        "directory_ways": Limit(0, 32),
        "qlru": Limit(most=24),
        "sets": Limit(1, 1 << 20),
        "ways": Limit(1, 32),
        "latency_cycles": LATENCY,
        "way_tag_bits": Limit(0, 16),
        "mispredicted_way_cycles": Limit(0, 1000),
        "ports": Limit(1, 12),
        "fill_interval_cycles": Limit(0, 1000),
        "mshr_entries": Limit(0, 512),
        "mshr_demand_limit": Limit(0, 512),
        "mshr_prefetch_limit": Limit(0, 512),
        "mshr_hardware_limit": Limit(0, 512),
    },
    spec.TlbTable: {
        "entries": Limit(0, 65536),
        "ways": Limit(0, 64),
        "pages_per_entry": Limit(1, 16, power_of_two=True),
        "miss_penalty_cycles": Limit(0, 1e5),
    },
    spec.Tlb: {
        "walkers": Limit(1, 16),
        "walk_cache_entries": Limit(0, 4096),
        "walk_cache_miss_cycles": Limit(0, 1e5),
    },
    spec.Memory: {
        "bytes": Limit(1 << 26, 1 << 35),
        "latency_cycles": LATENCY,
        "spread_cycles": Limit(0, 1e5),
        "interval_cycles": Limit(0, 1e5),
        "banks": Limit(0, 1024),
        "bank_busy_cycles": Limit(0, 1e5),
        "row_bytes": Limit(0, 1 << 20, power_of_two=True),
        "row_hit_saves_cycles": Limit(0, 1e5),
        "frame_run_pages": Limit(1, 512, power_of_two=True),
        "page_sizes": Limit(choices=(4096, 2097152), least=1, most=2),
        "page_fault_4k_cycles": Limit(0, 1e9),
        "page_fault_2m_cycles": Limit(0, 1e9),
    },
    spec.Hint: {},
    spec.SoftwarePrefetch: {"hints": Limit(keys=HINTS)},
    spec.Prefetcher: {"trained_by": Limit(least=1, most=4)},
    spec.NextLine: {"trigger": Limit(1, 16), "streams": Limit(1, 64), "degree": Limit(1, 8)},
    spec.LinePair: {},
    spec.Streamer: {
        "trigger": Limit(1, 16),
        "trigger_at_page_edge": Limit(1, 16, most=4),
        "trigger_by_l1_prefetcher": Limit(0, 16),
        "degree": Limit(1, 16),
        "ramp": Limit(1, 16, most=4),
        "max_distance": Limit(1, 256),
        "streams": Limit(1, 128),
    },
    spec.Stride: {
        "trigger": Limit(2, 16),
        "degree": Limit(1, 16),
        "max_distance": Limit(1, 64),
        "min_stride_bytes": Limit(1, 1 << 21),
        "max_stride_bytes": Limit(1, 1 << 21),
        "entries": Limit(1, 256),
        "ip_bits": Limit(1, 26),
    },
    spec.Region: {
        "region_size_bytes": Limit(64, 8192, power_of_two=True),
        "trigger": Limit(1, 3),
        "active_regions": Limit(1, 128),
        "entries": Limit(1, 1024),
        "ip_bits": Limit(1, 26),
    },
    spec.UpDown: {"streams": Limit(1, 128)},
    spec.StreamBuffer: {"buffers": Limit(1, 32), "depth": Limit(1, 16)},
    spec.BestOffset: {
        "max_offset": Limit(1, 63),
        "score_max": Limit(2, 63),
        "round_max": Limit(2, 100),
        "bad_score": Limit(0, 31),
        "recent_entries": Limit(16, 1024, power_of_two=True),
        "arrives_after": Limit(0, 31),
    },
    spec.SpatialPattern: {
        "region_size_bytes": Limit(64, 8192, power_of_two=True),
        "active_regions": Limit(1, 128),
        "entries": Limit(1, 1024),
        "vote_percent": Limit(1, 100),
        "ip_bits": Limit(1, 26),
    },
    spec.ReferencePrediction: {"entries": Limit(1, 1024, power_of_two=True), "lookahead": Limit(1, 16)},
    spec.AccessMap: {"maps": Limit(1, 128), "degree": Limit(1, 16), "max_stride": Limit(1, 31)},
    spec.LocalDeltas: {
        "instructions": Limit(1, 64),
        "history": Limit(1, 16),
        "not_before": Limit(1, 8),
        "learns_over": Limit(4, 64),
        "coverage_percent": Limit(1, 100),
        "degree": Limit(1, 8),
    },
    spec.FeedbackStream: {
        "streams": Limit(1, 64),
        "trigger": Limit(2, 8),
        "start_level": Limit(1, 5),
        "interval": Limit(16, 8192),
        "low_percent": Limit(0, 100),
        "high_percent": Limit(0, 100),
    },
    spec.SignaturePath: {
        "pages": Limit(1, 256),
        "patterns": Limit(64, 4096, power_of_two=True),
        "threshold_percent": Limit(1, 100),
        "trust_percent": Limit(1, 100),
        "max_depth": Limit(1, 16),
    },
    spec.InstructionClasses: {
        "instructions": Limit(1, 1024, power_of_two=True),
        "regions": Limit(1, 64),
        "dense_percent": Limit(10, 100),
        "stream_degree": Limit(1, 16),
        "stride_degree": Limit(1, 16),
        "complex_degree": Limit(0, 16),
    },
    spec.NextPage: {"trigger": Limit(2, 16), "reach": Limit(1, 32), "degree": Limit(1, 8), "pages": Limit(1, 64)},
    spec.RemoteMemory: {
        "bytes": Limit(1 << 21, 1 << 36),
        "further_cycles": Limit(0, 1e5),
        "link_interval_cycles": CYCLES,
    },
    spec.Coherence: {
        "modified_cycles": LATENCY,
        "exclusive_cycles": LATENCY,
        "shared_cycles": Limit(0, 1e5),
        "invalidate_cycles": Limit(0, 1e5),
        "invalidate_per_sharer_cycles": Limit(0, 1e5),
        "distance_cycles": Limit(0, 1e5, most=64),
    },
    spec.Fault: {"amount": Limit(0, 1000)},
    spec.Pmu: {"registers": Limit(1, 64), "events": Limit(keys=SIMULATED_ROLES, most=4)},
    spec.Machine: {
        "name": Limit(least=1, most=64),
        "description": Limit(most=300),
        "line_size_bytes": Limit(choices=(32, 64, 128)),
        "levels": Limit(least=2, most=4),
        "prefetchers": Limit(most=16),
    },
}
