"""A twin as a machine file: TOML with the origin of every field as a comment above it, and as data in `[origins]`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from setebench.sim.files.dump import dump, literal
from setebench.sim.files.origins import TABLE, Origin, field_name
from setebench.sim.files.toml_lines import Path, key_lines
from setebench.text import remark
from setebench.truth.twin.make import Twin

WIDTH = 116
ORDER = ("measured", "bounded", "assumed", "fitted")


def as_toml(twin: Twin) -> str:
    """The text of the machine file, which `setebench.sim.files.loader.parse` reads."""
    plain = dump(twin.machine)
    below = _comments_by_line(twin, plain)
    lines = list(_head(twin))
    for number, line in enumerate(plain.splitlines(), 1):
        lines += below.get(number, [])
        lines.append(line)
    lines += ["", f"[{TABLE}]", *(_data(path, origin) for path, origin in twin.origins.items())]
    return "\n".join(lines) + "\n"


def _head(twin: Twin) -> Iterator[str]:
    kinds = [origin.origin for origin in twin.origins.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ORDER if kind in kinds)
    yield from _comment(f"{twin.machine.name}: {counts} fields.")
    yield "# measured: found, in this interval; bounded: a bound or an interval stands for it; assumed: not measured."
    for path, origin in twin.origins.items():
        if origin.origin == "fitted" and path != ("prefetchers",):
            yield from _comment(f"fitted: {field_name(path)}: {origin.why}")
    for parameter, reason in twin.set_aside.items():
        yield from _comment(f"set aside: {parameter}, which contradicts other findings: {reason}")
    if ("prefetchers",) in twin.origins:
        yield from _comment(f"prefetchers: {said(twin.origins['prefetchers',])}")
    yield ""


def _comments_by_line(twin: Twin, text: str) -> dict[int, list[str]]:
    """Comments by the number of the line that they stand above. Fields of an inline table stand in its line."""
    places = key_lines(text)
    found: dict[int, list[str]] = {}
    for path, origin in twin.origins.items():
        line = places.get(path)
        if line is not None and path != ("prefetchers",):
            prefix = f"{path[-1]}: " if line in found else ""
            found.setdefault(line, []).extend(_comment(prefix + said(origin)))
    return found


def said(origin: Origin) -> str:
    """An origin in words."""
    parts: list[str] = [origin.origin]
    if origin.low is not None or origin.high is not None:
        ends = ("-" if end is None else f"{end:.6g}" for end in (origin.low, origin.high))
        parts.append(f"[{', '.join(ends)}]")
    if origin.parameters:
        parts.append(f"from {', '.join(origin.parameters)}")
    return " ".join(parts) + (f": {origin.why}" if origin.why else "")


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(remark(text), WIDTH))


def _data(path: Path, origin: Origin) -> str:
    """One line of `[origins]`: what is empty is left out."""
    fields = [f"origin = {literal(origin.origin)}"]
    ends = (("low", origin.low), ("high", origin.high))
    fields += [f"{name} = {_number(end)}" for name, end in ends if end is not None]
    if origin.parameters:
        fields.append(f"parameters = {literal(origin.parameters)}")
    if origin.why:
        fields.append(f"why = {literal(origin.why)}")
    return f"{literal(field_name(path))} = {{{', '.join(fields)}}}"


def _number(value: float) -> str:
    return repr(float(value))
