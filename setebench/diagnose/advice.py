"""What to try, in words that name the figures they rest on.

Each piece of advice follows from one figure that is beyond its limit; none is given on a figure that was not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Params:
    """From where on advice is given. Percentages are of cycles unless another whole is named."""

    worth_percent: float = 15.0  # a part worth work: without it a program is at most 1.18 times as fast
    uneven: float = 1.1  # most loaded thread over the mean: the others wait for 9 % of the time
    shared_lines_per_second: float = 1e5  # taken from other cores: at 100 ns each 1 % of a thread's time
    faults_per_second: float = 2e5  # of CPU time: 5 % of it at 250 ns, an exception and 4 KiB cleared, at least
    switches_per_second: float = 1000.0  # per busy CPU, of 1 to 10 us with cold caches (Li, Ding and Shen 2007)
    migrations_per_second: float = 20.0  # each refills the near caches, some 100 us: 0.2 %
    asleep_percent: float = 50.0  # of the time on no CPU: a program waits for something else than memory
    slower_memory: float = 1.5  # latency over that without the program: the knee of latency over load
    least_seconds: float = 0.2  # of elapsed time: a shorter run is mostly its start and its end


LIMITS = Params()


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try, and the findings that it rests on."""

    text: str
    rests_on: tuple[str, ...]


Values = Mapping[str, float]

RULES = (
    (
        *("memory_bandwidth", LIMITS.worth_percent),
        "{:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{where}: use each line fully, block the "
        "loops for a nearer cache, and where memory is saturated run fewer threads or a lower core clock",
    ),
    (
        *("memory_latency", LIMITS.worth_percent),
        "{:.0f} % of the cycles wait for single loads{where}: follow several chains at once, store what is used in a "
        "row side by side, or prefetch what is needed later (advise-prefetch)",
    ),
    (
        *("imbalance", LIMITS.uneven),
        "the busiest thread is on a CPU {:.3g} times as long as the mean: where threads sleep while they wait for each "
        "other, divide by work, not by count, or let threads take small pieces as they come",
    ),
    (
        *("false_sharing", LIMITS.shared_lines_per_second),
        "threads take {:.2g} lines a second from each other: where they don't hand over data on purpose, give each "
        "thread's data lines of its own (the figure is qualitative)",
    ),
    (
        *("page_faults", LIMITS.faults_per_second),
        "{:.0f} page faults per second of CPU time: use memory again, or touch it in larger pages (madvise)",
    ),
    (
        *("context_switches", LIMITS.switches_per_second),
        "{:.0f} context switches per second of CPU time: wait less often (larger pieces), or spin briefly first",
    ),
    (
        *("cpu_migrations", LIMITS.migrations_per_second),
        "{:.0f} migrations per second of CPU time: bind threads to CPUs, so that their caches stay warm",
    ),
    (
        *("cpu_time", LIMITS.asleep_percent),
        "the program was on no CPU for {:.0f} % of the time: it sleeps, waits for others, or has to share its CPUs; no "
        "change to how it uses memory shortens that",
    ),
    (
        *("probe_latency", LIMITS.slower_memory),
        "beside the program memory takes {:.2g} times as long as without it: its bandwidth is nearly used up; use "
        "lines fully, block for a nearer cache, or run fewer threads",
    ),
)
"""Finding, the limit of its value or of what is made of it, and what to try."""


def advise(values: Values, places: Mapping[str, str]) -> list[Advice]:
    """Everything that may be said, what weighs most first. `values`: findings by name without `diagnose.`, beside them
    seconds `elapsed` and the `idle_latency`; `places`: by part of the cycles, in words, where most of it is spent."""
    known, seconds, elapsed = dict(values), values.get("cpu_time", 0.0), values["elapsed"]
    for name in ("page_faults", "context_switches", "cpu_migrations"):
        known[name] = values.get(name, 0.0) / max(seconds, LIMITS.least_seconds)
    known["cpu_time"] = 100 * (1 - seconds / elapsed) if seconds and elapsed >= LIMITS.least_seconds else 0.0
    known["probe_latency"] = values.get("probe_latency", 0.0) / values.get("idle_latency", 1.0)
    return [
        Advice(text=text.format(known[name], where=places.get(name, "")), rests_on=(f"diagnose.{name}",))
        for name, limit, text in RULES
        if known.get(name, 0.0) >= limit
    ]
