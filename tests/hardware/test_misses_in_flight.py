"""Misses in flight on this CPU: time that grows with them, and a limit that prefetchers at work leave alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from setebench.experiments.bursts.bursts import TARGETS, Bursts, Spread, Times
from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.jump import Curve, calm_level
from setebench.stats.threshold import Found, SearchParams, search

STREAM, STREAM_LINES, LINE_BYTES = Base("stream"), 64, 64


class Provoked(Bursts):
    """Bursts right after a stream of loads, elsewhere each time, that streamers and stride prefetchers follow."""

    def flushed(self, place: Spread, *others: Operand, base: Base = TARGETS) -> Probe:
        stream = Probe()
        for line in range(STREAM_LINES):
            stream = stream.load(STREAM + line * LINE_BYTES)
        return stream + super().flushed(place, *others, base=base)

    def _run(self, probe: Probe, place: Spread, others: Mapping[Base, int | list[int]] | None = None) -> Times:
        starts = [self.base(2) + self._evictors_from for _ in range(self.params.runs)]
        return super()._run(probe, place, {STREAM: starts, **(others or {})})


def limit_of_loads(bursts: Bursts) -> Found:
    unit = calm_level(np.stack([bursts.loads(1) for _ in range(12)]))
    return search(bursts.loads, Curve(1, 256, unit, np.random.default_rng(2)), SearchParams(most=150))


def test_prefetchers_at_work_do_not_change_the_limit_of_loads(native: NativeMachine, region: Region) -> None:
    calm, busy = (
        limit_of_loads(kind(Context(machine=native), region, np.random.default_rng(1))) for kind in (Bursts, Provoked)
    )
    if not (calm.decided and busy.decided) or max(calm.posterior.none, busy.posterior.none) > 0.5:
        pytest.skip("this machine is too noisy: the limit of loads is not sure, so there is nothing to compare")
    # where a core is shared with a neighbour, that holds a few entries now and then
    assert abs(calm.posterior.value - busy.posterior.value) <= max(2, calm.posterior.value // 8)


def test_more_misses_take_longer(native: NativeMachine, region: Region) -> None:
    bursts = Bursts(Context(machine=native), region, np.random.default_rng(1))
    times = {count: [bursts.loads(count) for _ in range(12)] for count in (1, 64, 256)}
    one, many, most = (calm_level(np.stack(own)) for own in times.values())
    assert one < many < most
    assert many < 0.7 * 64 * one  # and overlap
