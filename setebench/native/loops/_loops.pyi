from collections.abc import Sequence

class Version:
    def __init__(self, loop: int, l1_hint: int, l2_hint: int, compiler: bool = False) -> None: ...
    @property
    def address(self) -> int: ...

class Operands:
    def __init__(self, addresses: Sequence[int], sizes: Sequence[int]) -> None: ...
    def run(
        self,
        version: Version,
        first: int,
        count: int,
        l1_distance: int,
        l2_distance: int,
        passes: int = 1,
        before: int = 0,
        lead: int = 0,
    ) -> tuple[int, int]: ...
