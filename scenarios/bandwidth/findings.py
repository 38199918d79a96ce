"""What rounds of a stream say of a level's rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from setebench.calibration import MEMORY
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.rounds import RATE, quantile_of_rounds

from .params import PARAMS
from .timed import Case, Stream

EVIDENCE = "bandwidth"


def findings_of(stream: Stream) -> Iterator[Finding]:
    """The rate of a level: 84th percentile of rounds, as what else runs only slows a stream down."""
    rolled, case = stream.best_form, stream.case
    rates = np.array(stream.gigabytes[rolled])
    name, known = case.parameter(stream.level), rates[np.isfinite(rates)]
    if not len(known):
        yield decide.unresolved(name, "GB/s", "in no round did the references of enough samples agree; run again")
        return
    forms = f", {'rolled' if rolled else 'unrolled'}" if len(case.kernel.forms) > 1 else ""
    spread = f"{known.min():.3g} to {known.max():.3g} GB/s"
    how = f"84th percentile of {len(known)} rounds ({spread}) over {_size(stream.data.bytes)} a thread{forms}"
    factors = {name: 1.0}
    if stream.level != "l1" and case.kernel.written_bytes:
        factors[f"{name}.traffic"] = case.kernel.traffic_bytes / case.kernel.program_bytes
    for parameter, factor in factors.items():
        yield decide.measured(parameter, _rate(known).scaled(factor), "GB/s", how, EVIDENCE)
    cycles = np.array(stream.per_cycle[rolled])
    if not stream.shared and np.isfinite(cycles).any():
        paired = f"84th percentile of {len(known)} rounds between references{forms}"
        yield decide.measured(f"{name}.per_cycle", _rate(cycles), "bytes/cycle", paired, EVIDENCE)


def no_room(case: Case, level: str) -> Finding:
    """The finding of a level that no data set of so many threads surely lies in."""
    threads = f"{case.threads} thread{'s' if case.threads > 1 else ''}"
    reason = f"no data set of {threads} outgrows the level before and fits this one, in the memory that there is"
    return decide.unresolved(case.parameter(level), "GB/s", reason)


def _rate(rounds: Sequence[float] | np.ndarray) -> Interval:
    known = np.asarray(rounds, dtype=np.float64)
    room = PARAMS.placing * float(np.nanmax(known))
    found = quantile_of_rounds(known, RATE, (room, room))
    return Interval(found.value, max(found.low, 0.0), found.high)


def _size(size: int) -> str:
    """Bytes for people: arrays of whole blocks seldom come to whole KiB."""
    unit, name = next((unit, name) for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")) if size >= unit)
    return f"{size / unit:.3g} {name}"


def evidence_of(case: Case, streams: Sequence[Stream]) -> dict[str, Any]:
    """A case as evidence: what it was, and every round of every level's data set in the faster form of its loop."""
    kernel = case.kernel
    return {
        "kernel": kernel.name,
        "width": case.width,
        "cpus": list(case.cpus),
        "remote": case.remote,
        "bytes_per_block": {
            "read": kernel.read_bytes,
            "written": kernel.written_bytes,
            "write_allocated": kernel.allocated_bytes,
        },
        "flops_per_block": kernel.block_flops,
        "levels": [stream.level for stream in streams],
        "size_bytes": [stream.data.bytes for stream in streams],
        "rolled": [stream.best_form for stream in streams],
        "rounds_gb_per_s": [_plain(stream.gigabytes[stream.best_form]) for stream in streams],
        "rounds_per_cycle": [_plain(stream.per_cycle[stream.best_form]) for stream in streams],
    }


def _plain(rounds: Sequence[float]) -> list[float]:
    return [float(each) for each in rounds if np.isfinite(each)] or [0.0]


def levels_for(case: Case, names: Sequence[str]) -> list[str]:
    """Levels that a case says something of: non-temporal stores go to memory wherever the data was, prefetches find
    nothing to do in the first level, and caches don't care where memory lies."""
    if case.remote or case.kernel.bypass:
        return [MEMORY]
    return [name for name in names if name != "l1" or not case.kernel.fetches]
