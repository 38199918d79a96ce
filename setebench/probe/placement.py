"""Placements: at which addresses the bases of a probe lie, repetition by repetition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.errors import ProbeError
from setebench.probe.operands import Base
from setebench.probe.program import Probe

Placements = Mapping[Base, ArrayLike] | int
"""For every base one address per repetition (or one for all); for a probe without bases the number of repetitions."""


def _addresses(base: Base, given: ArrayLike) -> NDArray[np.int64]:
    """`given` as int64, never rounded or wrapped: an address that is a little wrong measures something else."""
    column = np.asarray(given)
    if column.ndim > 1:
        raise ProbeError(f"{base.name} needs one address per repetition, not an array of {column.ndim} dimensions")
    fits = column.dtype.kind == "i" or (column.dtype.kind == "u" and not (column > np.iinfo(np.int64).max).any())
    if column.size and not fits:
        raise ProbeError(f"{base.name} has an address that is no signed 64-bit integer")
    return column.astype(np.int64, copy=False)


def placement_table(probe: Probe, placements: Placements) -> NDArray[np.int64]:
    """The addresses of `probe.bases`, shape (repetitions, bases), C-contiguous int64.

    Bases of the mapping that the probe does not use still say how many repetitions there are.
    Raises `ProbeError` for a missing base, arrays of different lengths, or addresses that are no 64-bit integers.
    """
    if isinstance(placements, int):
        if probe.bases:
            raise ProbeError(f"no placement for {', '.join(base.name for base in probe.bases)}")
        if placements < 0:
            raise ProbeError(f"the number of repetitions can't be {placements}")
        return np.empty((placements, 0), dtype=np.int64)
    columns = {base: _addresses(base, given) for base, given in placements.items()}
    lengths = {len(column) for column in columns.values() if column.ndim}
    if len(lengths) > 1:
        raise ProbeError(f"placements differ in length: {sorted(lengths)}")
    repetitions = lengths.pop() if lengths else 1
    missing = [base.name for base in probe.bases if base not in columns]
    if missing:
        raise ProbeError(f"no placement for {', '.join(missing)}")
    table = np.empty((repetitions, len(probe.bases)), dtype=np.int64)
    for index, base in enumerate(probe.bases):
        table[:, index] = columns[base]
    return table
