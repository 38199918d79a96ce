"""Findings and evidence of bandwidth, made from the rounds of one stream over one level's data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.streams.timed import Case, Stream
from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.rounds import rate_of_rounds
from setebench.text import in_bytes

EVIDENCE = "bandwidth"

UNLIKE = 0.3
"""Largest half width of a measured rate's interval, relative to the rate: if wider, co-runners took varying shares."""

REACHED = 0.95
"""Least rate of a core on its own, relative to its fastest round: below it, too few rounds were undisturbed."""


def findings_of(stream: Stream, per_ns: float | None = None) -> Iterator[Finding]:
    """Yield the bandwidth of `stream` in GB/s, with and without write-allocate traffic, and in bytes per core cycle.

    If one thread runs alone in a level on the core's clock, GB/s is bytes per cycle times `per_ns`, the core cycles per
    nanosecond that the result states: measured GB/s vary by round there, as load on other cores changes the clock.
    Otherwise (several threads, a shared level, or `per_ns` None) GB/s is used as measured."""
    rolled, case = stream.best_form, stream.case
    values = np.array(stream.rounds[rolled]).T  # gigabytes, bytes a cycle
    rates, cycles = (each[np.isfinite(each)] for each in values)
    name = case.parameter(stream.level)
    if not len(rates):
        yield decide.unresolved(name, "GB/s", "in no round did the references of enough samples agree; run again")
        return
    forms = f", {'rolled' if rolled else 'unrolled'}" if len(case.kernel.forms) > 1 else ""
    spread = f"{rates.min():.3g} to {rates.max():.3g} GB/s"
    how = f"84th percentile of {len(rates)} rounds ({spread}) over {in_bytes(stream.bytes)} a thread{forms}"
    if per_ns and stream.alone and len(cycles):
        rates, how = cycles * per_ns, f"{how}; here bytes a cycle at {per_ns:.3g} GHz"
    found = [_rate(name, rates, "GB/s", how, stream.alone)]
    if stream.level != "l1" and case.kernel.written_bytes:
        factor = case.kernel.traffic_bytes / case.kernel.program_bytes
        found.append(_rate(f"{name}.traffic", rates * factor, "GB/s", how, stream.alone))
    if not stream.shared and len(cycles):
        paired = f"84th percentile of {len(cycles)} rounds between references{forms}"
        found.append(_rate(f"{name}.per_cycle", cycles, "bytes/cycle", paired, stream.alone))
    yield from found


def _rate(parameter: str, rounds: NDArray[np.float64], unit: str, how: str, alone: bool) -> Finding:
    """Return a measured rate where the `rounds` (shape (rounds,)) agree, else a lower bound: a co-runner that took most
    of some rounds may have taken a part of all. The rate of a core `alone` must also be near its fastest round's."""
    rate = rate_of_rounds(rounds)
    found = decide.measured(parameter, rate, unit, how, EVIDENCE)
    few = alone and rate.value < REACHED * rounds.max()
    if found.outcome is not Outcome.MEASURED or not (few or rate.high - rate.low > 2 * UNLIKE * rate.value):
        return found
    reason = "rounds differ, as others on the core take a part"
    bound = decide.at_least(parameter, rate.value, unit, reason, how)
    return decide.backed(decide.within(bound, rate.low, rate.high), EVIDENCE)


def evidence_of(case: Case, streams: Sequence[Stream]) -> dict[str, Any]:
    """Return the evidence of one case: kernel, width, CPUs, and for each level (of `streams`) the bytes of a thread's
    data set and the GB/s of all rounds with the form of the loop (rolled or unrolled) that was faster there."""
    rounds = [[each.gigabytes for each in stream.rounds[stream.best_form]] for stream in streams]
    return {
        "kernel": case.kernel.name,
        "width": case.width,
        "cpus": list(case.cpus),
        "levels": [stream.level for stream in streams],
        "size_bytes": [stream.bytes for stream in streams],
        "rounds_gb_per_s": [[rate for rate in each if np.isfinite(rate)] or [0.0] for each in rounds],
    }
