"""Lines that a cache holds no longer, by single loads on a clock of long steps; simulated machines of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, L3, PAGE, quiet

from setebench.calibration import Calibration
from setebench.measure.absent import Absent
from setebench.measure.thinning import Latencies
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.sim import spec

STEP_CYCLES, LINES = 60.0, 400
LINE = Base("line")


@pytest.mark.parametrize("more", np.arange(0.8, 2.6, 0.12).round(2).tolist())
@pytest.mark.parametrize("overhead", [20, 50])
def test_levels_are_told_apart_wherever_that_is_said(more: float, overhead: int) -> None:
    """`more`: clock steps that a line from memory takes longer than one from the third cache."""
    memory = L3 + more * STEP_CYCLES
    clock = spec.Clock(
        step_ticks=STEP_CYCLES, jitter_cycles=2.0, brackets=dict.fromkeys(("lfence", "mfence", "cpuid"), overhead)
    )
    small, large = {"sets": 64, "ways": 1}, {"sets": 16384, "ways": 8, "hashed_index": True}
    machine = quiet(clock=clock, memory=spec.Memory(latency_cycles=memory), l1=small, l2=small, l3=large)
    context, region = Context(machine=machine), machine.allocate(8 << 20, PAGE)
    context.calibration = Calibration(step_ticks=STEP_CYCLES)
    absent = Absent(context, region, Latencies(L1, L3, memory))
    lines = region.address + PAGE * np.arange(LINES, dtype=np.int64)
    missing = context.rng(5).permutation(LINES) < LINES // 2
    machine.run(Probe().flush(LINE), {LINE: lines})
    machine.run(Probe().load(LINE), {LINE: lines[~missing]})
    wrong = np.mean(absent.gone(absent.cycles(lines)) != missing)
    assert absent.clear == (absent.clear and bool(wrong < 0.01))
    assert absent.clear or more < 2.3
