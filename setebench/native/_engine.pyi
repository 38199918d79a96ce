from typing import Any

import numpy as np
from numpy.typing import NDArray

def snippets() -> list[dict[str, Any]]: ...
def prepare(features: frozenset[str]) -> None: ...
def available(name: str) -> bool: ...
def guard_install() -> None: ...
def guard_remove() -> None: ...
def cpuid(leaf: int, subleaf: int = 0) -> tuple[int, int, int, int]: ...
def cpuid_ticks(calls: int) -> NDArray[np.int64]: ...
def clock_pair(tries: int) -> tuple[int, int]: ...

class Meeting:
    def __init__(self, threads: int) -> None: ...
    def abandon(self) -> None: ...

class Stitched:
    code_bytes: int
    bases: int
    intervals: int
    dithers: int
    operations_begin: int
    operation_ends: list[int]
    stubs: list[tuple[int, int, int]]
    def __init__(
        self,
        rows: NDArray[np.int64],
        bases: int,
        intervals: int,
        placed: list[int | None],
        bracket: int,
        together: bool,
        to_run: bool = True,
    ) -> None: ...
    @property
    def address(self) -> int: ...
    def code_at(self) -> bytes: ...
    def run(
        self,
        rows: NDArray[np.int64],
        results: NDArray[np.int64],
        dither: NDArray[np.int32],
        meeting: Meeting | None = None,
        counters: NDArray[np.int32] | None = None,
        spent: NDArray[np.int64] | None = None,
    ) -> tuple[int, int, int] | None: ...
