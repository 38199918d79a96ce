"""What must be slower than what on every CPU, and ways of measuring that must agree. No absolute times.

How many misses are in flight at most is no test of this CPU: on some cores the limit itself moves by a few entries from
one minute to the next. `tests/sim/test_mshr.py` holds the search against limits that are known.
"""

from __future__ import annotations

import numpy as np
import pytest
from native_fixture import LINE, means

from setebench.calibration import measured_line
from setebench.machine import Region, run_interleaved
from setebench.native.machine import NativeMachine
from setebench.probe import CHASE_WORK, Base, Probe

OTHER = Base("other")
SAMPLES = 3000


def test_a_chain_of_dependent_misses_takes_longer_than_as_many_at_once(native: NativeMachine, region: Region) -> None:
    """Chases of flushed lines wait for each other; free loads overlap on any core that holds more than one miss."""
    bases = [Base(f"b{n}") for n in range(4)]
    flushed = Probe()
    for base in bases:
        flushed = flushed.flush(base)
    flushed = flushed.fence().wait(1000).fence().start()
    chained, free = flushed.load(bases[0]), flushed.load(bases[0])
    for base in bases[1:]:
        chained, free = chained.load(base, after=-1), free.load(base)
    # pages apart, so that no prefetcher finds a pattern
    pages = region.address + 4096 * np.random.default_rng(2).integers(0, region.pages // 4, SAMPLES // 4)
    placed = {base: pages + n * region.size // 4 + 64 * (7 * n + 3) for n, base in enumerate(bases)}
    ticks = means(native, {"chained": chained.stop(), "free": free.stop()}, placed)
    assert ticks["free"] < 0.8 * ticks["chained"]


def test_chained_work_makes_a_chase_slower_and_free_work_does_not(native: NativeMachine, region: Region) -> None:
    """24 multiplications of three or more cycles each against those that run while a step misses."""
    bases = [Base(f"b{n}") for n in range(2)]
    pages = region.address + 4096 * np.random.default_rng(6).permutation(region.pages)[: 2 * SAMPLES // 4]
    order = pages + 64 * (pages // 4096 % 61)
    native.link(region, order)
    flushed = Probe()
    for base in bases:
        flushed = flushed.flush(base)
    flushed = flushed.fence().wait(2000).fence().start()
    probes = {work: flushed.chase(bases[0], 2, work=work).stop() for work in ("", "free", "chained")}
    probes |= {"multiply": Probe().start().multiply(2 * CHASE_WORK).stop(), "none": Probe().start().add(1).stop()}
    ticks = means(native, probes, {base: order[n::2] for n, base in enumerate(bases)})
    work = ticks["multiply"] - ticks["none"]
    assert ticks["chained"] - ticks[""] == pytest.approx(work, rel=0.5)
    assert ticks["free"] - ticks[""] < 0.4 * work


def test_brackets_agree_about_a_long_interval(native: NativeMachine) -> None:
    """Whatever a bracket costs itself, the difference of two lengths is the same by each of those that read the TSC."""
    brackets = [name for name in native.facts.brackets if name != "rdpru"]
    probes = [Probe().start(bracket=b).add(n).stop(bracket=b) for b in brackets for n in (1000, 6000)]
    ticks = run_interleaved(native, probes, 400, np.random.default_rng(5), block=20)
    medians = [float(np.median(each)) for each in ticks]
    differences = [far - near for near, far in zip(medians[::2], medians[1::2], strict=True)]
    assert differences == pytest.approx([float(np.median(differences))] * len(brackets), rel=0.1)


def test_shared_instruction_addresses_load_what_their_own_would(native: NativeMachine, region: Region) -> None:
    """Through a call and with a computed address, a load still brings the line it is given."""
    cold = Probe().flush(LINE).fence().wait(1000)
    probes = {
        "untouched": cold.fence().start().load(LINE).stop(),
        "shared": cold.load(OTHER, ip="x").load(LINE, ip="x").fence().start().load(LINE).stop(),
        "placed": cold.load(LINE, ip="y", ip_bits=0x12340).fence().start().load(LINE).stop(),
        "fetched": cold.load(LINE).fence().start().load(LINE).stop(),
    }
    lines = region.address + 64 * (2 * np.random.default_rng(6).integers(0, region.lines // 4, SAMPLES))
    ticks = means(native, probes, {LINE: lines, OTHER: lines + region.size // 2})
    for name in ("shared", "placed", "fetched"):
        assert ticks[name] < 0.7 * ticks["untouched"]


# -- the hierarchy on this CPU ---------------------------------------------------------------------------------------


def test_a_flush_takes_the_line_that_the_system_knows(native: NativeMachine) -> None:
    """In one of three tries: where a neighbour hides hits, 64 bytes are taken, which would be no measurement."""
    found = [measured_line(native, None, np.random.default_rng(seed)) for seed in range(3)]
    assert set(found) <= {0, native.facts.line_size} and any(found)
