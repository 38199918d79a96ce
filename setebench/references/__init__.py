"""Published values of processors, to hold findings against: one TOML file each, every value with its source.

For display only. Nothing that infers may read them: a table of known answers is what a measurement must not need.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from setebench import store
from setebench.compare import REFERENCE
from setebench.errors import UsageError
from setebench.host.processor import reported_caches
from setebench.results import Document, Finding, MachineRecord, Outcome, Tool

PREFIX = "reference:"
FOLDER = Path(__file__).parent
ABOUT = 0.1
"""Half width of a value that its source only gives as "around", as a share of it."""

_ROUNDED_UNITS = ("cycles", "ns")
"""Units whose published values are rounded: 14 cycles may be anything from 13.5 to 14.5. Counts are exact."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published value. `says` is what the source says, in short; `about` marks a value that is only roughly so."""

    parameter: str
    value: float | int | bool | str | list[str | int]
    unit: str
    source: str
    says: str
    low: float | None = None
    high: float | None = None
    about: bool = False


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which processors it describes, by what the operating system calls them; no models means the whole family."""

    vendor: str
    family: int
    models: list[int] = []


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file. A source has a `title`, a `kind`, which says how far to trust it (measured, or the vendor's word), and
    perhaps a `url`."""

    title: str
    matches: list[Match]
    sources: dict[str, dict[str, str]]
    values: list[Entry]


def names() -> list[str]:
    """The references that come with setebench."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def read(name: str) -> Reference:
    """The reference of that name. Raises `UsageError` for a name that there is not."""
    if name not in names():
        raise UsageError(f"unknown reference {name!r}; one of {', '.join(names())}")
    return msgspec.toml.decode((FOLDER / f"{name}.toml").read_bytes(), type=Reference)


def listed(name: str) -> str:
    """Lines that say what a reference is, and where its values come from."""
    found = read(name)
    sources = [f"    {each['title']} ({each['kind']}) {each.get('url', '')}" for each in found.sources.values()]
    lines = [f"reference:{name}  {found.title}, {len(found.values)} values", *sources]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def document(name: str) -> Document:
    """The reference as a document, so that it can be compared like a result."""
    reference = read(name)
    findings = [_finding(entry, reference.sources[entry.source]) for entry in reference.values]
    return _document(f"{PREFIX}{name}", reference.title, findings, {"sources": reference.sources})


def _document(scenario: str, title: str, findings: list[Finding], evidence: dict[str, Any]) -> Document:
    return Document(
        tool=Tool(name="setebench", version=""),
        machine=MachineRecord(kind=REFERENCE, name=title, facts={}, environment={}),
        settings={"scenario": scenario},
        started="",
        elapsed_seconds=0.0,
        findings=findings,
        evidence=evidence,
    )


def _finding(entry: Entry, source: dict[str, str]) -> Finding:
    found = Finding(
        parameter=entry.parameter,
        value=entry.value,
        unit=entry.unit,
        low=entry.low,
        high=entry.high,
        outcome=Outcome.MEASURED if entry.value else Outcome.ABSENT,
        method=f"{source['title']} ({source['kind']}): {entry.says}",
        evidence="sources",
    )
    value = found.number
    if value is None or entry.low is not None or not (entry.about or entry.unit in _ROUNDED_UNITS):
        return found
    half = ABOUT * value if entry.about else 0.5
    return msgspec.structs.replace(found, low=value - half, high=value + half)


# -- which one describes a machine ------------------------------------------------------------------------------------


def matching(environment: dict[str, Any]) -> str | None:
    """The reference for what the operating system says of the processor (`MachineRecord.environment`), if there is one.

    A match with a list of models goes before one for a whole family."""
    vendor, family, model = (store.part(environment, "cpu").get(key) for key in ("vendor", "family", "model"))
    found = [
        (bool(match.models), name)
        for name in names()
        for match in read(name).matches
        if (match.vendor, match.family) == (vendor, family) and (not match.models or model in match.models)
    ]
    return max(found)[1] if found else None


def of_the_system(environment: dict[str, Any]) -> Document | None:
    """What the operating system says of the data caches, as a document; None where it says nothing."""
    findings = [
        Finding(
            parameter=name,
            value=value,
            unit="ways" if name.endswith(".ways") else "bytes",
            method="the operating system",
        )
        for name, value in reported_caches(environment).items()
    ]
    return _document("system", "what the operating system says", findings, {}) if findings else None
