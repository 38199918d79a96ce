"""The field for software prefetches that put a streamer to silence, alone: which lines it fetches after one."""

from __future__ import annotations

import msgspec
import pytest
from quiet_machines import LINE, PAGE_BASE, fetched, quiet

from setebench.probe import Probe
from setebench.sim import spec

STREAMER = spec.Streamer(level=2, trained_by=("load", "store"), trigger=3, degree=4, max_distance=16, streams=16)
SILENCED = msgspec.structs.replace(STREAMER, silenced_by_software=True)


def _touched(prefetched: int | None) -> Probe:
    """Loads of lines 10, 11 and 12, which start a stream (13 to 16), perhaps a software prefetch, and a load of 13."""
    probe = Probe()
    for line in (10, 11, 12, None, 13):
        if line is not None:
            probe = probe.load(PAGE_BASE + line * LINE)
        elif prefetched is not None:
            probe = probe.prefetch(PAGE_BASE + prefetched * LINE, "t1")
        probe = probe.fence().wait(2000).fence()
    return probe


def _lines(streamer: spec.Streamer, prefetched: int | None) -> set[int]:
    machine = quiet(prefetchers=(streamer,), l3=None)
    own = {10, 11, 12, 13} | ({prefetched} if prefetched is not None else set())
    return fetched(machine, _touched(prefetched), [line for line in range(64) if line not in own])


@pytest.mark.parametrize("line", [14, 16, 24])
def test_a_prefetch_of_lines_that_the_stream_wants_ends_it(line: int) -> None:
    assert _lines(SILENCED, line) | {line} == {14, 15, 16, line}


@pytest.mark.parametrize("line", [2, 50])
def test_a_prefetch_of_other_lines_does_not(line: int) -> None:
    assert _lines(SILENCED, line) == set(range(14, 21))
