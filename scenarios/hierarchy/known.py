"""What one time found that later times need."""

from __future__ import annotations

from dataclasses import dataclass, field

from setebench.hierarchy.faults import FirstTouches
from setebench.hierarchy.outer import Outer

from .tlbs import Tlbs


@dataclass
class Known:
    """What one time found that later times need."""

    faults: dict[str, FirstTouches]
    outer: dict[str, Outer] = field(default_factory=dict)
    small: Tlbs | None = None
    large: Tlbs | None = None
