"""A machine that runs nothing, whole as the protocol asks; fakes of the tests are made of it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from setebench.machine import Facts, Region


def facts_of(name: str, **changes: Any) -> Facts:
    """Of two CPUs, each a core of its own."""
    return Facts(
        **{"name": name, "kind": "plugin", "cpus": (0, 1), "siblings": ((0,), (1,)), "ticks_per_second": 2e9} | changes
    )


class BareMachine:
    """Every interval takes no tick. Remembers how it was opened, and whether it was closed."""

    facts = facts_of("bare")
    opened: ClassVar[list[BareMachine]] = []

    def __init__(self, cpu: int | None = None, seed: int = 1) -> None:
        self.arguments, self.closed = {"cpu": cpu, "seed": seed}, False
        self.opened.append(self)

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        return Region(1 << 20, size, page_size)

    def release(self, region: Region) -> None: ...

    def link(self, region: Region, addresses: Any) -> None: ...

    def run(self, probe: Any, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        return np.zeros((1, probe.intervals), dtype=np.int64)

    def run_together(self, probes: Any, placements: Any, *, warmup: int = 0) -> dict[int, Any]:
        return {cpu: self.run(probe, placements, warmup=warmup) for cpu, probe in probes.items()}

    def close(self) -> None:
        self.closed = True
