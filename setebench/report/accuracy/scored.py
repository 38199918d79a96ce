"""The score document as text: a table of parameters, and below it what qualifies the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from setebench.report.accuracy.rows import HEADS, MOST_NAMES, SHARES, by_scenario, proportion, remarks
from setebench.report.text import in_columns


def render(document: Mapping[str, Any]) -> str:
    """A table for each scenario; shares and remarks; every wrong answer with its seed."""
    tables = (in_columns(rows, [scenario, *HEADS], HEADS) for scenario, rows in by_scenario(document["accuracy"]))
    return "\n\n".join([*tables, "\n".join(_lines(document))]) + "\n"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"{len(document['machines'])} machines, seed {document['seed']}:"
    yield from _by_machine(document["by_machine"])
    yield from remarks(document)
    for item in document["wrong"]:
        yield (
            f"wrong: --machine sim:{item['machine']} --seed {item['seed']}: {item['parameter']} reported "
            f"{item['value']!r} ({item['outcome']}), truth {item['truth']!r}"
        )
    if document.get("against"):
        yield from _against(document["against"])
    if sealed := document.get("sealed"):
        seeds = ", ".join(map(str, sealed["seeds"][:MOST_NAMES])) + (", ..." if sealed["seeds"][MOST_NAMES:] else "")
        yield f"sealed: nonce {sealed['nonce']!r}, inference {sealed['inference'][:16]}, seeds {seeds}"
        yield f"sealed runs are logged in {sealed['log']}"


def _by_machine(own: Mapping[str, Any]) -> Iterator[str]:
    """Shares of machines and rows; brackets hold 95 % intervals over machines."""
    yield f"machines without a wrong row: {proportion(own['without_wrong'])}"
    yield from (f"rows {what}: {proportion(own[name])}" for name, what in SHARES.items())


def _against(against: Mapping[str, Any]) -> Iterator[str]:
    difference = against["difference"]
    yield f"against {against['file']} (inference {against['inference'][:12]}), which has:"
    yield from (f"  {line}" for line in _by_machine(against["by_machine"]))
    yield f"  more than that, on {difference['machines']} machines, of {difference['rows']} rows:"
    for name, shift in difference["points"].items():
        if shift["difference"] is not None:
            limits = "" if shift["low"] is None else f" [{100 * shift['low']:+.2f}, {100 * shift['high']:+.2f}]"
            yield f"  {SHARES[name]}: {100 * shift['difference']:+.2f} points{limits}"
    if not against["same_simulator"]:
        yield "  it was run on another simulator than this one"
    for parameter, steps in difference["parameters"].items():
        yield f"  {parameter}: " + ", ".join(f"{step} {machines}" for step, machines in steps.items())
