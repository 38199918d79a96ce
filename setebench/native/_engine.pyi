from typing import Any

import numpy as np
from numpy.typing import NDArray

def snippets() -> list[dict[str, Any]]: ...
def guard_install() -> None: ...
def cpuid(leaf: int, subleaf: int = 0) -> tuple[int, int, int, int]: ...
def rdtsc() -> int: ...

class Meeting:
    def __init__(self, threads: int) -> None: ...
    def abandon(self) -> None: ...

def run(
    code: int,
    code_bytes: int,
    rows: NDArray[np.int64],
    results: NDArray[np.int64],
    dither: NDArray[np.int32],
    meeting: Meeting | None,
    counters: NDArray[np.int32] | None,
    spent: NDArray[np.int64] | None,
) -> tuple[int, int, int] | None: ...
