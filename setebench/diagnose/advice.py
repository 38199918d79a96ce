"""What to try, in words that name the figures they rest on.

Each piece of advice follows from a rule with its source; none is given on a figure that was not made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from setebench.diagnose.places import Spot


@dataclass(frozen=True)
class Params:
    """From where on advice is given. Percentages are of cycles unless another whole is named."""

    worth_percent: float = 15.0  # a part worth work: without it a program is at most 1.18 times as fast
    bound_percent: float = (
        50.0  # productive cycles below which a lower clock costs little (Molka et al. 2017, section 5)
    )
    busy_percent: float = 80.0  # of a path's peak: waiting in an open queue exceeds service (Kleinrock 1975, 5)
    chained_misses: float = 1.5  # fewer misses in flight, while any is: loads wait for each other
    uneven: float = 1.1  # most loaded thread over the mean: the others wait for 9 % of the time
    shared_lines_per_second: float = 1e5  # taken from other cores: at 100 ns each 1 % of a thread's time
    fault_percent: float = 5.0  # of the CPU time, for faults of `fault_ns` each
    fault_ns: float = 250.0  # an exception and 4 KiB cleared, at least: no advice where faults don't matter
    switches_per_second: float = 1000.0  # per busy CPU, of 1 to 10 us with cold caches (Li, Ding and Shen 2007)
    migrations_per_second: float = 20.0  # each refills the near caches, some 100 us: 0.2 %
    least_seconds: float = 0.2  # of CPU or elapsed time: a shorter run is mostly its start and its end
    idle_percent: float = 50.0  # on a CPU for less of the time, a program waits for something else than memory
    slower_memory: float = 1.5  # latency over that without the program: the knee of latency over load


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try, and the findings (or other figures) that it rests on."""

    text: str
    rests_on: tuple[str, ...]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What advice is given on: findings by name without `diagnose.`, and other figures by name; by part of the cycles
    the function that spends most of it; elapsed seconds."""

    values: dict[str, float]
    spots: dict[str, Spot] = msgspec.field(default_factory=dict)
    elapsed: float = 0.0

    def at_least(self, name: str, limit: float) -> bool:
        """Whether a figure was made and reaches a limit."""
        return self.values.get(name, -1.0) >= limit

    def where(self, part: str) -> str:
        """ ", most of them in f (file.c:12)"; empty without samples."""
        spot = self.spots.get(part)
        return "" if spot is None else f", most of them in {spot.function}" + (f" ({spot.line})" if spot.line else "")


def advise(case: Case, params: Params | None = None) -> list[Advice]:
    """Everything that may be said, what weighs most first."""
    limits = params or Params()
    return [Advice(text=text, rests_on=tuple(on)) for rule in _RULES for text, *on in rule(case, limits)]


Said = Iterator[tuple[str, ...]]
"""What a rule says: the text, and behind it the figures that it rests on."""

_INNER = {"memory": "the last cache", "l3": "L2", "l2": "L1"}
"""Into which cache a block has to fit so that a level is used less."""


def _bandwidth(case: Case, limits: Params) -> Said:
    if not case.at_least("memory_bandwidth", limits.worth_percent):
        return
    percent, level = max((case.values.get(f"utilization.{level}", 0.0), level) for level in _INNER)
    busy = percent >= limits.busy_percent
    part = case.values["memory_bandwidth"]
    head = (
        f"{part:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{case.where('memory_bandwidth')}: "
    )
    if busy:
        again = f"Block the loops so that data is used again while it lies in {_INNER[level]}"
        yield (
            f"{head}{level} is {percent:.0f} % busy. {again}",
            "diagnose.memory_bandwidth",
            f"diagnose.utilization.{level}",
        )
    else:
        text = "use each line fully (data that is used together side by side), and block the loops for a nearer cache"
        yield head + text, "diagnose.memory_bandwidth"
    if case.at_least("saturated", 1.0):
        text = "memory is saturated: fewer threads do as much; let the others work on what needs no memory"
        yield text, "diagnose.saturated", "diagnose.load_miss_latency"


def _latency(case: Case, limits: Params) -> Said:
    """Several chains where few misses are in flight, else a prefetch distance by Little's law."""
    if not case.at_least("memory_latency", limits.worth_percent):
        return
    part, values = "diagnose.memory_latency", case.values
    head = f"{values['memory_latency']:.0f} % of the cycles wait for single loads{case.where('memory_latency')}: "
    if values.get("miss_parallelism", limits.chained_misses) < limits.chained_misses:
        text = (
            f"misses in flight are {values['miss_parallelism']:.2g} at a time, so each load's address comes from "
            "the one before: follow several chains at once, or keep what is visited in a row side by side"
        )
        yield head + text, part, "miss_parallelism"
    elif "miss_cycles" not in values or "lines_per_cycle" not in values:
        yield head + "prefetch what is needed later; how far ahead is memory latency over the time between lines", part
    else:
        distance = max(1.0, values["miss_cycles"] * values["lines_per_cycle"])
        text = (
            f"a miss takes {values['miss_cycles']:.0f} cycles, in which a thread goes on by {distance:.2g} lines: "
            f"prefetch at least {distance:.0f} to {2 * distance:.0f} lines ahead"
        )
        yield head + text, part, "diagnose.load_miss_latency", "diagnose.memory_read"


