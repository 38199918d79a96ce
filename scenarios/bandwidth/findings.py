"""What rounds of a stream say of a level's rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.streams.timed import Case, Stream
from setebench.report.numbers import in_bytes
from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.rounds import rate_of_rounds

EVIDENCE = "bandwidth"

UNLIKE = 0.3
"""Of a rate: half of an interval that is wider says that rounds had different parts of the core."""

REACHED = 0.95
"""Of the fastest round, what the rate of a core alone must come to: else too few rounds had all of the core."""


def findings_of(stream: Stream, per_ns: float | None = None) -> Iterator[Finding]:
    """The rate of a level, and what the range of its rounds is.

    One thread in a level that the core clocks has its bytes a cycle at the pace of the core that the result states
    (`per_ns` cycles a nanosecond): what a round reached depends on the clock that neighbours left the core just then.
    All threads together lower the clock themselves."""
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
    """A rate that rounds agree on, else a bound: what else ran took the larger part of some rounds, and may have taken
    some of each. What a core has `alone` is as fast in all quiet rounds."""
    rate = rate_of_rounds(rounds)
    found = decide.measured(parameter, rate, unit, how, EVIDENCE)
    few = alone and rate.value < REACHED * rounds.max()
    if found.outcome is not Outcome.MEASURED or not (few or rate.high - rate.low > 2 * UNLIKE * rate.value):
        return found
    reason = "rounds differ, as others on the core take a part"
    bound = decide.at_least(parameter, rate.value, unit, reason, how)
    return decide.backed(decide.within(bound, rate.low, rate.high), EVIDENCE)


def evidence_of(case: Case, streams: Sequence[Stream]) -> dict[str, Any]:
    """A case as evidence: what it was, and every round of every level's data set in the faster form of its loop."""
    rounds = [[each.gigabytes for each in stream.rounds[stream.best_form]] for stream in streams]
    return {
        "kernel": case.kernel.name,
        "width": case.width,
        "cpus": list(case.cpus),
        "levels": [stream.level for stream in streams],
        "size_bytes": [stream.bytes for stream in streams],
        "rounds_gb_per_s": [[rate for rate in each if np.isfinite(rate)] or [0.0] for each in rounds],
    }
