"""How kernel functions are marked: `@compiled` and `@inlined` helpers.

The functions stay plain Python, which some truths are found by running. Only `machine_code` imports the compiler, once
a machine is run.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Any, TypeVar

Ints = MutableSequence[int]
"""In a helper: a bare pointer to 64-bit integers, without bounds or reference counts: no negative index, no slice."""
Floats = MutableSequence[float]
"""In a helper: a bare pointer to floating-point numbers."""
IntArray = Any
"""In the entry: a contiguous array of int64. `Any`, as only Numba knows that its `ctypes` is such a pointer."""
FloatArray = Any
"""In the entry: a contiguous array of float64."""
Table = Any
"""In the entry: a contiguous two-dimensional array of int64."""

LANES = 8
"""Words that the host compares at once: a line of its caches."""

F = TypeVar("F", bound=Callable[..., Any])
MARKED: dict[Callable[..., Any], dict[str, Any]] = {}
"""Helpers in the order of their definition, callees before callers, with the options that Numba gets for each."""
_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Mark a helper of the kernel."""
    MARKED[function] = _OPTIONS
    return function


def inlined(function: F) -> F:
    """Mark a small helper on the path of every access: it is pasted into its callers."""
    MARKED[function] = {"forceinline": True, **_OPTIONS}
    return function


# -- instructions of the host that Python has no word for; `machine_code` has one of each name ----------------------


def equal_words(array: Ints, index: int, shift: int, value: int) -> int:
    """Which of the eight words from `array[index]` on equal `value` when shifted right, as a mask."""
    return sum((array[index + lane] >> shift == value) << lane for lane in range(LANES))


def smallest_word(array: Ints, index: int, number: int, shift: int, mask: int) -> int:
    """The smallest of the first `number` of eight words from `array[index]` on, each shifted left, cut by the mask, and
    with its place, 0 to 7, in the lowest bits."""
    return min((array[index + lane] << shift) & mask | lane for lane in range(number))


def first_bit(word: int) -> int:
    """The number of the lowest bit that is set, of a word that is not 0."""
    return (word & -word).bit_length() - 1
