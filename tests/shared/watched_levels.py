"""A real simulated machine behind the methods of `described.Level`: the same sequences, lines found by inspection."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from quiet_machines import LINE, PAGE, quiet

from setebench.probe import Base, Probe
from setebench.sim import spec
from setebench.sim.inspect import cached_lines
from setebench.sim.truth.described import SCATTER_INSTRUCTIONS, SCATTER_IP, SCATTERED, SPREAD

WHERE = Base("line")
PAGES, SCATTER_BYTES = 2048, 1 << 26


class WatchedLevel:
    """A quiet machine with these prefetchers alone, large second-level cache and no limit of misses in flight."""

    def __init__(
        self, *prefetchers: spec.AnyPrefetcher, line: int = LINE, page: int = PAGE, core: spec.Core | None = None
    ) -> None:
        unlimited = {"mshr_entries": 0, "hashed_index": False}
        self.machine = quiet(
            prefetchers=prefetchers,
            core=core or spec.Core(),
            line_size_bytes=line,
            l1={"mshr_entries": 0},
            l2={"sets": 4096, "ways": 16, **unlimited},
            l3=None,
        )
        self.line, self.page_lines, self.next_page = line, PAGE // line, SPREAD
        self.region = self.machine.allocate(max(PAGES * PAGE, page), page)

    @property
    def there(self) -> set[int]:
        """Lines of the region in a cache, numbered from its first."""
        held = np.concatenate([cached_lines(self.machine, 1), cached_lines(self.machine, 2)])
        held -= self.region.address // self.line
        return set(held[(held >= 0) & (held < PAGES * self.page_lines)].tolist())

    def fresh_page(self) -> int:
        """First line of a page that nothing was accessed in or beside."""
        self.next_page += SPREAD
        assert self.next_page + SPREAD < PAGES
        return self.next_page * self.page_lines

    def access(self, line: int, ip: int) -> list[int]:
        """Load a line; returns the lines that came beside it."""
        before = self.there
        self.load([(line, ip)])
        return sorted(self.there - before - {line})

    def load(self, accesses: list[tuple[int, int]], cpu: int = 0) -> None:
        """Load lines one after the other."""
        self.machine.run(self._loads(accesses), {WHERE: [self.region.address]}, cpu=cpu)

    def load_in_pages(self, accesses: list[tuple[int, int]], pages: int) -> None:
        """The same accesses to lines of one fresh page after the other."""
        firsts = [self.fresh_page() for _ in range(pages)]
        addresses = self.region.address + np.array(firsts) * self.line
        self.machine.run(self._loads(accesses), {WHERE: addresses})

    def _loads(self, accesses: list[tuple[int, int]]) -> Probe:
        probe = Probe()
        for line, ip in accesses:
            probe = probe.load(WHERE + line * self.line, ip=f"at {ip:x}", ip_bits=ip).fence().wait(2000).fence()
        return probe

    def flush(self, lines: Iterable[int]) -> None:
        """Take lines out of all caches."""
        probe = Probe()
        for line in lines:
            probe = probe.flush(WHERE + line * self.line).fence()
        self.machine.run(probe, {WHERE: [self.region.address]})

    def scatter(self) -> None:
        """As many loads of scattered lines as a description is made after."""
        region = self.machine.allocate(SCATTER_BYTES, PAGE)
        lines = np.random.default_rng(1).integers(0, SCATTER_BYTES // self.line, SCATTERED)
        bases = [Base(f"b{k}") for k in range(100)]
        probe = Probe()
        for k, base in enumerate(bases):
            ip = SCATTER_IP + 4 * (k % SCATTER_INSTRUCTIONS)
            probe = probe.load(base, ip=f"at {ip:x}", ip_bits=ip).fence().wait(2000).fence()
        placed = (region.address + lines * self.line).reshape(-1, len(bases))
        self.machine.run(probe, {base: placed[:, k] for k, base in enumerate(bases)})
