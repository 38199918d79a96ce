"""What counts of this machine are read by: verdicts on its events, their peak rates, the threshold of saturation.

Peaks and the threshold come from result files: of `setebench counters peaks`, and of `setebench counter-curves`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from setebench import store
from setebench.counters import verdicts
from setebench.counters.utilization import Peak
from setebench.counters.verdicts import Key
from setebench.diagnose.analysis import Basis, Calibration
from setebench.errors import UsageError

THRESHOLD = "diagnose.saturated.threshold"
PEAKS = {"peak": "one_core", "peak.all_cores": "all_cores"}
"""Which of a role's peaks a parameter `counter.ROLE.*` says."""


def basis(key: Key, machine: str, results: Iterable[Path] = (), file: Path | None = None) -> Basis:
    """Verdicts kept for this machine (or those of `file`), and peaks and threshold of these result files; of two that
    give one figure the later one counts.

    Raises `SetebenchError` for verdicts that expired, `UsageError` for files that can't be read, or are of another
    machine."""
    return Basis(verdicts=verdicts.kept(key, machine, file), calibration=measured_on(machine, results))


def measured_on(machine: str, results: Iterable[Path]) -> Calibration:
    """The calibration in these result files. Raises `UsageError` for one that can't be read or is of another machine:
    its peaks and its threshold say nothing of this one."""
    peaks: dict[str, Peak] = {}
    threshold, reason = None, Calibration().reason
    for path in results:
        document = store.load(path)
        if document.machine.name != machine:
            raise UsageError(f"{str(path)!r} was measured on {document.machine.name}, not on {machine}")
        for finding in document.findings:
            said = finding.value
            value = float(said) if isinstance(said, (int, float)) and not isinstance(said, bool) else None
            scenario, _, name = finding.parameter.partition(".")
            role, _, kind = name.partition(".")
            if finding.parameter == THRESHOLD:
                threshold, reason = value, finding.reason or reason
            elif scenario == "counter" and kind in PEAKS and value is not None:
                peaks[role] = msgspec.structs.replace(peaks.get(role, Peak()), **{PEAKS[kind]: value})
    return Calibration(peaks=peaks, saturation_cycles=threshold, reason=reason)
