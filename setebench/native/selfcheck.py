"""What `setebench doctor` measures of this machine: its clock, and whether 2 MiB pages are what they claim."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import LINE, cycles_per_tick, overheads
from setebench.host.doctor.reports import BracketReport, ClockReport, PageReport
from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.native.memory import HUGE_PAGE, SMALL_PAGE, map_region
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

TRAPPING_CPUID_TICKS = 600
"""A cpuid that stays on the CPU takes 100 to 300 cycles; a round trip to a hypervisor takes over a thousand."""

SAMPLES, ROUNDS = 2000, 8
"""Empty intervals of each bracket, and rounds of the core's speed."""

FEW_PAGES, MANY_PAGES = 16, 400
"""Pages that any first TLB holds, and more than any holds; their lines (one a page) fit any first cache."""

REAL, SPLINTERED = 0.3, 0.6
"""Of the rise on small pages: that on a large one is less where it is one entry, more where it is many."""

VISIBLE_CYCLES = 0.7
"""A TLB miss that costs less per load than this is not seen well enough to compare page sizes by."""


def clock_report(cpu: int | None = None) -> ClockReport:
    """Measure the clock on `cpu` (by default the one that scenarios use)."""
    with closing(NativeMachine(cpu=cpu)) as machine:
        context = Context(machine=machine)
        empty = overheads(context, SAMPLES)
        per_tick = quantile_of_rounds([cycles_per_tick(context) for _ in range(ROUNDS)], MIDDLE)
        cpuid_ticks = float(np.median(machine.run(Probe().start().fence("serialize").stop(), 50, warmup=2)))
        return ClockReport(
            step_ticks=machine.step_ticks,
            ticks_per_second=machine.facts.ticks_per_second,
            brackets=tuple(
                BracketReport(name=name, overhead_ticks=ticks, jitter_ticks=_jitter(machine, name))
                for name, ticks in empty.items()
            ),
            chosen=machine.facts.brackets[0],
            cpuid_traps=cpuid_ticks > TRAPPING_CPUID_TICKS,
            cpuid_ticks=cpuid_ticks,
            cycles_per_tick=per_tick.value,
            cycles_per_tick_low=per_tick.low,
            cycles_per_tick_high=per_tick.high,
        )


def _jitter(machine: NativeMachine, bracket: str) -> float:
    return float(machine.run(Probe().start(bracket=bracket).stop(bracket=bracket), SAMPLES, warmup=ROUNDS).std())


def page_report(cpu: int | None = None) -> PageReport:
    """Measure whether lines of one 2 MiB page need one TLB entry or, as on 4 KiB pages, many."""
    with closing(NativeMachine(cpu=cpu)) as machine:
        try:
            huge = map_region(HUGE_PAGE, HUGE_PAGE, True)
        except UnsupportedError as error:
            return PageReport(granted=False, how="none", tlb_behaviour="unavailable", reason=str(error))
        small = map_region(HUGE_PAGE, SMALL_PAGE, True)
        rises = [[_rise(machine, region, seed) for region in (small, huge)] for seed in range(ROUNDS)]
        on_small, on_huge = np.median(rises, axis=0).tolist()
        figures = (
            f"{MANY_PAGES} lines 4 KiB apart cost {on_small:.1f} cycles more each than {FEW_PAGES} on 4 KiB pages, "
            f"{on_huge:.1f} more inside a 2 MiB page"
        )
        if on_small < VISIBLE_CYCLES:
            figures = f"TLB misses hardly show on this machine: {figures}"
        clear = on_small >= VISIBLE_CYCLES and not REAL <= on_huge / on_small <= SPLINTERED
        behaviour = "unresolved" if not clear else "splintered" if on_huge > SPLINTERED * on_small else "real"
        return PageReport(granted=True, how=huge.granted, tlb_behaviour=behaviour, reason=figures)


def _rise(machine: NativeMachine, region: Region, seed: int) -> float:
    """Cycles per load that many lines cost more than few: one in each of the first 4 KiB pages, in random order, spread
    evenly over the cache's sets."""
    cycles = []
    for pages in (FEW_PAGES, MANY_PAGES):
        number = np.random.default_rng(seed).permutation(pages)
        lines = region.address + number * SMALL_PAGE + number % (SMALL_PAGE // region.line_size) * region.line_size
        machine.link(region, lines)
        probe = Probe().start().chase(LINE, ROUNDS * pages).stop()
        ticks = machine.run(probe, {LINE: np.full(ROUNDS, lines[0])}, warmup=2)
        cycles.append(float(np.median(ticks)) * cycles_per_tick(Context(machine=machine)) / (ROUNDS * pages))
    return cycles[1] - cycles[0]
