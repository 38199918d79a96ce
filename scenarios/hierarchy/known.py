"""What one time found that later times need."""

from __future__ import annotations

from dataclasses import dataclass, field

from setebench.hierarchy.faults import FirstTouches
from setebench.hierarchy.outer import Outer


@dataclass
class Known:
    """What one time found that later times need."""

    faults: dict[str, FirstTouches]
    most_lines: int = 0
    way_bytes: int = 0
    fits: int = 0
    outer: dict[str, Outer] = field(default_factory=dict)
