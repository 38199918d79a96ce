"""What to try, in words that name the figures they rest on.

Each piece of advice follows from a rule; none is given on a figure that was not made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import msgspec


@dataclass(frozen=True)
class Params:
    """From where on advice is given. Percentages are of cycles unless another whole is named."""

    worth_percent: float = 15.0  # a part worth work: without it a program is at most 1.18 times as fast
    bound_percent: float = 50.0  # productive cycles: below, a lower clock costs little (Molka et al. 2017, section 5)
    chained_misses: float = 1.5  # fewer misses in flight, while any is: loads wait for each other
    uneven: float = 1.1  # most loaded thread over the mean: the others wait for 9 % of the time
    shared_lines_per_second: float = 1e5  # taken from other cores: at 100 ns each 1 % of a thread's time
    faults_per_second: float = 2e5  # of CPU time: 5 % of it at 250 ns, an exception and 4 KiB cleared, at least
    switches_per_second: float = 1000.0  # per busy CPU, of 1 to 10 us with cold caches (Li, Ding and Shen 2007)
    migrations_per_second: float = 20.0  # each refills the near caches, some 100 us: 0.2 %
    least_seconds: float = 0.2  # of elapsed time: a shorter run is mostly its start and its end
    idle_percent: float = 50.0  # on a CPU for less of the time, a program waits for something else than memory
    slower_memory: float = 1.5  # latency over that without the program: the knee of latency over load


LIMITS = Params()


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try, and the findings (or other figures) that it rests on."""

    text: str
    rests_on: tuple[str, ...]


class Rule(NamedTuple):
    """A text for values of which something holds; comparisons with those that were not made are false."""

    holds: Callable[[Values], bool]
    text: str
    rests_on: tuple[str, ...]


Values = Mapping[str, float]


def _often(name: str, limit: float, remedy: str) -> Rule:
    """What the kernel did at least so often in a second of CPU time."""
    words = f"{{{name}:.0f}} {name.replace('_', ' ')} in {{cpu_time:.3g}} s of CPU time: {remedy}"
    rests_on = (f"diagnose.{name}", "diagnose.cpu_time")
    return Rule(lambda v: v[name] >= limit * max(v["cpu_time"], LIMITS.least_seconds), words, rests_on)


RULES = (
    Rule(
        lambda v: v["memory_bandwidth"] >= LIMITS.worth_percent,
        "{memory_bandwidth:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{in_memory_bandwidth}: "
        "use each line fully (data that is used together side by side), and block the loops for a nearer cache",
        ("diagnose.memory_bandwidth",),
    ),
    Rule(
        lambda v: v["memory_bandwidth"] >= LIMITS.worth_percent and v["saturated"] == 1,
        "memory is saturated: fewer threads do as much; let the others work on what needs no memory",
        ("diagnose.saturated", "diagnose.load_miss_latency"),
    ),
    Rule(
        lambda v: (
            v["memory_bandwidth"] >= max(v["memory_latency"], LIMITS.worth_percent)
            and v["productive"] < LIMITS.bound_percent
        ),
        "only {productive:.0f} % of the cycles are productive and most others wait for bandwidth: a lower core clock "
        "there saves energy for little time",
        ("diagnose.productive", "diagnose.memory_bandwidth"),
    ),
    Rule(
        lambda v: v["memory_latency"] >= LIMITS.worth_percent and v["miss_parallelism"] < LIMITS.chained_misses,
        "{memory_latency:.0f} % of the cycles wait for single loads{in_memory_latency}: misses in flight are "
        "{miss_parallelism:.2g} at a time, so each load's address comes from the one before: follow several chains at "
        "once, or store what is used in a row side by side",
        ("diagnose.memory_latency", "miss_parallelism"),
    ),
    Rule(
        lambda v: v["memory_latency"] >= LIMITS.worth_percent and not v["miss_parallelism"] < LIMITS.chained_misses,
        "{memory_latency:.0f} % of the cycles wait for single loads{in_memory_latency}: prefetch what is needed later "
        "(advise-prefetch)",
        ("diagnose.memory_latency",),
    ),
    Rule(
        lambda v: v["imbalance"] >= LIMITS.uneven,
        "the busiest thread is on a CPU {imbalance:.3g} times as long as the mean: where threads sleep while they wait "
        "for each other, divide by work, not by count, or let threads take small pieces as they come",
        ("diagnose.imbalance",),
    ),
    Rule(
        lambda v: v["false_sharing"] >= LIMITS.shared_lines_per_second,
        "threads take {false_sharing:.2g} lines a second from each other: where they don't hand over data on purpose, "
        "give each thread's data lines of its own (the figure is qualitative)",
        ("diagnose.false_sharing",),
    ),
    _often("page_faults", LIMITS.faults_per_second, "touch memory again, or in larger pages (madvise), or map it once"),
    _often("context_switches", LIMITS.switches_per_second, "wait less often (larger pieces), or spin briefly first"),
    _often("cpu_migrations", LIMITS.migrations_per_second, "bind threads to CPUs, so that their caches stay warm"),
    Rule(
        lambda v: v["elapsed"] >= LIMITS.least_seconds and 100 * v["cpu_time"] < LIMITS.idle_percent * v["elapsed"],
        "the program was on a CPU for {cpu_time:.3g} of {elapsed:.3g} s only: it sleeps, waits for others, or has to "
        "share its CPUs; no change to how it uses memory shortens that",
        ("diagnose.cpu_time",),
    ),
    Rule(
        lambda v: v["probe_latency"] >= LIMITS.slower_memory * v["idle_latency"],
        "beside the program memory takes {probe_latency:.0f} ns, without it {idle_latency:.0f}: its bandwidth is "
        "nearly used up; use lines fully, block for a nearer cache, or run fewer threads",
        ("diagnose.probe_latency",),
    ),
)


class _Known(dict[str, float]):
    """Values by name, NaN for those that were not made."""

    def __missing__(self, name: str) -> float:
        return nan


def advise(values: Values, places: Mapping[str, str]) -> list[Advice]:
    """Everything that may be said, what weighs most first. `values`: findings by name without `diagnose.`, and other
    figures by name; `places`: by part of the cycles, in words, where most of it is spent."""
    known, where = _Known(values), {f"in_{part}": words for part, words in places.items()}
    return [
        Advice(text=rule.text.format(**known, **where), rests_on=rule.rests_on) for rule in RULES if rule.holds(known)
    ]
