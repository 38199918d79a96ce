"""The pattern notation: probes as text that people write and read.

    flush a; fence m; start; load a+64; stop

One statement per operation, separated by `;` or line ends; `#` starts a comment. docs/notation.md describes it in full.
`render` writes what `parse` reads: `parse(render(probe)) == probe` for every probe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from setebench.probe import InstructionAddress, Kind, Operand, Operation, Probe
from setebench.probe.notation_reader import PLAIN_BASE, PLAIN_NAME, read


def parse(text: str) -> Probe:
    """The probe that `text` describes.

    Raises `ProbeError`: one line with the statement's number, its place, and what is allowed there."""
    return read(text)


def render(probe: Probe) -> str:
    """The probe as one line of statements."""
    return _joined(statements(probe))


def statements(probe: Probe) -> list[str]:
    """One text per row of the probe; a repeat's ends with `{`, and its end is `}`."""
    loads: dict[int, int] = {}
    texts = []
    for row, operation in enumerate(probe.operations):
        back = None if operation.after is None else loads[operation.after] - len(loads)
        texts.append(_statement(operation, back))
        if operation.kind in (Kind.LOAD, Kind.CHASE):
            loads[row] = len(loads)
    return texts


def _joined(texts: Iterable[str]) -> str:
    parts: list[str] = []
    for text in texts:
        if parts:
            parts.append(" " if text == "}" or parts[-1].endswith("{") else "; ")
        parts.append(text)
    return "".join(parts)


def _statement(operation: Operation, back: int | None) -> str:
    """`back` counts the loads back to the one whose value the address depends on: -1 is the latest. Counted so it means
    the same in a repeated body, which knows of its own loads only, as it is built on its own."""
    kind = operation.kind
    if kind == Kind.END:
        return "}"
    parts = [kind.name.lower(), *_arguments(operation)]
    parts += _variant(operation)
    if operation.size not in (0, 8):
        parts.append(f"{'width' if kind == Kind.STREAM else 'size'}={operation.size}")
    if operation.ip is not None:
        parts += _ip(operation.ip)
    if back is not None:
        parts.append(f"after={back}")
    if kind == Kind.START and not operation.dither:
        parts.append("dither=no")
    if operation.rolled:
        parts.append("rolled=yes")
    if kind == Kind.REPEAT:
        parts += [f"advance={operation.advance}"] if operation.advance else []
        parts.append("{")
    return " ".join(parts)


def _arguments(operation: Operation) -> list[str]:
    """What stands before the options."""
    operand = [] if operation.operand is None else [_operand_text(operation.operand)]
    kernel = [operation.variant] if operation.kind == Kind.STREAM else []
    return operand + kernel + [str(number) for number in (operation.count, operation.interval) if number]


def _variant(operation: Operation) -> list[str]:
    variant = operation.variant
    if operation.kind == Kind.FENCE:
        return [variant]
    if operation.kind == Kind.MULTIPLY:
        return [variant] if variant == "free" else []
    if operation.kind == Kind.STREAM:
        return []
    option = {
        Kind.PREFETCH: "hint",
        Kind.FLUSH: "how",
        Kind.START: "bracket",
        Kind.STOP: "bracket",
        Kind.CHASE: "work",
    }
    usual = ("", "t0", "clflush")
    return [f"{option[operation.kind]}={variant}"] if variant not in usual else []


def _operand_text(operand: Operand) -> str:
    name = operand.base.name
    text = name if PLAIN_BASE.fullmatch(name) else json.dumps(name)
    return f"{text}{operand.offset:+d}" if operand.offset else text


def _ip(address: InstructionAddress) -> list[str]:
    if address.bits is not None and address.label == f"@{address.bits:#x}":
        return [f"ip_bits={address.bits:#x}"]
    plain = PLAIN_NAME.fullmatch(address.label)
    label = f"ip={address.label if plain else json.dumps(address.label)}"
    return [label] if address.bits is None else [label, f"ip_bits={address.bits:#x}"]
