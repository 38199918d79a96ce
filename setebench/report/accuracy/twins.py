"""The part of the accuracy page on twins: how well they predict their machines, and how often the check that says so is
right itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]

READING = """\
A [twin](twin.md) of a result is [verified](verify.md) on random probes. Levels predicted are relative to how often the
machine agrees with itself; a quiet twin may do better than a noisy machine, so above 100 %."""

CHANGES = {"visible": "at least 2 % of the probes", "fewer": "fewer", "none": "none"}


def twins(document: Document) -> Iterator[str]:
    """Both tables, as far as the document has them."""
    predicted, verifier = document.get("twins"), document.get("verifier")
    if predicted or verifier:
        yield from ("", "## Twins", "", READING)
    if predicted:
        yield from _predicted(predicted)
    if verifier:
        yield from _verifier(verifier)


def _predicted(found: Document) -> Iterator[str]:
    yield from ("", f"Twins of what was found, {found['machines']} machines, {found['probes']} probes each:", "")
    yield from (f"    {line}" for line in found["commands"])
    yield ""
    yield "| twins of | least | 10 % | 25 % | median | 75 % | at 99 % or more | contradicted |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for of, each in found["of"].items():
        quantiles = (f"{each['quantiles'][key]:.1f} %" for key in ("0", "10", "25", "50", "75"))
        yield f"| what is {of} | {' | '.join(quantiles)} | {_of(each['at_goal'])} | {_of(each['contradicted'])} |"


def _verifier(found: Document) -> Iterator[str]:
    yield from ("", f"The check itself, {found['machines']} machines, {found['probes']} probes each:", "")
    yield from (f"    {line}" for line in found["commands"])
    yield from ("", "| twins | contradicted | levels predicted |", "| --- | --- | --- |")
    for key, text in (("exact", "exact"), ("of findings", "of what is true")):
        each = found["alike"][key]
        yield f"| {text} | {_of(each['contradicted'])} | median {each['median']:.1f} %, least {each['least']:.1f} % |"
    for key, text in CHANGES.items():
        yield f"| with a changed field that shifts {text} | {_of(found['changed'][key])} | |"


def _of(part: Document) -> str:
    if not part["trials"]:
        return "none"
    return f"{part['hits']} of {part['trials']} [{100 * part['low']:.0f}, {100 * part['high']:.0f} %]"
