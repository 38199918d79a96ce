"""Data sets that lie in each level, by where the levels end: found by following pointers, not taken from the system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from setebench.calibration import MEMORY, Levels
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.size_sweep import SizeSweepParams
from setebench.experiments.streams.team import array_bytes_for
from setebench.kernels import BLOCK_BYTES, Kernel, stream_bytes
from setebench.machine import Facts
from setebench.scenario import Context

from .params import PARAMS


@dataclass(frozen=True)
class DataSet:
    """What each thread passes over: `blocks` blocks, each of arrays of `array_bytes` bytes, `passes` times a sample."""

    kernel: Kernel
    array_bytes: int
    blocks: int
    passes: int

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return self.blocks * self.kernel.arrays * self.array_bytes

    @property
    def spacing(self) -> int:
        """Bytes from one block to the next."""
        return stream_bytes(self.kernel, self.array_bytes)

    @property
    def sample_bytes(self) -> int:
        """Bytes that the program moves in a sample."""
        return self.passes * self.array_bytes // BLOCK_BYTES * self.kernel.program_bytes


def data_set(kernel: Kernel, total: int, small: int) -> DataSet:
    """One of about `total` bytes; where that is a block, as many passes as make up `small` bytes."""
    blocks = max(1, -(-total // PARAMS.block_bytes))
    array = array_bytes_for(kernel, total / blocks)
    blocks = max(1, round(total / (kernel.arrays * array)))  # more where an array is a power of two
    passes = -(-small // (kernel.arrays * array)) if blocks == 1 else 1
    return DataSet(kernel, array, blocks, passes)


def levels_of(context: Context) -> Levels:
    """Levels of this machine."""
    context.progress("where the levels end")
    region = working_memory(context)
    try:
        return find_levels(context, region)
    finally:
        context.machine.release(region)


def shared(levels: Levels, name: str) -> bool:
    """Whether other cores use a level, as they do memory and a third level. A second one that is the last may be a
    cluster's: then its data set is small, twice the first level."""
    return name not in levels.caches[:2]


def bytes_of(levels: Levels, facts: Facts, cpus: Sequence[int]) -> dict[str, int]:
    """Bytes of each thread's data set in every level and in memory, 0 where there is no room for one."""
    per_core = max((sum(cpu in group for cpu in cpus) for group in facts.siblings), default=1)
    found: dict[str, int] = {}
    before = sharing = 0.0
    for name in levels.caches:
        sharing = len(cpus) if shared(levels, name) else per_core
        share = levels.ends_bytes.get(name, 0.0) / sharing
        if levels.cycles[name] > PARAMS.memory_like * levels.cycles[MEMORY]:
            found[name] = 0
            continue
        found[name] = _inside(before, share, levels.shared(name))
        before = share or PARAMS.outgrows * before
    known = PARAMS.memory_step * levels.ends_bytes.get(levels.caches[-1], 0.0)
    whole = known or PARAMS.unknown_step * SizeSweepParams().largest
    return found | {MEMORY: int(max(whole / sharing, PARAMS.memory_step * before))}


def _inside(before: float, share: float, maybe_shared: bool) -> int:
    """Bytes that lie in a level behind one of `before` bytes; its own `share` is 0 where its end isn't known."""
    least = PARAMS.outgrows * before
    if not share:
        return int(least)
    wanted = max(least, PARAMS.part * share)
    if maybe_shared and before:
        wanted = min(wanted, max(least, PARAMS.shared_step * before))
    most = PARAMS.widest_part * share
    return int(min(wanted, most)) if most >= PARAMS.widest_part * least else 0
