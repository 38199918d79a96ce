"""Bursts of misses: where their lines lie, which decides what may limit them, and the limit that they show."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from quiet_machines import HUGE, LINE, quiet

from setebench.experiments.bursts.bursts import TARGETS, Bursts, Spread, Times
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Machine, open_machine
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.jump import Curve, SearchParams, calm_level, search

STREAM, STREAM_LINES = Base("stream"), 64


def test_any_part_of_a_burst_has_as_many_odd_as_even_lines_each_in_a_page_of_its_own() -> None:
    """A core that keeps the miss entries of odd and of even lines apart showed half of them to bursts on even lines:
    8 of 16, in the time of each kind of request."""
    machine = quiet()
    bursts = Bursts(Context(machine=machine), machine.allocate(HUGE, HUGE), np.random.default_rng(3))
    for count in (1, 2, 15, 16, 100):
        place = bursts.spread(count)
        targets = np.array(place.targets)
        assert np.abs(np.cumsum(1 - 2 * (targets // LINE % 2))).max() <= 1
        assert len(set(targets // TLB_PAGE_BYTES)) == count
        assert set(np.abs(np.array(place.beside) - targets)) == {LINE}


class Provoked(Bursts):
    """Bursts right after a stream of loads, elsewhere each time, that streamers and stride prefetchers follow."""

    def flushed(self, place: Spread, *others: Operand, base: Base = TARGETS) -> Probe:
        stream = Probe()
        for line in range(STREAM_LINES):
            stream = stream.load(STREAM + line * LINE)
        return stream + super().flushed(place, *others, base=base)

    def _run(self, probe: Probe, place: Spread, others: Mapping[Base, int | list[int]] | None = None) -> Times:
        starts = [self.base(2) + self._evictors_from for _ in range(self.params.runs)]
        return super()._run(probe, place, {STREAM: starts, **(others or {})})


def limit_of_loads(machine: Machine, kind: type[Bursts]) -> int:
    bursts = kind(Context(machine=machine), machine.allocate(32 * HUGE, HUGE), np.random.default_rng(1))
    unit = calm_level(np.stack([bursts.loads(1) for _ in range(12)]))
    found = search(bursts.loads, Curve(1, 256, unit, np.random.default_rng(2)), SearchParams(most=150))
    assert found.decided
    return found.posterior.value


@pytest.mark.parametrize("kind", [Bursts, Provoked])
@pytest.mark.parametrize("name, entries", [("sandybridge", 10), ("plain", 10), ("zen-like", 64)])
def test_prefetchers_at_work_do_not_change_the_limit_of_loads(kind: type[Bursts], name: str, entries: int) -> None:
    assert limit_of_loads(open_machine(f"sim:{name}"), kind) == entries
