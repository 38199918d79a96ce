"""What to try, in words that name the figures they rest on.

Each piece of advice follows from a rule with its source; none is given on a figure that was not made. The limits are in
`Params`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from setebench.diagnose.places import Spot
from setebench.results import Finding


@dataclass(frozen=True)
class Params:
    """From where on advice is given. Percentages are of cycles unless another whole is named."""

    worth_percent: float = 15.0
    """A part of the cycles that is worth work: removing 15 % of them makes a program at most 1.18 times as fast."""
    bound_percent: float = 50.0
    """Below so many productive cycles a lower clock costs little (Molka et al. 2017, section 5: regions with less than
    50 %, mostly bandwidth bound; 4.6 % less power for 0.2 % more time)."""
    busy_percent: float = 80.0
    """Of its peak: a path that is this busy makes requests wait for each other. In an open queue with random arrivals
    waiting exceeds service from 50 to 80 % on, by how regular service is (Kleinrock 1975, volume 1, section 5)."""
    chained_misses: float = 1.5
    """Fewer misses in flight than this on average, while any is: loads wait for each other."""
    uneven: float = 1.1
    """Most loaded thread over the mean: the others wait for 9 % of the time."""
    shared_lines_per_second: float = 1e5
    """Lines taken from other cores: at some 100 ns each, 1 % of a thread's time."""
    fault_percent: float = 5.0
    """Of the CPU time, for faults of `fault_ns` each."""
    fault_ns: float = 250.0
    """What a first touch of a page costs at least: an exception, and 4 KiB to be cleared (`page_fault.minor.4k` of
    `setebench hierarchy`). A lower bound, so that no advice is given where faults don't matter."""
    switches_per_second: float = 1000.0
    """Per busy CPU: a switch costs 1 to 10 us with the cold caches behind it (Li, Ding and Shen 2007), 1 % at most."""
    migrations_per_second: float = 20.0
    """A migration empties the near caches for the thread: some 100 us to refill a megabyte, 0.2 %."""
    least_seconds: float = 0.2
    """Of CPU time, or of elapsed time: what happens as a program starts and ends is most of a shorter run."""
    idle_percent: float = 50.0
    """A program on a CPU for less of the time than this waits for something else than memory."""
    slower_memory: float = 1.5
    """Latency over that without the program: the knee of the curve of latency over load, as `loaded_latency` has it."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try, and the findings (or other figures) that it rests on."""

    text: str
    rests_on: tuple[str, ...]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What advice is given on: findings by name without `diagnose.`, and other figures by name; by part of the cycles
    the function that spends most of it; the one that suffers most from saturation."""

    values: dict[str, float]
    spots: dict[str, Spot] = msgspec.field(default_factory=dict)
    suffering: Spot | None = None
    elapsed: float = 0.0

    def get(self, name: str) -> float | None:
        """A figure; None where it was not made."""
        return self.values.get(name)

    def at_least(self, name: str, limit: float) -> bool:
        """Whether a figure was made and reaches a limit."""
        value = self.values.get(name)
        return value is not None and value >= limit


def values_of(findings: list[Finding]) -> dict[str, float]:
    """Findings that are numbers or truths, by name without `diagnose.`."""
    return {
        finding.parameter.removeprefix("diagnose."): float(finding.value)
        for finding in findings
        if isinstance(finding.value, (int, float))
    }


def advise(case: Case, params: Params | None = None) -> list[Advice]:
    """Everything that may be said, what weighs most first."""
    limits = params or Params()
    return [Advice(text=text, rests_on=on) for rule in _RULES for text, on in rule(case, limits)]


Said = Iterator[tuple[str, tuple[str, ...]]]
"""What a rule says: the text, and what it rests on."""

_INNER = {"memory": "the last cache", "l3": "L2", "l2": "L1"}
"""Into which cache a block has to fit so that a level is used less."""


def _bandwidth(case: Case, limits: Params) -> Said:
    if not case.at_least("memory_bandwidth", limits.worth_percent):
        return
    percent, level = max((case.get(f"utilization.{level}") or 0.0, level) for level in _INNER)
    where = _where(case.suffering or case.spots.get("memory_bandwidth"))
    part = case.values["memory_bandwidth"]
    head = f"{part:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{where}: "
    if percent >= limits.busy_percent:
        text = (
            f"{level} is {percent:.0f} % busy. Block the loops so that data is used again while it lies in "
            f"{_INNER[level]}"
        )
        yield head + text, ("diagnose.memory_bandwidth", f"diagnose.utilization.{level}")
    else:
        text = "use each line fully (data that is used together side by side), and block the loops for a nearer cache"
        yield head + text, ("diagnose.memory_bandwidth",)
    if case.at_least("saturated", 1.0) or (percent >= limits.busy_percent and level == "memory"):
        text = "memory is saturated: fewer threads do as much; let the others work on what needs no memory"
        yield text, ("diagnose.saturated", "diagnose.load_miss_latency")


def _latency(case: Case, limits: Params) -> Said:
    if not case.at_least("memory_latency", limits.worth_percent):
        return
    where = _where(case.spots.get("memory_latency"))
    head = f"{case.values['memory_latency']:.0f} % of the cycles wait for single loads{where}: "
    latency, lines = case.get("miss_cycles"), case.get("lines_per_cycle")
    if case.get("miss_parallelism") is not None and not case.at_least("miss_parallelism", limits.chained_misses):
        text = (
            f"misses in flight are {case.values['miss_parallelism']:.2g} at a time, so each load's address comes from "
            "the one before: follow several chains at once, or keep what is visited in a row side by side"
        )
        yield head + text, ("diagnose.memory_latency", "miss_parallelism")
    elif latency is None or lines is None:
        text = "prefetch what is needed later; how far ahead is memory latency over the time between two lines"
        yield head + text, ("diagnose.memory_latency",)
    else:
        distance = max(1.0, latency * lines)
        text = (
            f"a miss takes {latency:.0f} cycles, in which a thread goes on by {distance:.2g} lines: prefetch at least "
            f"{distance:.0f} to {2 * distance:.0f} lines ahead"
        )
        yield head + text, ("diagnose.memory_latency", "diagnose.load_miss_latency", "diagnose.memory_read")


def _lower_clock(case: Case, limits: Params) -> Said:
    productive, bandwidth = case.get("productive"), case.get("memory_bandwidth")
    if productive is None or bandwidth is None or productive >= limits.bound_percent:
        return
    if bandwidth >= max(case.get("memory_latency") or 0.0, limits.worth_percent):
        yield (
            f"only {productive:.0f} % of the cycles are productive and most others wait for bandwidth: a lower core "
            "clock there saves energy for little time; try it with --lower-clock where clock and energy can be set and "
            "read",
            ("diagnose.productive", "diagnose.memory_bandwidth"),
        )


def _uneven(case: Case, limits: Params) -> Said:
    """By useful work, or where that could not be counted, by the time on a CPU."""
    if case.at_least("imbalance", limits.uneven):
        ratio = case.values["imbalance"]
        yield (
            f"the most loaded thread does {ratio:.3g} times the mean of useful work, so an even division would take "
            f"{100 / ratio:.0f} % of the time where threads wait for each other: divide by work, not by count, or let "
            "threads take small pieces as they come",
            ("diagnose.imbalance",),
        )
    elif case.get("imbalance") is None and case.at_least("thread_time_imbalance", limits.uneven):
        yield (
            f"the busiest thread is on a CPU {case.values['thread_time_imbalance']:.3g} times as long as the mean: "
            "where threads sleep while they wait for each other, their work is divided as unevenly",
            ("CPU time of threads, by samples",),
        )


def _shared(case: Case, limits: Params) -> Said:
    if case.at_least("false_sharing", limits.shared_lines_per_second):
        yield (
            f"threads take {case.values['false_sharing']:.2g} lines a second from each other: where they don't hand "
            "over data on purpose, give each thread's data lines of its own (the figure is qualitative: its events err "
            "by tens of percent even where they work)",
            ("diagnose.false_sharing",),
        )


def _system(case: Case, limits: Params) -> Said:
    """What the kernel does meanwhile; a shorter run is mostly its start and its end."""
    seconds = case.get("cpu_time")
    if seconds is None or seconds < limits.least_seconds:
        return
    faults, switches, migrations = (case.get(name) or 0.0 for name in _SYSTEM)
    percent = 100 * faults * limits.fault_ns / 1e9 / seconds
    if percent >= limits.fault_percent:
        yield (
            f"{faults:.0f} page faults in {seconds:.3g} s of CPU time take at least {percent:.0f} % of it: use memory "
            "again instead of giving it back, touch it in larger pages (madvise), or ask for it once",
            ("diagnose.page_faults", "diagnose.cpu_time"),
        )
    if switches / seconds >= limits.switches_per_second:
        yield (
            f"{switches / seconds:.0f} context switches per second of CPU time: wait less often (larger pieces), or "
            "spin briefly first",
            ("diagnose.context_switches", "diagnose.cpu_time"),
        )
    if migrations / seconds >= limits.migrations_per_second:
        yield (
            f"{migrations / seconds:.0f} migrations per second of CPU time: bind threads to CPUs, so that their caches "
            "stay warm",
            ("diagnose.cpu_migrations", "diagnose.cpu_time"),
        )


_SYSTEM = ("page_faults", "context_switches", "cpu_migrations")


def _waiting(case: Case, limits: Params) -> Said:
    seconds = case.get("cpu_time")
    if seconds is None or case.elapsed < limits.least_seconds or 100 * seconds / case.elapsed >= limits.idle_percent:
        return
    yield (
        f"the program was on a CPU for {100 * seconds / case.elapsed:.0f} % of the time only: it sleeps, waits for "
        "others, or has to share its CPUs; no change to how it uses memory shortens that",
        ("diagnose.cpu_time",),
    )


def _slower(case: Case, limits: Params) -> Said:
    latency, idle = case.get("probe_latency"), case.get("idle_latency")
    if latency is not None and idle and latency >= limits.slower_memory * idle:
        yield (
            f"beside the program memory takes {latency / idle:.2g} times as long as without it ({latency:.0f} against "
            f"{idle:.0f} ns): its bandwidth is nearly used up; use lines fully, block for a nearer cache, or run fewer "
            "threads",
            ("diagnose.probe_latency",),
        )


_RULES = (_bandwidth, _latency, _lower_clock, _uneven, _shared, _system, _waiting, _slower)


def _where(spot: Spot | None) -> str:
    """ ", most of them in f (file.c:12)"; empty without samples."""
    if spot is None:
        return ""
    return f", most of them in {spot.function}" + (f" ({spot.line})" if spot.line else "")
