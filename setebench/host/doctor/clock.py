"""Checks of the clock."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.host.doctor.reports import BAD, GOOD, NOTE, UNKNOWN, Check, ClockReport, Status, row
from setebench.host.environment import Environment
from setebench.text import GIGA, MEGA

COARSE_STEP_TICKS = 2.0  # from here on one timing can't separate L1 from L2; a step of one or two is lost in jitter
WIDE_RATIO = 0.02  # above this relative width of cycles per tick the core clock moves more than an L1 hit can bear
STEADY = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page")

MEANINGS = {
    "cpuid": "A cpuid that traps leaves the guest and disturbs caches: the paper's cpuid bracket would measure that.",
    "clock brackets": "Overhead and jitter of an empty interval are measured beside each timing and averaged away.",
    "clock step": "Single timings are no finer than the clock; a random wait before each start makes the mean of many "
    "right.",
    "cycles per tick": "Ticks are converted to core cycles by what is calibrated beside each measurement.",
}
"""Of the checks that are measured."""


def clock_checks(environment: Environment, clock: ClockReport | str) -> Iterator[Check]:
    """Those that are measured, and what the system says of the clock."""
    unknown = [(f"not known: {clock}", UNKNOWN, "")] * len(MEANINGS)
    rows = _measured(clock) if isinstance(clock, ClockReport) else unknown
    for (name, meaning), (found, status, advice) in zip(MEANINGS.items(), rows, strict=True):
        yield row(name, found, status, meaning, advice)
    flags = environment.cpu.flags
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    status = NOTE if environment.hypervisor.present or "constant_tsc" not in missing else BAD
    yield row(
        "invariant clock",
        (f"without {' and '.join(missing)}" if missing else "constant_tsc and nonstop_tsc") if flags else None,
        status if missing else GOOD,
        "A clock that follows the core frequency, or stops in idle states, doesn't keep time between runs.",
        "In a guest nothing, unless ticks per second differ from run to run; else fix the frequency (boost off).",
    )
    source = environment.kernel.clocksource
    yield row(
        "kernel clock",
        source,
        source in STEADY,
        "A kernel that drops the time-stamp counter has a reason: it differs between CPUs, or drifts.",
        "Look for 'tsc' in the kernel log. Compare timings of different CPUs with care.",
    )


def _measured(clock: ClockReport) -> Iterator[tuple[str, Status | bool, str]]:
    """What was found, what that is, and what to do, for each of `MEANINGS`."""
    where = "traps to the hypervisor" if clock.cpuid_traps else "runs on the CPU"
    avoid = "Nothing: another bracket is chosen. Avoid the bracket 'cpuid' and the fence 'serialize' in probes."
    yield f"{where}, {clock.cpuid_ticks:,.0f} ticks a call", not clock.cpuid_traps, avoid
    texts = [f"{each.name} {each.overhead_ticks:,.1f} (spread {each.jitter_ticks:,.1f})" for each in clock.brackets]
    chosen = [each for each in clock.brackets if each.name == clock.chosen]
    wide = any(each.jitter_ticks > max(each.overhead_ticks, clock.step_ticks) for each in chosen)
    busy = "Something else runs on this CPU or takes it away: stop other work, or pick another one with --cpu."
    found = f"{clock.chosen} is best; ticks of an empty interval: {', '.join(texts)}"
    yield found, BAD if wide else GOOD, busy
    step, rate, value = clock.step_ticks, clock.ticks_per_second, clock.cycles_per_tick
    cycles = f", {step * value:.0f} core cycles" if value else ""
    found = f"{step:g} ticks ({GIGA * step / rate:.2f} ns{cycles}) at {rate / MEGA:.1f} MHz"
    dithered = "Nothing: timings are dithered. Medians and minima of your own analyses would be wrong here."
    yield found, step < COARSE_STEP_TICKS, dithered
    low, high = clock.cycles_per_tick_low, clock.cycles_per_tick_high
    if value is None or low is None or high is None:
        yield "the calibration did not settle; stop other work and try again", UNKNOWN, ""
    else:
        moves = "The core clock moves while measuring: performance governor, boost off, no other load on the package."
        found = f"{value:.4f} ({low:.4f} to {high:.4f}), the core at {value * rate / MEGA:,.0f} MHz"
        yield found, high - low <= WIDE_RATIO * value, moves
