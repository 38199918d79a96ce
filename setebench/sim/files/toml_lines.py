"""On which line of a TOML text each key stands, so that a message can name it. `tomllib` itself doesn't say."""

from __future__ import annotations

import re
import tomllib

Path = tuple[str | int, ...]
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=")


def key_lines(text: str) -> dict[Path, int]:
    """Line number (from 1) of each key of `text`, by its path of keys and list indices, and of each header that opens a
    table, by that of the table. What stands within a value is on the line of its key, and has none of its own."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = ()
            keys = _keys(header[2])
            for depth, key in enumerate(keys, 1):
                table = (*table, key)
                if header[1] == "[[" and depth == len(keys):
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    found.setdefault(table, number)
                    table = (*table, counts[table])
                found.setdefault(table, number)
        elif assigned := _KEY.match(line):
            path = table
            for part in _keys(assigned[1]):
                path = (*path, part)
                found.setdefault(path, number)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of `path` or, where that is not in the text, of the nearest table around it; 1 at worst."""
    return next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), 1)


def _keys(dotted: str) -> list[str]:
    """The keys of a dotted one; what is no key by itself, being a line within some text, gives any."""
    try:
        node = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return [dotted]
    keys = []
    while isinstance(node, dict):
        ((key, node),) = node.items()
        keys.append(key)
    return keys
