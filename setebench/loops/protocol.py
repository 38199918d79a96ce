"""The capability of a machine to run whole loops with a prefetch policy. Optional, as all of `setebench.machine`'s
capabilities are: where a machine lacks it, `setebench.loops.traces` turns the same loops into probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from setebench.loops.records import Policy


@runtime_checkable
class RunsLoops(Protocol):
    """A machine with compiled loops: this CPU."""

    def loop_names(self) -> tuple[str, ...]:
        """The loops that it can run here: one whose instructions or memory are missing is left out."""
        ...

    def run_loop(
        self, name: str, policies: Sequence[Policy], rounds: int, *, cpu: int | None = None, seed: int = 1
    ) -> NDArray[np.int64]:
        """Ticks of one pass of the loop (`Loop.iterations`), int64, shape (rounds, len(policies)): in every round each
        policy once, in an order drawn anew, from the same state of the data. What a policy without any prefetch runs
        holds no prefetch instruction.

        Raises `UsageError` for an unknown name, `UnsupportedError` for a hint that the machine lacks."""
        ...
