"""What to try, in words that name the figures they rest on.

Each piece of advice follows from a rule with its source; none is given on a figure that was not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Params:
    """From where on advice is given. Percentages are of cycles unless another whole is named."""

    worth_percent: float = 15.0  # a part worth work: without it a program is at most 1.18 times as fast
    bound_percent: float = 50.0  # productive cycles: below, a lower clock costs little (Molka et al. 2017, section 5)
    busy_percent: float = 80.0  # of a path's peak: waiting in an open queue exceeds service (Kleinrock 1975, 5)
    chained_misses: float = 1.5  # fewer misses in flight, while any is: loads wait for each other
    uneven: float = 1.1  # most loaded thread over the mean: the others wait for 9 % of the time
    shared_lines_per_second: float = 1e5  # taken from other cores: at 100 ns each 1 % of a thread's time
    faults_per_second: float = 2e5  # of CPU time: 5 % of it at 250 ns, an exception and 4 KiB cleared, at least
    switches_per_second: float = 1000.0  # per busy CPU, of 1 to 10 us with cold caches (Li, Ding and Shen 2007)
    migrations_per_second: float = 20.0  # each refills the near caches, some 100 us: 0.2 %
    least_seconds: float = 0.2  # of CPU or elapsed time: a shorter run is mostly its start and its end
    idle_percent: float = 50.0  # on a CPU for less of the time, a program waits for something else than memory
    slower_memory: float = 1.5  # latency over that without the program: the knee of latency over load


LIMITS = Params()


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try, and the findings (or other figures) that it rests on."""

    text: str
    rests_on: tuple[str, ...]


Said = Iterator[tuple[str, ...]]
"""What a rule says: the text, and behind it the figures that it rests on."""
Values = Mapping[str, float]

_INNER = {"memory": "the last cache", "l3": "L2", "l2": "L1"}
"""Into which cache a block has to fit so that a level is used less."""


def advise(values: Values, places: Mapping[str, str]) -> list[Advice]:
    """Everything that may be said, what weighs most first. `values`: findings by name without `diagnose.`, and other
    figures by name; `places`: by part of the cycles, in words, where most of it is spent."""
    said = [*_bandwidth(values, places["memory_bandwidth"]), *_latency(values, places["memory_latency"])]
    return [Advice(text=text, rests_on=tuple(on)) for text, *on in (*said, *_threads(values), *_system(values))]


def _bandwidth(values: Values, where: str) -> Said:
    """Blocking, fewer threads, and a lower clock (4.6 % less power for 0.2 % more time, Molka et al. 2017)."""
    part, name = values.get("memory_bandwidth", 0.0), "diagnose.memory_bandwidth"
    if part < LIMITS.worth_percent:
        return
    percent, level = max((values.get(f"utilization.{level}", 0.0), level) for level in _INNER)
    head = f"{part:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{where}: "
    if percent >= LIMITS.busy_percent:
        again = f"Block the loops so that data is used again while it lies in {_INNER[level]}"
        yield f"{head}{level} is {percent:.0f} % busy. {again}", name, f"diagnose.utilization.{level}"
    else:
        text = "use each line fully (data that is used together side by side), and block the loops for a nearer cache"
        yield head + text, name
    if values.get("saturated"):
        text = "memory is saturated: fewer threads do as much; let the others work on what needs no memory"
        yield text, "diagnose.saturated", "diagnose.load_miss_latency"
    productive = values["productive"]
    if productive < LIMITS.bound_percent and part >= values["memory_latency"]:
        text = (
            f"only {productive:.0f} % of the cycles are productive and most others wait for bandwidth: a lower core "
            "clock there saves energy for little time"
        )
        yield text, "diagnose.productive", name


def _latency(values: Values, where: str) -> Said:
    """Several chains where few misses are in flight, else prefetches."""
    part, name = values.get("memory_latency", 0.0), "diagnose.memory_latency"
    if part < LIMITS.worth_percent:
        return
    head = f"{part:.0f} % of the cycles wait for single loads{where}: "
    if values.get("miss_parallelism", LIMITS.chained_misses) < LIMITS.chained_misses:
        text = (
            f"misses in flight are {values['miss_parallelism']:.2g} at a time, so each load's address comes from "
            "the one before: follow several chains at once, or store what is used in a row side by side"
        )
        yield head + text, name, "miss_parallelism"
    else:
        text = "prefetch what is needed later, as many lines ahead as are used while memory answers (advise-prefetch)"
        yield head + text, name


def _threads(values: Values) -> Said:
    """Division of work, and lines that threads share."""
    ratio = values.get("imbalance", 1.0)
    if ratio >= LIMITS.uneven:
        text = (
            f"the busiest thread is on a CPU {ratio:.3g} times as long as the mean, so an even division would take "
            f"{100 / ratio:.0f} % of the time where threads sleep while they wait for each other: divide by work, not "
            "by count, or let threads take small pieces as they come"
        )
        yield text, "diagnose.imbalance"
    if values.get("false_sharing", 0.0) >= LIMITS.shared_lines_per_second:
        text = (
            f"threads take {values['false_sharing']:.2g} lines a second from each other: where they don't hand "
            "over data on purpose, give each thread's data lines of its own (the figure is qualitative)"
        )
        yield text, "diagnose.false_sharing"


def _system(values: Values) -> Said:
    """What the kernel does meanwhile, and others who use the memory."""
    seconds, elapsed = values.get("cpu_time", 0.0), values["elapsed"]
    for name, (limit, remedy) in _KERNEL.items():
        rate = values.get(name, 0.0) / (seconds or 1.0)
        if seconds >= LIMITS.least_seconds and rate >= limit:
            text = f"{rate:.0f} {name.replace('_', ' ')} per second of CPU time: {remedy}"
            yield text, f"diagnose.{name}", "diagnose.cpu_time"
    if "cpu_time" in values and elapsed >= LIMITS.least_seconds and 100 * seconds / elapsed < LIMITS.idle_percent:
        text = (
            f"the program was on a CPU for {100 * seconds / elapsed:.0f} % of the time only: it sleeps, waits for "
            "others, or has to share its CPUs; no change to how it uses memory shortens that"
        )
        yield text, "diagnose.cpu_time"
    latency, idle = values.get("probe_latency", 0.0), values.get("idle_latency", 0.0)
    if idle and latency >= LIMITS.slower_memory * idle:
        text = (
            f"beside the program memory takes {latency / idle:.2g} times as long as without it ({latency:.0f} against "
            f"{idle:.0f} ns): its bandwidth is nearly used up; use lines fully, block for a nearer cache, or run fewer "
            "threads"
        )
        yield text, "diagnose.probe_latency"


_KERNEL = {
    "page_faults": (LIMITS.faults_per_second, "use memory again, touch it in larger pages (madvise), or map it once"),
    "context_switches": (LIMITS.switches_per_second, "wait less often (larger pieces), or spin briefly first"),
    "cpu_migrations": (LIMITS.migrations_per_second, "bind threads to CPUs, so that their caches stay warm"),
}
