"""The score document as text: a table of parameters, and below it what qualifies the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from setebench.report.accuracy.repeated import printed

COLUMNS = {
    "right": "right",
    "at least": "at_least",
    "near": "near_bounds",
    "wrong": "wrong",
    "unresolved": "unresolved",
}
ROWS = {
    "right": "right",
    "bounded": "bounded within 20 % of the truth",
    "open": "open (also bounds further off)",
    "wrong": "wrong",
}
"""Shares of rows, and what they are called."""

MOST_NAMES = 12
"""Parameters that a line names; the JSON has all."""


def render(document: Mapping[str, Any], width: int | None = None) -> str:
    """Parameters of which anything was reported, one a row; shares and remarks; every wrong one with its seed.

    `at least` counts those of the right ones that are bounds only, `near` those of these within 20 % of the truth;
    `width` is the median width of measured intervals relative to the truth."""
    known = {name: count for name, count in document["parameters"].items() if count["right"] or count["wrong"]}
    shares = ("interval_coverage", "median_width")
    rows = [
        [name, *(str(count[key]) for key in COLUMNS.values())]
        + ["" if count[key] is None else f"{count[key]:.1%}" for key in shares]
        for name, count in known.items()
    ]
    silent = len(document["parameters"]) - len(known)
    table = printed([(["parameter", *COLUMNS, "coverage", "width"], rows)], width)
    return table + "\n".join(_lines(document, silent)) + "\n"


def _lines(document: Mapping[str, Any], silent: int) -> Iterator[str]:
    yield f"{len(document['machines'])} machines, seed {document['seed']}:"
    yield from _by_machine(document["by_machine"])
    for key, what in (
        ("continuous", "95 % intervals of continuous parameters that hold the truth"),
        ("counts", "counts that are wrong"),
        ("categories", "categories that are wrong"),
    ):
        if document["calibration"][key]["trials"]:
            yield f"measured {what}: {_proportion(document['calibration'][key])}"
    if silent:
        yield f"{silent} further parameters were never reported (all unresolved)"
    for key, what in (
        ("constant", "nearly the same on all machines, so that right answers count nowhere"),
        ("never_judged", "reported, but never judged"),
    ):
        if names := [entry["parameter"] for entry in document[key]]:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            yield f"{len(names)} parameters {what}: {', '.join(names[:MOST_NAMES])}{more}"
    yield from _regret(document.get("regret") or {})
    for item in document["wrong"]:
        yield (
            f"wrong: --machine sim:{item['machine']} --seed {item['seed']}: {item['parameter']} reported "
            f"{item['value']!r} ({item['outcome']}), truth {item['truth']!r}"
        )
    yield from map(_failure, document["failures"])
    yield from (f"lost: {item['machine']}: {item['reason']}" for item in document["lost"])
    if document.get("against"):
        yield from _against(document["against"])
    if sealed := document.get("sealed"):
        seeds = ", ".join(map(str, sealed["seeds"][:MOST_NAMES])) + (", ..." if sealed["seeds"][MOST_NAMES:] else "")
        yield f"sealed: nonce {sealed['nonce']!r}, inference {sealed['inference'][:16]}, seeds {seeds}"
        yield f"sealed runs are logged in {sealed['log']}"


def _by_machine(own: Mapping[str, Any]) -> Iterator[str]:
    """Shares of machines and rows; brackets hold 95 % intervals over machines."""
    yield f"machines without a wrong row: {_proportion(own['without_wrong'])}"
    for name, what in ROWS.items():
        yield f"rows {what}: {_proportion(own[name])}"


def _proportion(part: Mapping[str, Any]) -> str:
    if not part["trials"]:
        return "none"
    limits = "" if part["low"] is None else f", [{part['low']:.1%}, {part['high']:.1%}]"
    return f"{part['hits']} of {part['trials']} ({part['fraction']:.1%}{limits})"


def _regret(regret: Mapping[str, Any]) -> Iterator[str]:
    for name, what in (("all", "prefetch advice"), ("table", "by the table alone, without trials")):
        if own := regret.get(name):
            yield (
                f"{what}: regret median {own['median']} %, 95th percentile {own['percentile_95']} %, worst "
                f"{own['worst']} %, at most 5 % in {own['right']:.1%} of {own['cases']} cases"
            )
    if regret:
        yield f"prefetch advice slower than no prefetch by more than 3 %: {regret['slower_than_none']} cases"


def _failure(item: Mapping[str, Any]) -> str:
    return f"{'crashed' if item['crashed'] else 'not run'}: {item['machine']}, {item['scenario']}: {item['reason']}"


def _against(against: Mapping[str, Any]) -> Iterator[str]:
    difference = against["difference"]
    yield f"against {against['file']} (inference {against['inference'][:12]}), which has:"
    yield from (f"  {line}" for line in _by_machine(against["by_machine"]))
    yield f"  more than that, on {difference['machines']} machines, of {difference['rows']} rows that both report:"
    for name, shift in difference["points"].items():
        if shift["difference"] is not None:
            limits = "" if shift["low"] is None else f" [{100 * shift['low']:+.2f}, {100 * shift['high']:+.2f}]"
            yield f"  {ROWS[name]}: {100 * shift['difference']:+.2f} points{limits}"
    for key, what in (("only_old", "no longer reported"), ("only_new", "newly reported")):
        if own := difference[key]:
            yield f"  {what}: {', '.join(f'{row} (right on {right})' for row, right in own.items())}"
    if not against["same_simulator"]:
        yield "  it was run on another simulator than this one"
    for parameter, steps in difference["parameters"].items():
        yield f"  {parameter}: " + ", ".join(f"{step} {machines}" for step, machines in steps.items())
    yield from (f"  {_failure(item)}" for item in against["failures"])
