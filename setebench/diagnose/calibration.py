"""What counts of this machine are read by: verdicts on its events, their peak rates, the threshold of saturation.

Peaks and the threshold come from result files: of `setebench counters peaks`, and of `setebench counter-curves`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from setebench import store
from setebench.counters import verdicts
from setebench.counters.utilization import Peak
from setebench.counters.verdicts import Key, Verdicts
from setebench.diagnose.analysis import Basis, Calibration
from setebench.results import Document, Finding

THRESHOLD = "diagnose.saturated.threshold"
_PEAK, _ALL_CORES = ".peak", ".peak.all_cores"


def basis(key: Key, machine: str, results: Iterable[Path] = (), file: Path | None = None) -> Basis:
    """Verdicts kept for this machine (or those of `file`), and peaks and threshold of these result files; of two that
    give one figure the later one counts.

    Raises `SetebenchError` for verdicts that expired, `UsageError` for files that can't be read."""
    return Basis(verdicts=trusted(key, machine, file), calibration=calibration([store.load(each) for each in results]))


def trusted(key: Key, machine: str, file: Path | None) -> Verdicts:
    """The verdicts that gate figures: none are trusted where nothing was validated."""
    return verdicts.kept(key, machine, file)


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
