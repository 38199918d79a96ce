"""What one time found that later times need."""

from __future__ import annotations

from dataclasses import dataclass, field

from .faults import FirstTouches
from .outer_caches import OuterCache
from .tlbs import Tlbs


@dataclass
class Known:
    """What one time found that later times need."""

    faults: dict[str, FirstTouches]
    outer: dict[str, OuterCache] = field(default_factory=dict)
    small: Tlbs | None = None
    large: Tlbs | None = None
