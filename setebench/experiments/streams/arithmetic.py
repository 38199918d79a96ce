"""Whether a kernel computed what it should: every number that it could have written, compared bit by bit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.streams.choice import WIDTHS
from setebench.machine import ComparesNumbers
from setebench.probe import Base, Probe
from setebench.probe.kernels import Kernel, array_spacing, reduction, stream_bytes
from setebench.scenario import Context

CHECKED_BYTES = 8192
"""Of a data set whose results are checked: 128 blocks, far more than a loop unrolls."""


def check_all(context: Context, kernels: Iterable[tuple[Kernel, str]]) -> dict[str, str]:
    """Kernels (with a width, as `load.64`) whose arithmetic is wrong, and how; the evidence lists which were
    checked."""
    results: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for kernel, width in kernels:
        name = f"{kernel.name}.{width}"
        try:
            each = [wrong_arithmetic(context, kernel, WIDTHS[width], context.cpu, rolled) for rolled in kernel.forms]
            found = next(filter(None, each), None)
        except UnsupportedError as error:
            results[name] = f"not checked: {error}"
            continue
        results[name] = found or "right"
        if found:
            wrong[name] = found
    context.evidence["arithmetic"] = dict(sorted(results.items()))
    return wrong


def wrong_arithmetic(
    context: Context, kernel: Kernel, width: int, cpu: int | None = None, rolled: bool = False
) -> str | None:
    """Run one form of a kernel once over random numbers and compare everything it could have written, bit by bit.

    Returns None if all is right, else what is wrong. Raises `UnsupportedError` where memory can't be looked at."""
    machine = context.machine
    if not isinstance(machine, ComparesNumbers):
        raise UnsupportedError(f"the memory of {machine.facts.name} holds no numbers that could be looked at")
    base = Base("checked")
    region = machine.allocate(stream_bytes(kernel, CHECKED_BYTES), min(machine.facts.page_sizes))
    try:
        before = context.rng(77).random(region.size // 8)
        machine.write_numbers(region, before)
        probe = Probe().stream(base, kernel.name, CHECKED_BYTES, width, rolled=rolled).fence()
        machine.run(probe, {base: [region.address]}, cpu=cpu)
        expected = _expected(kernel, before, width)
        found = machine.first_difference(region, expected)
    finally:
        machine.release(region)
    if found is None:
        return None
    loop = " (rolled loop)" if rolled else ""
    is_now = f"number {found.at} of its memory is {found.value}"
    return f"{kernel.name}{loop}: {is_now}, but {kernel.formula} makes it {expected[found.at]}"


def _expected(kernel: Kernel, memory: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The whole memory of a checked stream after one pass; what is no array must stay as it is."""
    elements, spacing = CHECKED_BYTES // 8, array_spacing(CHECKED_BYTES) // 8
    arrays = [memory[n * spacing : n * spacing + elements] for n in range(kernel.arrays)]
    if kernel.reduces:
        sums = reduction(kernel, arrays, width)
        memory[elements : elements + len(sums)] = sums
    if kernel.expected is not None:
        for array, numbers in zip(arrays, [each.copy() for each in kernel.expected(arrays)], strict=True):
            array[:] = numbers
    return memory
