"""What counts of this machine are read by: verdicts on its events, their peak rates, the threshold of saturation.

Peaks and the threshold come from result files: of `setebench counters peaks`, and of `setebench counter-curves`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from setebench import store
from setebench.counters import verdicts
from setebench.counters.utilization import Peak
from setebench.counters.verdicts import Key
from setebench.diagnose.analysis import Basis, Calibration
from setebench.errors import UsageError
from setebench.results import Document, Finding

THRESHOLD = "diagnose.saturated.threshold"
_PEAK, _ALL_CORES = ".peak", ".peak.all_cores"


def basis(key: Key, machine: str, results: Iterable[Path] = (), file: Path | None = None) -> Basis:
    """Verdicts kept for this machine (or those of `file`), and peaks and threshold of these result files; of two that
    give one figure the later one counts.

    Raises `SetebenchError` for verdicts that expired, `UsageError` for files that can't be read, or are of another
    machine."""
    return Basis(verdicts=verdicts.kept(key, machine, file), calibration=measured_on(machine, results))


def measured_on(machine: str, results: Iterable[Path]) -> Calibration:
    """The calibration in these result files. Raises `UsageError` for one that can't be read or is of another machine:
    its peaks and its threshold say nothing of this one."""
    documents = []
    for path in results:
        document = store.load(path)
        if document.machine.name != machine:
            raise UsageError(f"{str(path)!r} was measured on {document.machine.name}, not on {machine}")
        documents.append(document)
    return calibration(documents)


def calibration(documents: Iterable[Document]) -> Calibration:
    """Peaks by role and the threshold, as these documents have them."""
    peaks: dict[str, Peak] = {}
    threshold, reason = None, Calibration().reason
    for finding in (finding for document in documents for finding in document.findings):
        if finding.parameter.startswith("counter."):
            _add_peak(peaks, finding)
        elif finding.parameter == THRESHOLD:
            threshold, reason = _number(finding), finding.reason or reason
    return Calibration(peaks=peaks, saturation_cycles=threshold, reason=reason)


def _add_peak(peaks: dict[str, Peak], finding: Finding) -> None:
    role = finding.parameter.removeprefix("counter.").partition(".")[0]
    known, value = peaks.get(role, Peak()), _number(finding)
    if value is None:
        return
    if finding.parameter.endswith(_ALL_CORES):
        peaks[role] = Peak(one_core=known.one_core, all_cores=value)
    elif finding.parameter.endswith(_PEAK):
        peaks[role] = Peak(one_core=value, all_cores=known.all_cores)


def _number(finding: Finding) -> float | None:
    value = finding.value
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
