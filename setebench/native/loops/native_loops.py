"""The compiled loops on this CPU: prepared, and timed in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError, UsageError
from setebench.loops import HINTS, LOOP_NAMES, Policy
from setebench.loops.shapes import shape
from setebench.native.loops import _loops
from setebench.native.loops.data import LARGEST_DISTANCE, Data, prepare
from setebench.native.memory import available_bytes
from setebench.text import in_bytes

BUILDING_FACTOR = 6
"""Memory that building a loop takes meanwhile, beside its bytes: a tree's keys in three orders."""


class NativeLoops:
    """The loops, one of them prepared at a time. `hints` are those that the CPU has."""

    def __init__(self, hints: Sequence[str]) -> None:
        self._hints = tuple(hints)
        self._ready: Data | None = None
        self._pass = 0

    def run(self, name: str, policies: Sequence[Policy], rounds: int, seed: int) -> NDArray[np.int64]:
        """See `RunsLoops.run_loop`, on the CPU that the calling thread is pinned to."""
        prepared = self._prepared(name)
        runs = [(self.version(prepared, policy), policy) for policy in policies]
        rng = np.random.default_rng(seed)
        ticks = np.empty((1 + rounds, len(policies)))
        for row in ticks:
            for which in rng.permutation(len(policies)):
                row[which] = self._timed(prepared, *runs[which])
        one_pass = prepared.loop.iterations / (prepared.each * prepared.repeats)
        return np.rint(ticks[1:] * one_pass).astype(np.int64)  # the first round warmed code and pages

    def close(self) -> None:
        """Give back the memory of the loop that is prepared."""
        self._ready = None

    def version(self, prepared: Data, policy: Policy) -> int:
        """The address of the code that a policy needs. Raises `UsageError` for a distance beyond the loop's arrays,
        `UnsupportedError` for a hint that the CPU lacks."""
        if policy.furthest > LARGEST_DISTANCE:
            unit = prepared.loop.unit
            raise UsageError(f"this loop prefetches up to {LARGEST_DISTANCE} {unit} ahead, not {policy.furthest}")
        for _, _, hint in policy.parts:
            if hint not in self._hints:
                raise UnsupportedError(f"this CPU has no prefetch {hint}; it has {', '.join(self._hints) or 'none'}")
        hints = {level: 1 + HINTS.index(hint) for level, _, hint in policy.parts}
        number = LOOP_NAMES.index(prepared.loop.name.partition("@")[0])
        return _loops.version(number, hints.get("l1", 0), hints.get("l2", 0))

    def _prepared(self, name: str) -> Data:
        """A loop with its data. Raises `UnsupportedError` where there is no memory for it."""
        if self._ready is None or self._ready.loop.name != name:
            self.close()
            loop = shape(name)
            needed, available = BUILDING_FACTOR * loop.working_set_bytes, available_bytes()
            if needed > available:
                there = f"{in_bytes(available)} are available"
                raise UnsupportedError(f"{name!r} takes {in_bytes(needed)} while it is prepared, and {there}")
            self._ready, self._pass = prepare(loop), 0
        return self._ready

    def _timed(self, prepared: Data, code: int, policy: Policy) -> int:
        """Ticks of going through the next part of the data."""
        first = prepared.begin(self._pass)
        self._pass += 1
        operands = prepared.operands(first, policy)
        return _loops.ticks(code, operands.ctypes.data, prepared.repeats, *prepared.lead(first, policy.furthest))