def _lower_clock(case: Case, limits: Params) -> Said:
    productive, bandwidth = case.values.get("productive", 100.0), case.values.get("memory_bandwidth", 0.0)
    latency = case.values.get("memory_latency", 0.0)
    if productive < limits.bound_percent and bandwidth >= max(latency, limits.worth_percent):
        text = (
            f"only {productive:.0f} % of the cycles are productive and most others wait for bandwidth: a lower core "
            "clock there saves energy for little time (4.6 % for 0.2 %, Molka et al. 2017)"
        )
        yield text, "diagnose.productive", "diagnose.memory_bandwidth"


def _uneven(case: Case, limits: Params) -> Said:
    """By useful work, or where that could not be counted, by the time on a CPU."""
    if case.at_least("imbalance", limits.uneven):
        ratio = case.values["imbalance"]
        text = (
            f"the most loaded thread does {ratio:.3g} times the mean of useful work, so an even division would take "
            f"{100 / ratio:.0f} % of the time where threads wait for each other: divide by work, not by count, or let "
            "threads take small pieces as they come"
        )
        yield text, "diagnose.imbalance"
    elif "imbalance" not in case.values and case.at_least("thread_time_imbalance", limits.uneven):
        text = (
            f"the busiest thread is on a CPU {case.values['thread_time_imbalance']:.3g} times as long as the mean: "
            "where threads sleep while they wait for each other, their work is divided as unevenly"
        )
        yield text, "CPU time of threads, by samples"


def _shared(case: Case, limits: Params) -> Said:
    if case.at_least("false_sharing", limits.shared_lines_per_second):
        text = (
            f"threads take {case.values['false_sharing']:.2g} lines a second from each other: where they don't hand "
            "over data on purpose, give each thread's data lines of its own (the figure is qualitative: its events err "
            "by tens of percent even where they work)"
        )
        yield text, "diagnose.false_sharing"


def _system(case: Case, limits: Params) -> Said:
    """What the kernel does meanwhile."""
    seconds = case.values.get("cpu_time", 0.0)
    if seconds < limits.least_seconds:
        return
    faults = case.values.get("page_faults", 0.0)
    percent = 100 * faults * limits.fault_ns / 1e9 / seconds
    if percent >= limits.fault_percent:
        text = (
            f"{faults:.0f} page faults in {seconds:.3g} s of CPU time take at least {percent:.0f} % of it: use memory "
            "again instead of giving it back, touch it in larger pages (madvise), or ask for it once"
        )
        yield text, "diagnose.page_faults", "diagnose.cpu_time"
    for name, most, do in (
        ("context_switches", limits.switches_per_second, "wait less often (larger pieces), or spin briefly first"),
        ("cpu_migrations", limits.migrations_per_second, "bind threads to CPUs, so that their caches stay warm"),
    ):
        rate = case.values.get(name, 0.0) / seconds
        if rate >= most:
            yield f"{rate:.0f} {name.replace('_', ' ')} per second of CPU time: {do}", f"diagnose.{name}"
    if case.elapsed >= limits.least_seconds and 100 * seconds / case.elapsed < limits.idle_percent:
        text = (
            f"the program was on a CPU for {100 * seconds / case.elapsed:.0f} % of the time only: it sleeps, waits for "
            "others, or has to share its CPUs; no change to how it uses memory shortens that"
        )
        yield text, "diagnose.cpu_time"


def _slower(case: Case, limits: Params) -> Said:
    latency, idle = case.values.get("probe_latency", 0.0), case.values.get("idle_latency", 0.0)
    if idle and latency >= limits.slower_memory * idle:
        text = (
            f"beside the program memory takes {latency / idle:.2g} times as long as without it ({latency:.0f} against "
            f"{idle:.0f} ns): its bandwidth is nearly used up; use lines fully, block for a nearer cache, or run fewer "
            "threads"
        )
        yield text, "diagnose.probe_latency"


_RULES = (_bandwidth, _latency, _lower_clock, _uneven, _shared, _system, _slower)
