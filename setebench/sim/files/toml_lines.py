"""On which line of a TOML text each key stands, so that a message can name it. `tomllib` itself doesn't say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'  # multi-line strings, which may end in up to two more quotes
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}\n]"
    r"|[^\"'\#\[\]{}\n]+",
    re.DOTALL,
)


def key_lines(text: str) -> dict[Path, int]:
    """Line number (from 1) of each key of `text`, a valid TOML document, by its path of keys and list indices.

    A table's own path maps to the line of its header, or of the first header inside it. Paths inside a list or inline
    table map to the line where that value's key stands.
    """
    found: dict[Path, int] = {}
    arrays: dict[Path, int] = {}
    prefix: Path = ()
    for line, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            prefix = _header(parsed, arrays)
            for length in range(1, len(prefix) + 1):
                found.setdefault(prefix[:length], line)
            continue
        for path in _paths(parsed):
            found.setdefault(prefix + path, line)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of `path` or, where that is not in the text, of the nearest table around it; 1 at worst."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of each header and each key with its value, comments aside."""
    parts: list[str] = []
    line = first = 1
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n" and depth == 0:
            if "".join(parts).strip():
                yield first, "".join(parts)
            parts, first = [], line + 1
        elif not token.startswith("#"):
            parts.append(token)
        depth += (token in "[{") - (token in "]}")
        line += token.count("\n")
    if "".join(parts).strip():
        yield first, "".join(parts)


def _header(parsed: dict[str, Any], arrays: dict[Path, int]) -> Path:
    """The path that a `[table]` or `[[table]]` header opens; `arrays` counts the tables of each list so far."""
    path: Path = ()
    node: Any = parsed
    while isinstance(node, dict) and node:
        ((key, node),) = node.items()
        path = (*path, key)
        if isinstance(node, list):
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path = (*path, arrays[path])
    return path


def _paths(node: Any) -> Iterator[Path]:
    """Paths of everything in a parsed value, without recursion (a hostile file may nest deeply)."""
    pending: list[tuple[Path, Any]] = [((), node)]
    while pending:
        path, value = pending.pop()
        if path:
            yield path
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        pending.extend(((*path, key), inner) for key, inner in items)
