"""Checks of the clock: how it is read, how fine it is, what a tick is worth, and whether the kernel trusts it."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.doctor.records import BAD, GOOD, NOTE, BracketReport, Check, ClockReport, row
from setebench.host.environment import Environment

COARSE_STEP_TICKS = 2.0  # from here on one timing can't separate L1 from L2; a step of one or two is lost in jitter
WIDE_RATIO = 0.02  # above this relative width of cycles per tick the core clock moves more than an L1 hit can bear
UNMEASURED = {
    "cpuid": "A trapping cpuid makes the paper's cpuid/rdtsc bracket useless.",
    "clock brackets": "Overhead and jitter of the bracket are part of every timing.",
    "clock step": "A coarse clock needs many dithered samples for each timing.",
    "cycles per tick": "Ticks can't be converted to core cycles until this is known.",
}


def clock_checks(environment: Environment, clock: ClockReport | None, why: str) -> Iterator[Check]:
    """The measured checks (unknown, because of `why`, without a report), then what the kernel says of its clock."""
    if clock is None:
        yield from (row(name, None, (f"not known: {why}", meaning)) for name, meaning in UNMEASURED.items())
    else:
        yield from _measured(clock)
    yield _invariant(environment)
    source = environment.kernel.clocksource
    yield row(
        "kernel clock",
        source,
        ("the clock source can't be read", "A kernel that drops the time-stamp counter has a reason."),
        (
            source in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"),
            GOOD,
            "The kernel keeps time by the time-stamp counter too.",
        ),
        (
            True,
            NOTE,
            "The kernel does not trust the time-stamp counter; it may differ between CPUs or drift.",
            "Look for 'tsc' in the kernel log. Compare timings of different CPUs with care.",
        ),
    )


def _measured(clock: ClockReport) -> Iterator[Check]:
    ticks = clock.cpuid_ticks
    yield row(
        "cpuid",
        f"traps to the hypervisor, {ticks:,.0f} ticks a call"
        if clock.cpuid_traps
        else f"runs on the CPU, {ticks:.0f} ticks a call",
        (),
        (not clock.cpuid_traps, GOOD, "The paper's bracket can be used here."),
        (
            True,
            NOTE,
            "Each call leaves the guest and disturbs the caches, so the paper's cpuid bracket would measure the trap.",
            "Nothing: another bracket is chosen. Avoid the bracket 'cpuid' and the fence 'serialize' in your own "
            "probes.",
        ),
    )
    chosen = [each for each in clock.brackets if each.name == clock.chosen]
    yield row(
        "clock brackets",
        f"{clock.chosen} is best; ticks of an empty interval: " + ", ".join(map(_bracket_text, clock.brackets)),
        (),
        (
            chosen and chosen[0].jitter_ticks > max(chosen[0].overhead_ticks, clock.step_ticks),
            BAD,
            "Even an empty interval spreads by more than it lasts: something else runs on this CPU or takes it away.",
            "Stop other work, pick another CPU with --cpu, and try again.",
        ),
        (True, GOOD, "The overhead is measured beside each timing and taken off; the spread is averaged away."),
    )
    step, rate, value = clock.step_ticks, clock.ticks_per_second, clock.cycles_per_tick
    cycles = f", {step * value:.0f} core cycles" if value else ""
    yield row(
        "clock step",
        f"{step:g} ticks ({1e9 * step / rate:.2f} ns{cycles}) at {rate / 1e6:.1f} MHz",
        (),
        (step < COARSE_STEP_TICKS, GOOD, "Single timings are as fine as the clock."),
        (
            True,
            NOTE,
            "One timing can't distinguish L1 from L2. A random wait before each start makes the mean of many right.",
            "Nothing: timings are dithered. Medians, minima and trimmed means of your own analyses would be wrong "
            "here.",
        ),
    )
    low, high = clock.cycles_per_tick_low, clock.cycles_per_tick_high
    known = low is not None and high is not None
    yield row(
        "cycles per tick",
        None
        if value is None
        else f"{value:.4f}{f' ({low:.4f} to {high:.4f})' if known else ''}, the core at {value * rate / 1e6:,.0f} MHz",
        (
            "the calibration did not settle",
            "Results are given in ticks and nanoseconds only.",
            "Stop other work and try again.",
        ),
        (
            value is not None and low is not None and high is not None and high - low > WIDE_RATIO * value,
            NOTE,
            "The core clock moves while measuring, so cycles are less certain than ticks.",
            "Fix the frequency where you may: performance governor, boost off, no other load on the package.",
        ),
        (True, GOOD, "Calibrated beside each measurement; ticks and cycles are never mixed."),
    )


def _bracket_text(bracket: BracketReport) -> str:
    return f"{bracket.name} {bracket.overhead_ticks:,.1f} (spread {bracket.jitter_ticks:,.1f})"


def _invariant(environment: Environment) -> Check:
    flags = environment.cpu.flags
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    found = f"without {' and '.join(missing)}" if missing else "constant_tsc and nonstop_tsc"
    return row(
        "invariant clock",
        found if flags else None,
        ("the CPU flags can't be read", "A clock that follows the core frequency would not keep time."),
        (not missing, GOOD, "The time-stamp counter runs at one rate, whatever the core does."),
        (
            environment.hypervisor.present,
            NOTE,
            "The hypervisor does not promise one rate for ever, so that it can move the guest to another machine.",
            "Nothing, unless ticks per second differ from run to run.",
        ),
        (
            "constant_tsc" not in missing,
            NOTE,
            "The time-stamp counter may stop in deep idle states; a measuring CPU is never idle.",
            "Nothing, unless timings of several CPUs disagree.",
        ),
        (
            True,
            BAD,
            "The time-stamp counter may follow the core frequency: ticks of different times can't be compared.",
            "Fix the frequency (governor 'performance', boost off), or measure on another machine.",
        ),
    )
