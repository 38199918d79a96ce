"""What streams over data in a cache reach on a quiet copy of a simulated machine.

No formula says by how much prefetchers help or hinder: they bring lines early, and they take ports and miss entries
from loads. So the machine itself is asked, without noise and without any choice that an inference makes."""

from __future__ import annotations

import msgspec
import numpy as np

from setebench.kernels import BLOCK_BYTES, Kernel, stream_bytes
from setebench.machine import run_on
from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine, open_machine_file
from setebench.sim.spec.capacity import usable_lines

MOST_LINES = 1 << 16
"""Of all threads in a timed interval: what is simulated in a tenth of a second. Of larger caches, and of more threads
than that allows, nothing is said."""

LEAST_LINES = 1 << 13
"""Of a thread in a timed interval, which the clock's step and the bracket then change by less than a percent."""

MOST_PRIVATE = 2
"""Levels up to this one are a core's own, further ones all cores'."""


class QuietMachine:
    """A machine with its disturbances taken out, opened when it is first asked."""

    def __init__(self, machine: spec.Machine) -> None:
        calm = msgspec.structs.replace(machine.clock, drift=0.0, jump=0.0, jitter_cycles=0.0)
        self.machine = msgspec.structs.replace(machine, clock=calm, noise=spec.Noise())
        self._opened: SimulatedMachine | None = None

    def rates(self, kernel: Kernel, width: int, threads: int, level: int) -> list[float]:
        """Gigabytes that the program moves per second over data sets of each thread that lie in a level, in all forms
        of the kernel's loop; empty where no data set surely lies there."""
        sizes = self._sizes(threads, level)
        return [self._rate(kernel, width, threads, size, rolled) for size in sizes for rolled in kernel.forms]

    def _sizes(self, threads: int, level: int) -> list[int]:
        """Of the first level a half, of a further one three quarters; and, as a larger one is not always looked for,
        four times the nearer level, or twice where four times are more than half: of less the nearer one, whatever it
        replaces, still serves a part."""
        own, most = self._share(threads, level), MOST_LINES * self.machine.line_size_bytes
        if threads * LEAST_LINES > MOST_LINES:
            return []
        if level == 1:
            return [own // 2]
        near = self._share(threads, level - 1)
        least = 4 * near if 8 * near <= own else 2 * near
        sizes = {least, own * 3 // 4} if 2 * least <= own else set()
        return sorted(size for size in sizes if size * threads <= most)

    def _share(self, threads: int, level: int) -> int:
        """Bytes of a level that each thread has."""
        core = -(-threads // self.machine.core.cores)
        sharing = core if level <= MOST_PRIVATE else threads
        return usable_lines(self.machine.levels[level - 1]) * self.machine.line_size_bytes // sharing

    def _rate(self, kernel: Kernel, width: int, threads: int, size: int, rolled: bool) -> float:
        array = max(size // kernel.arrays // BLOCK_BYTES, 1) * BLOCK_BYTES
        passes = max(LEAST_LINES * self.machine.line_size_bytes // (array * kernel.arrays), 1)
        opened = self._opened = self._opened or open_machine_file(self.machine)
        page = max(opened.facts.page_sizes)
        regions = [opened.allocate(stream_bytes(kernel, array), page) for _ in range(threads)]
        bases = [Base(f"arrays{number}") for number in range(threads)]
        probes = {}
        for cpu, base in enumerate(bases):
            loop = Probe().repeat(passes, Probe().stream(base, kernel.name, array, width, rolled=rolled))
            probe = (Probe().start(0, dither=False) + loop).fence().stop(0)
            probes[opened.facts.cpus[cpu]] = probe.barrier() if threads > 1 else probe
        places = {base: np.full(2, region.address) for base, region in zip(bases, regions, strict=True)}
        ticks = max(int(found[-1, 0]) for found in run_on(opened, probes, places).values())
        for region in regions:
            opened.release(region)
        moved = threads * passes * array // BLOCK_BYTES * kernel.program_bytes
        return moved / (ticks / opened.facts.ticks_per_second) / 1e9
