"""What tests of many nodes share: result files made of a few numbers, and recorded runs of simulated machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.files.loader import load

RECORDED = Path(__file__).resolve().parents[1] / "fixtures/fleet/recorded.json"
"""24 runs of `setebench latency --fast` on one simulated machine with a guest's noise, each with another seed; made by
`setebench fleet simulate` on the machine file in it."""


def number(parameter: str, value: float, half: float = 0.5, unit: str = "cycles") -> dict[str, Any]:
    """A measured number with an interval of that half width."""
    low, high = value - half, value + half
    return {"parameter": parameter, "value": value, "unit": unit, "low": low, "high": high, "outcome": "measured"}


def answer(parameter: str, value: Any) -> dict[str, Any]:
    """A measured answer without an interval."""
    return {"parameter": parameter, "value": value, "outcome": "measured"}


def silent(parameter: str, reason: str) -> dict[str, Any]:
    """An open question."""
    return {"parameter": parameter, "value": None, "outcome": "unresolved", "reason": reason}


def absent(parameter: str) -> dict[str, Any]:
    """Something that is not there."""
    return {"parameter": parameter, "value": False, "outcome": "absent"}


def put(path: Path, findings: Iterable[Mapping[str, Any]], version: str = "0.1.0", **settings: Any) -> None:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": 1,
        "tool": {"name": "setebench", "version": version},
        "machine": {"kind": "native", "name": "x", "facts": {}, "environment": {}},
        "settings": settings,
        "started": "2026-01-01T00:00:00+00:00",
        "elapsed_seconds": 1.0,
        "findings": list(findings),
        "evidence": {"points": [[1, 2], [3, 4]]},
    }
    path.write_text(json.dumps(document))


def tiny(memory: float) -> spec.Machine:
    """A machine of two small levels, on which latency takes a second or two; loads from memory differ a little, as only
    numbers with an interval are compared as numbers."""
    replace, plain = msgspec.structs.replace, load("plain")
    hints = {
        name: replace(hint, fills="l2") if hint.fills == "l3" else hint
        for name, hint in plain.software_prefetch.hints.items()
    }
    return replace(
        plain,
        name="tiny",
        levels=(replace(plain.levels[0], sets=32), replace(plain.levels[1], sets=64)),
        memory=replace(plain.memory, latency_cycles=memory, spread_cycles=10.0),
        software_prefetch=replace(plain.software_prefetch, hints=hints),
    )
