"""What to try, in words that name the figures they rest on.

Each piece of advice follows from a rule with its source; none is given on a figure that was not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from setebench.diagnose.places import Spot


@dataclass(frozen=True)
class Params:
    """From where on advice is given. Percentages are of cycles unless another whole is named."""

    worth_percent: float = 15.0  # a part worth work: without it a program is at most 1.18 times as fast
    bound_percent: float = 50.0  # productive cycles: below, a lower clock costs little (Molka et al. 2017, section 5)
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


Said = Iterator[tuple[str, ...]]
"""What a rule says: the text, and behind it the figures that it rests on."""

_INNER = {"memory": "the last cache", "l3": "L2", "l2": "L1"}
"""Into which cache a block has to fit so that a level is used less."""


def advise(values: Mapping[str, float], spots: Mapping[str, Spot]) -> list[Advice]:
    """Everything that may be said, what weighs most first. `values`: findings by name without `diagnose.`, and other
    figures by name; `spots`: by part of the cycles the function that spends most of it."""
    limits = Params()
    rules = (_bandwidth, _latency)
    said = [each for rule in rules for each in rule(values, spots, limits)]
    said += [*_threads(values, limits), *_system(values, limits)]
    return [Advice(text=text, rests_on=tuple(on)) for text, *on in said]


def _where(spot: Spot | None) -> str:
    """ ", most of them in f (file.c:12)"; empty without samples."""
    return "" if spot is None else f", most of them in {spot.function}" + (f" ({spot.line})" if spot.line else "")


def _bandwidth(values: Mapping[str, float], spots: Mapping[str, Spot], limits: Params) -> Said:
    """Blocking, fewer threads, and a lower clock (4.6 % less power for 0.2 % more time, Molka et al. 2017)."""
    part, name = values.get("memory_bandwidth", 0.0), "diagnose.memory_bandwidth"
    if part < limits.worth_percent:
        return
    percent, level = max((values.get(f"utilization.{level}", 0.0), level) for level in _INNER)
    where = _where(spots.get("memory_bandwidth"))
    head = f"{part:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{where}: "
    if percent >= limits.busy_percent:
        again = f"Block the loops so that data is used again while it lies in {_INNER[level]}"
        yield f"{head}{level} is {percent:.0f} % busy. {again}", name, f"diagnose.utilization.{level}"
    else:
        text = "use each line fully (data that is used together side by side), and block the loops for a nearer cache"
        yield head + text, name
    if values.get("saturated"):
        text = "memory is saturated: fewer threads do as much; let the others work on what needs no memory"
        yield text, "diagnose.saturated", "diagnose.load_miss_latency"
    productive = values["productive"]
    if productive < limits.bound_percent and part >= values["memory_latency"]:
        text = (
            f"only {productive:.0f} % of the cycles are productive and most others wait for bandwidth: a lower core "
            "clock there saves energy for little time"
        )
        yield text, "diagnose.productive", name


def _latency(values: Mapping[str, float], spots: Mapping[str, Spot], limits: Params) -> Said:
    """Several chains where few misses are in flight, else a prefetch distance by Little's law."""
    part, name = values.get("memory_latency", 0.0), "diagnose.memory_latency"
    if part < limits.worth_percent:
        return
    head = f"{part:.0f} % of the cycles wait for single loads{_where(spots.get('memory_latency'))}: "
    if values.get("miss_parallelism", limits.chained_misses) < limits.chained_misses:
        text = (
            f"misses in flight are {values['miss_parallelism']:.2g} at a time, so each load's address comes from "
            "the one before: follow several chains at once, or keep what is visited in a row side by side"
        )
        yield head + text, name, "miss_parallelism"
    elif "miss_cycles" not in values or "lines_per_cycle" not in values:
        yield head + "prefetch what is needed later; how far ahead is memory latency over the time between lines", name
    else:
        distance = max(1.0, values["miss_cycles"] * values["lines_per_cycle"])
        text = (
            f"a miss takes {values['miss_cycles']:.0f} cycles, in which a thread goes on by {distance:.2g} lines: "
            f"prefetch at least {distance:.0f} to {2 * distance:.0f} lines ahead"
        )
        yield head + text, name, "diagnose.load_miss_latency", "diagnose.memory_read"


def _threads(values: Mapping[str, float], limits: Params) -> Said:
    """Division of work (by the time on a CPU where useful work could not be counted), and lines that threads share."""
    ratio, busiest = values.get("imbalance"), values.get("thread_time_imbalance", 0.0)
    if ratio is not None and ratio >= limits.uneven:
        text = (
            f"the most loaded thread does {ratio:.3g} times the mean of useful work, so an even division would take "
            f"{100 / ratio:.0f} % of the time where threads wait for each other: divide by work, not by count, or let "
            "threads take small pieces as they come"
        )
        yield text, "diagnose.imbalance"
    elif ratio is None and busiest >= limits.uneven:
        text = (
            f"the busiest thread is on a CPU {busiest:.3g} times as long as the mean: "
            "where threads sleep while they wait for each other, their work is divided as unevenly"
        )
        yield text, "CPU time of threads, by samples"
    if values.get("false_sharing", 0.0) >= limits.shared_lines_per_second:
        text = (
            f"threads take {values['false_sharing']:.2g} lines a second from each other: where they don't hand "
            "over data on purpose, give each thread's data lines of its own (the figure is qualitative: its events err "
            "by tens of percent even where they work)"
        )
        yield text, "diagnose.false_sharing"


def _system(values: Mapping[str, float], limits: Params) -> Said:
    """What the kernel does meanwhile, and others who use the memory."""
    seconds, elapsed = values.get("cpu_time", 0.0), values["elapsed"]
    rates = {name: values.get(name, 0.0) / (seconds or 1.0) for name in ("page_faults", *_KERNEL)}
    percent = 100 * rates["page_faults"] * limits.fault_ns / 1e9
    if seconds >= limits.least_seconds and percent >= limits.fault_percent:
        text = (
            f"{values['page_faults']:.0f} page faults in {seconds:.3g} s of CPU time take at least {percent:.0f} % of "
            "it: use memory again instead of giving it back, touch it in larger pages (madvise), or ask for it once"
        )
        yield text, "diagnose.page_faults", "diagnose.cpu_time"
    for (name, do), most in zip(
        _KERNEL.items(), (limits.switches_per_second, limits.migrations_per_second), strict=True
    ):
        if seconds >= limits.least_seconds and rates[name] >= most:
            text = f"{rates[name]:.0f} {name.replace('_', ' ')} per second of CPU time: {do}"
            yield text, f"diagnose.{name}", "diagnose.cpu_time"
    if "cpu_time" in values and elapsed >= limits.least_seconds and 100 * seconds / elapsed < limits.idle_percent:
        text = (
            f"the program was on a CPU for {100 * seconds / elapsed:.0f} % of the time only: it sleeps, waits for "
            "others, or has to share its CPUs; no change to how it uses memory shortens that"
        )
        yield text, "diagnose.cpu_time"
    latency, idle = values.get("probe_latency", 0.0), values.get("idle_latency", 0.0)
    if idle and latency >= limits.slower_memory * idle:
        text = (
            f"beside the program memory takes {latency / idle:.2g} times as long as without it ({latency:.0f} against "
            f"{idle:.0f} ns): its bandwidth is nearly used up; use lines fully, block for a nearer cache, or run fewer "
            "threads"
        )
        yield text, "diagnose.probe_latency"


_KERNEL = {
    "context_switches": "wait less often (larger pieces), or spin briefly first",
    "cpu_migrations": "bind threads to CPUs, so that their caches stay warm",
}
