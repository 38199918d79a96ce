"""Findings about prefetchers, in the words of the contract."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.results import Finding, Outcome, Value

UNITS = {
    "present": "bool",
    "trigger": "accesses",
    "trigger_at_page_edge": "list",
    "trigger_by_l1_prefetcher": "accesses",
    "trained_by": "list",
    "degree": "lines",
    "max_distance": "lines",
    "directions": "string",
    "streams": "streams",
    "streams_per_page": "streams",
    "replacement": "string",
    "min_stride": "bytes",
    "max_stride": "bytes",
    "indexed_by": "string",
    "ip_bits": "list",
    "fills": "string",
    "crosses_4k": "bool",
    "crosses_4k_in_2m": "bool",
    "shared_by_smt": "bool",
    "shared_by_cores": "bool",
    "region_size": "bytes",
}
EVIDENCE = "prefetchers"


class Told:
    """Findings of one prefetcher, in the order in which they were told."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.findings: list[Finding] = []

    def _name(self, parameter: str) -> str:
        return f"prefetcher.{self.identity}.{parameter}"

    def present(self, value: bool | None, method: str, reason: str) -> bool:
        """Tell whether there is one; returns whether there surely is."""
        if value is False:
            name = self._name("present")
            self.findings.append(
                Finding(parameter=name, value=False, unit="bool", outcome=Outcome.ABSENT, method=method)
            )
        else:
            self.value("present", value, method, reason)
        return value is True

    def value(
        self,
        parameter: str,
        value: Value,
        method: str,
        reason: str,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        """Tell a value, or, where it is None, why there is none."""
        if value is None:
            self.unresolved(parameter, reason, method)
            return
        self.findings.append(
            Finding(
                parameter=self._name(parameter),
                value=value,
                unit=UNITS[parameter],
                low=low,
                high=high,
                method=method,
                evidence=EVIDENCE,
            )
        )

    def at_least(self, parameter: str, value: int, method: str, reason: str) -> None:
        """No limit was seen up to `value`."""
        self.findings.append(
            Finding(
                parameter=self._name(parameter),
                value=value,
                unit=UNITS[parameter],
                outcome=Outcome.AT_LEAST,
                reason=reason,
                method=method,
                evidence=EVIDENCE,
            )
        )

    def unresolved(self, parameter: str, reason: str, method: str = "") -> None:
        """Say why there is no value."""
        self.findings.append(
            Finding(
                parameter=self._name(parameter),
                unit=UNITS[parameter],
                outcome=Outcome.UNRESOLVED,
                reason=reason,
                method=method,
            )
        )

    def take_back(self, reason: str) -> None:
        """Leave every value open but whether there is one."""
        told, self.findings = self.findings, []
        for each in told:
            if each.value is None or each.parameter == self._name("present"):
                self.findings.append(each)
            else:
                self.unresolved(each.parameter.rpartition(".")[2], reason, each.method)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)
