"""A machine file while it is being made: values and origins by path."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from setebench.sim.files.origins import Origin
from setebench.sim.files.toml_lines import Path
from setebench.truth.twin.readings import Reading


@dataclass
class Draft:
    """`data` is what a TOML parser would have read so far; `origins` say where each of its fields comes from."""

    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)

    def put(self, path: Path, reading: Reading | None, value: Any = None) -> bool:
        """Fill a field from a reading (with another `value` than the reading's where the field wants it so). False,
        and nothing done, without a reading."""
        if reading is None:
            return False
        self._set(path, reading.value if value is None else value)
        self.origins[path] = reading.origin
        return True

    def assume(self, path: Path, value: Any, why: str) -> None:
        """Fill a field that nobody measured."""
        self._set(path, value)
        self.origins[path] = Origin(origin="assumed", why=why)

    def get(self, path: Path) -> Any:
        """What stands there; None where nothing does."""
        node: Any = self.data
        for part in path:
            if isinstance(part, int):
                node = node[part] if isinstance(node, list) and part < len(node) else None
            else:
                node = node.get(part) if isinstance(node, dict) else None
        return node

    def _set(self, path: Path, value: Any) -> None:
        node: Any = self.data
        for part, after in itertools.pairwise(path):
            empty: Any = [] if isinstance(after, int) else {}
            if isinstance(part, int):
                while len(node) <= part:
                    node.append({})
                node = node[part]
            else:
                node = node.setdefault(part, empty)
        node[path[-1]] = value
