from collections.abc import Mapping, Sequence
from typing import Any

class Passes:
    def __init__(
        self,
        machine: Mapping[str, Any],
        streams: Sequence[Mapping[str, Any]],
        prefetchers: Sequence[Mapping[str, Any]],
    ) -> None: ...
    def cycles(
        self,
        stages: Sequence[tuple[int, int]],
        core: tuple[float, bool, bool, int],
        span: tuple[float, int, int],
        latency_factor: float = 1.0,
    ) -> float: ...
