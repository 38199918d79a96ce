"""Bursts of misses: where their lines lie, which decides what may limit them, and the limit that they show."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import HUGE, LINE, quiet

from setebench.experiments.bursts.bursts import TARGETS, Burst, Bursts
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Machine, open_machine
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.jump import Search

STREAM_LINES = 64


def test_any_part_of_a_burst_has_as_many_odd_as_even_lines_each_in_a_page_of_its_own() -> None:
    """A core that keeps the miss entries of odd and of even lines apart showed half of them to bursts on even lines:
    8 of 16, in the time of each kind of request."""
    machine = quiet()
    bursts = Bursts(Context(machine=machine), machine.allocate(HUGE, HUGE), np.random.default_rng(3))
    for count in (1, 2, 15, 16, 100):
        targets = np.array(bursts.targets(count))
        assert np.abs(np.cumsum(1 - 2 * (targets // LINE % 2))).max() <= 1
        assert len(set(targets // TLB_PAGE_BYTES)) == count


class Provoked(Bursts):
    """Bursts right after a stream of loads, elsewhere each time, that streamers and stride prefetchers follow."""

    def flushed(
        self,
        targets: tuple[int, ...],
        burst: Burst,
        before: Probe | None = None,
        last: Operand | None = None,
        base: Base = TARGETS,
    ) -> Probe:
        stream = before or Probe()
        for line in range(STREAM_LINES):
            stream = stream.load(base + (self.rng.integers(1000, 2000).item() * TLB_PAGE_BYTES + line * LINE))
        return super().flushed(targets, burst, stream, last, base)


def limit_of_loads(machine: Machine, kind: type[Bursts]) -> int | None:
    context = Context(machine=machine)
    bursts = kind(context, machine.allocate(32 * HUGE, HUGE), np.random.default_rng(1))
    one, many = (bursts.until_set_out(Burst(count=count))[:, 0].min() for count in (0, 1))
    unit = many - one
    search = Search(
        lambda number: float(np.quantile(bursts.until_set_out(Burst(count=number))[:, 0], 0.2)) / unit,
        (1, 256),
        np.random.default_rng(2),
    )
    assert search.found.certain
    return search.found.last


@pytest.mark.parametrize("kind", [Bursts, Provoked])
@pytest.mark.parametrize("name, entries", [("sandybridge", 10), ("plain", 10), ("zen-like", 64)])
def test_prefetchers_at_work_do_not_change_the_limit_of_loads(kind: type[Bursts], name: str, entries: int) -> None:
    assert limit_of_loads(open_machine(f"sim:{name}"), kind) == entries
