"""Checks of the clock: how it is read, how fine it is, what a tick is worth, and whether the kernel trusts it."""

from __future__ import annotations

from collections.abc import Callable

from setebench.doctor.records import BracketReport, Check, ClockReport, bad, good, note, unknown
from setebench.host.environment import Environment

COARSE_STEP_TICKS = 2.0
"""From this step on one timing can't separate neighbouring latencies: the first two levels differ by about ten ticks,
but a step of one or two is lost in the jitter of any clock."""
WIDE_RATIO = 0.02
"""Above this relative width of cycles per tick the core clock moves more than an L1 hit can bear."""


def clock_checks(environment: Environment, clock: ClockReport | None, why: str) -> list[Check]:
    """The measured checks (unknown, because of `why`, without a report), then what the kernel says of its clock."""
    named: tuple[tuple[str, Callable[[ClockReport], Check], str], ...] = (
        ("cpuid", _cpuid, "A trapping cpuid makes the paper's cpuid/rdtsc bracket useless."),
        ("clock brackets", _brackets, "Overhead and jitter of the bracket are part of every timing."),
        ("clock step", _step, "A coarse clock needs many dithered samples for each timing."),
        ("cycles per tick", _cycles, "Ticks can't be converted to core cycles until this is known."),
    )
    measured = [make(clock) if clock else unknown(name, f"not known: {why}", meaning) for name, make, meaning in named]
    return [*measured, _invariant(environment), _clocksource(environment)]


def _cpuid(clock: ClockReport) -> Check:
    if not clock.cpuid_traps:
        return good(
            "cpuid", f"runs on the CPU, {clock.cpuid_ticks:.0f} ticks a call", "The paper's bracket can be used here."
        )
    return note(
        "cpuid",
        f"traps to the hypervisor, {clock.cpuid_ticks:,.0f} ticks a call",
        "Each call leaves the guest and disturbs the caches, so the paper's cpuid bracket would measure the trap.",
        "Nothing: another bracket is chosen. Avoid the bracket 'cpuid' and the fence 'serialize' in your own probes.",
    )


def _bracket_text(bracket: BracketReport) -> str:
    return f"{bracket.name} {bracket.overhead_ticks:,.1f} (spread {bracket.jitter_ticks:,.1f})"


def _brackets(clock: ClockReport) -> Check:
    chosen = [bracket for bracket in clock.brackets if bracket.name == clock.chosen]
    found = f"{clock.chosen} is best; ticks of an empty interval: " + ", ".join(map(_bracket_text, clock.brackets))
    if chosen and chosen[0].jitter_ticks > max(chosen[0].overhead_ticks, clock.step_ticks):
        return bad(
            "clock brackets",
            found,
            "Even an empty interval spreads by more than it lasts: something else runs on this CPU or takes it away.",
            "Stop other work, pick another CPU with --cpu, and try again.",
        )
    return good(
        "clock brackets",
        found,
        "The overhead is measured beside each timing and taken off; the spread is averaged away.",
    )


def _step(clock: ClockReport) -> Check:
    nanoseconds = 1e9 * clock.step_ticks / clock.ticks_per_second
    cycles = f", {clock.step_ticks * clock.cycles_per_tick:.0f} core cycles" if clock.cycles_per_tick else ""
    found = f"{clock.step_ticks:g} ticks ({nanoseconds:.2f} ns{cycles}) at {clock.ticks_per_second / 1e6:.1f} MHz"
    if clock.step_ticks < COARSE_STEP_TICKS:
        return good("clock step", found, "Single timings are as fine as the clock.")
    return note(
        "clock step",
        found,
        "One timing can't distinguish L1 from L2. A random wait before each start makes the mean of many right.",
        "Nothing: timings are dithered. Medians, minima and trimmed means of your own analyses would be wrong here.",
    )


def _cycles(clock: ClockReport) -> Check:
    name, value = "cycles per tick", clock.cycles_per_tick
    if value is None:
        return unknown(
            name,
            "the calibration did not settle",
            "Results are given in ticks and nanoseconds only.",
            "Stop other work and try again.",
        )
    low, high = clock.cycles_per_tick_low, clock.cycles_per_tick_high
    interval = "" if low is None or high is None else f" ({low:.4f} to {high:.4f})"
    found = f"{value:.4f}{interval}, the core at {value * clock.ticks_per_second / 1e6:,.0f} MHz"
    if low is not None and high is not None and high - low > WIDE_RATIO * value:
        return note(
            name,
            found,
            "The core clock moves while measuring, so cycles are less certain than ticks.",
            "Fix the frequency where you may: performance governor, boost off, no other load on the package.",
        )
    return good(name, found, "Calibrated beside each measurement; ticks and cycles are never mixed.")


def _invariant(environment: Environment) -> Check:
    name = "invariant clock"
    flags = environment.cpu.flags
    if not flags:
        return unknown(
            name, "the CPU flags can't be read", "A clock that follows the core frequency would not keep time."
        )
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    if not missing:
        return good(
            name, "constant_tsc and nonstop_tsc", "The time-stamp counter runs at one rate, whatever the core does."
        )
    found = f"without {' and '.join(missing)}"
    if environment.hypervisor.present:
        return note(
            name,
            found,
            "The hypervisor does not promise one rate for ever, so that it can move the guest to another machine.",
            "Nothing, unless ticks per second differ from run to run.",
        )
    if "constant_tsc" not in missing:
        return note(
            name,
            found,
            "The time-stamp counter may stop in deep idle states; a measuring CPU is never idle.",
            "Nothing, unless timings of several CPUs disagree.",
        )
    return bad(
        name,
        found,
        "The time-stamp counter may follow the core frequency: ticks of different times can't be compared.",
        "Fix the frequency (governor 'performance', boost off), or measure on another machine.",
    )


def _clocksource(environment: Environment) -> Check:
    name = "kernel clock"
    source = environment.kernel.clocksource
    if source is None:
        return unknown(
            name, "the clock source can't be read", "A kernel that drops the time-stamp counter has a reason."
        )
    if source in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"):
        return good(name, source, "The kernel keeps time by the time-stamp counter too.")
    return note(
        name,
        source,
        "The kernel does not trust the time-stamp counter; it may differ between CPUs or drift.",
        "Look for 'tsc' in the kernel log. Compare timings of different CPUs with care.",
    )
